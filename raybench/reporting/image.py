"""A figure of a report, or a card with its answer, as an image file: SVG, or PNG and PDF by matplotlib."""

from __future__ import annotations

import re
import textwrap
from contextlib import suppress
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raybench.analysis.answer import Answer
from raybench.core.text import join_words, plural
from raybench.errors import UsageError, nearest
from raybench.reporting import figures
from raybench.reporting.report import Report
from raybench.reporting.words.best import best_texts
from raybench.reporting.words.captions import hardware_text, machines_text
from raybench.reporting.words.rows import BestText
from raybench.reporting.words.status import status_sentences, trust_sentence

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".svg", ".png", ".pdf")

CARD_PX, CARD_DPI = (1200, 630), 200  # width and height of a card, as social networks and chats show it

PIXELS = b'width="%dpx" height="%dpx"' % CARD_PX

ROWS = 5  # most configurations in the figure of a card, besides further references

MARGIN_PT, LINE, LETTERS = 18.0, 1.35, (0.66, 0.56)
"""Margin of a card; height of a line, and widths of a bold and of a normal letter, as parts of the size of the font."""


def figure_image(report: Report, path: Path) -> bytes:
    """Return the figure that a file is named after, such as `speed.svg`.

    Raises:
        UsageError: there is no such figure or format, or the grid has no data for it.
    """
    if path.stem not in figures.FIGURES:
        hint = nearest(path.stem, figures.FIGURES)
        raise UsageError(f"--figure {path}: the name of the file is that of a figure; {hint}")
    try:
        return _rendered(figures.draw(path.stem, report.answer), path, "--figure")
    except figures.NoDataError as error:
        raise UsageError(f"--figure {path}: {error}") from None


def card_image(report: Report, path: Path) -> bytes:
    """Return a card: the answer, the figure of speeds, machines and dates.

    Raises:
        UsageError: there is no such format.
    """
    answer = report.answer
    best = (best_texts(answer) or [BestText("")])[0]
    head = " ".join(filter(None, [*status_sentences(answer), best.name]))
    size, lines = _fitted([head, f"{best.facts} {best.rest}".strip()])
    foot = [machines_text(answer), hardware_text(answer), " to ".join(report.dates)]
    foot = [" · ".join(filter(None, [f"{answer.grid}: {plural(answer.status.completed, 'run')}", *foot]))]
    version = join_words(list(report.versions.get("raybench", ())))
    foot += [f"{trust_sentence(answer).rstrip(':.')} · raybench {version}".strip(" ·")]
    with figures.styled("card"):
        from matplotlib.figure import Figure

        card = Figure(figsize=(CARD_PX[0] / CARD_DPI, CARD_PX[1] / CARD_DPI), dpi=CARD_DPI, layout="constrained")
        height_pt = 72 * CARD_PX[1] / CARD_DPI
        top, bottom = MARGIN_PT + LINE * size * sum(map(len, lines)), MARGIN_PT + LINE * 7 * len(foot)
        parts: Any = card.subfigures(3, 1, height_ratios=[top, height_pt - top - bottom, bottom])
        texts, chart, ends = parts
        place = 1 - MARGIN_PT / top
        for block, weight in zip(lines, ("bold", "normal"), strict=True):
            for line in block:
                texts.text(MARGIN_PT / 432, place, line, fontsize=size, weight=weight, va="center")
                place -= LINE * size / top
        for number, line in enumerate(foot):
            ends.text(MARGIN_PT / 432, 1 - (number + 0.5) / (len(foot) + 1), line, fontsize=7, color="#5f6368")
        engine: Any = card.get_layout_engine()
        engine.set(w_pad=MARGIN_PT / 72)
        with suppress(figures.NoDataError):
            figures.FIGURES["speed"].draw(_first(answer), lambda **_: chart)
        image = _rendered(card, path, "--card")
        # Points, which a browser shows at their own size.
        return re.sub(rb'width="[\d.]+pt" height="[\d.]+pt"|height="[\d.]+pt" width="[\d.]+pt"', PIXELS, image, count=1)


def _first(answer: Answer) -> Answer:
    """Return an answer with times of the best configurations and of the references alone."""
    kept = {*answer.ranking[: ROWS - 1], *(row.index for row in answer.configurations if row.is_reference)}
    rows = [row if row.index in kept else replace(row, seconds=None) for row in answer.configurations]
    return replace(answer, configurations=tuple(rows))


def _fitted(texts: list[str]) -> tuple[float, list[list[str]]]:
    """Return the largest size of a font with which texts fill less than half of a card, and their lines."""
    width_pt, height_pt = (72 * size / CARD_DPI for size in CARD_PX)
    for size in (13.0, 12.0, 11.0, 10.0, 9.0, 8.0, 7.0, 6.0):
        columns = [int((width_pt - 2 * MARGIN_PT) / (width * size)) for width in LETTERS]
        lines = [textwrap.wrap(text, most, break_on_hyphens=False) for text, most in zip(texts, columns, strict=True)]
        if LINE * size * sum(map(len, lines)) < height_pt / 2 - MARGIN_PT:
            break
    return size, lines


def _rendered(figure: Figure, path: Path, option: str) -> bytes:
    if path.suffix.lower() not in FORMATS:
        raise UsageError(f"{option} {path}: {nearest(path.suffix, FORMATS)}")
    file, kind = BytesIO(), path.suffix[1:].lower()
    with figures.styled(path.stem) as _:
        from matplotlib import rcParams

        rcParams["svg.fonttype"] = "path"  # a reader may lack the font
        metadata = {"Date": None} if kind == "svg" else {"CreationDate": None} if kind == "pdf" else None
        figure.savefig(file, format=kind, dpi=CARD_DPI, metadata=metadata)
    return file.getvalue()
