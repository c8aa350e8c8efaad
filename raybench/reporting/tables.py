"""The answer, its tables and its method as Markdown or LaTeX, to paste into a text."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from raybench.errors import UsageError, nearest
from raybench.reporting.columns import configuration_columns, effect_columns, rows
from raybench.reporting.layout import AXIS, Column, fitting
from raybench.reporting.report import Report
from raybench.reporting.words.best import best_texts
from raybench.reporting.words.captions import table_caption
from raybench.reporting.words.effects import effects_note, scaling_sentences
from raybench.reporting.words.status import caution_text, mean_sentences, status_sentences, trust_sentence

PAPER = 60
"""Characters of a table that fit between the margins of a page."""

_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_LATEX |= {character: f"\\{character}" for character in "&%$#_{}"}
_LATEX |= {"−": "$-$", "–": "--", "×": r"$\times$", "→": r"$\rightarrow$", "≤": r"$\le$", "≥": r"$\ge$", "µ": r"$\mu$"}


def table_text(report: Report, path: Path) -> str:
    """Return what the ending of a file's name says; Markdown for standard output.

    Raises:
        UsageError: it is neither Markdown nor LaTeX.
    """
    if path.suffix not in (".md", ".tex") and path != Path("-"):
        raise UsageError(f"--table {path}: {nearest(path.suffix, ('.md', '.tex'))}")
    return as_latex(report) if path.suffix == ".tex" else as_markdown(report)


def as_markdown(report: Report) -> str:
    """Return the answer, its tables, the cautions and the method as Markdown."""
    answer = report.answer
    parts = [f"**{literal(answer.grid)}**", *map(literal, _sentences(report))]
    parts += [markdown_table(table) for table in _tables(report)]
    parts += [literal(table_caption(answer)), literal(trust_sentence(answer))]
    parts += [literal(caution_text(caution)) for caution in answer.trust.cautions]
    parts.append(f"Method. {literal(report.method)}")
    return "\n\n".join(filter(None, parts)) + "\n"


def as_latex(report: Report) -> str:
    """Return the tables as LaTeX with the package booktabs; the answer before, the method after them."""
    answer = report.answer
    captions = [table_caption(answer), effects_note(answer)]
    parts = ["% needs \\usepackage{booktabs}", *map(_latex, _sentences(report)), ""]
    tables = [fitting(columns, PAPER) for columns in reversed(_tables(report))]
    for columns, caption in zip(tables, captions, strict=False):
        names = " & ".join(_latex(column.head) for column in columns)
        lines = [
            " & ".join(map(_latex, row)) + r" \\" for row in zip(*(column.texts for column in columns), strict=True)
        ]
        layout = "".join("r" if column.right else "l" for column in columns)
        parts += [
            r"\begin{table}",
            rf"\caption{{{_latex(caption)}}}",
            rf"\begin{{tabular}}{{{layout}}}",
            r"\toprule",
            rf"{names} \\",
            r"\midrule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
        ]
    return "\n".join([*parts, "", _latex(report.method)]) + "\n"


def _sentences(report: Report) -> list[str]:
    answer = report.answer
    sentences = [*status_sentences(answer), *map(str, best_texts(answer)), *mean_sentences(answer)]
    return [*sentences, *scaling_sentences(answer)]


def _tables(report: Report) -> list[list[Column]]:
    answer = report.answer
    shown = [effect_columns(answer), configuration_columns(answer, rows(answer))]
    return [[column for column in columns if column.kind != AXIS] for columns in shown if columns]


def markdown_table(columns: Sequence[Column]) -> str:
    """Return columns as a table of Markdown."""
    return "\n".join(f"| {' | '.join(row)} |" for row in _markdown_rows(columns))


def _markdown_rows(columns: Sequence[Column]) -> Iterator[list[str]]:
    yield [literal(column.head) for column in columns]
    yield ["--:" if column.right else "---" for column in columns]
    yield from ([*map(literal, row)] for row in zip(*(column.texts for column in columns), strict=True))


def literal(text: str) -> str:
    """Return a text that GitHub shows as it is: no markup, link, mention of a person or reference to an issue."""
    text = re.sub(r"[\\`*_{}\[\]|~#]", r"\\\g<0>", html.escape(" ".join(text.split()), quote=False))
    # A space of no width ends what GitHub would make a mention, a reference or a link.
    return re.sub(r"(?i)(@|\\#|\bgh-|://|\bwww\.)", "\\1\u200b", text)


def _latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)
