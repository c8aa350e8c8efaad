"""Common style of figures, and their output as SVG and PNG.

Figures are readable on a phone, on paper and without colours.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from io import BytesIO, StringIO
from itertools import cycle, islice
from typing import IO, TYPE_CHECKING, Any

from raybench.errors import RaybenchError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 4.9
"""Width of a figure in inches.

On a phone of 360 points the letters are still some 9 pixels high, and on a desktop two figures fit side by side.
"""

COLOURS = ("#000000", "#0072b2", "#d55e00", "#009e73", "#8a2be2", "#7f7f7f")
"""Colours that are distinguishable with most kinds of colour blindness.

The meaning is always carried by the mark, the dash pattern or the hatch as well.
"""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.3)), (0, (6, 2, 1, 2)), (0, (9, 3)), (0, (3, 1, 1, 1, 1, 1)))

GREY = "#666666"

LETTERS: Mapping[str, Any] = {
    "font.family": ["DejaVu Sans", "sans-serif"],
    "font.size": 9.5,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9.5,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "legend.fontsize": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "axes.formatter.useoffset": False,
    "hatch.linewidth": 0.6,
    # Names from files are literal text, even with dollar signs.
    "text.parse_math": False,
    # Text as text: small files, which can be searched and read aloud.
    "svg.fonttype": "none",
}


_make_figure: ContextVar[Callable[..., Figure] | None] = ContextVar("make_figure", default=None)
"""Maker of figures; by default `matplotlib.figure.Figure`, which opens no window."""


@contextmanager
def managed_figures() -> Iterator[None]:
    """Context manager in which pyplot manages new figures, so that a notebook displays them."""
    from matplotlib import pyplot

    token = _make_figure.set(pyplot.figure)
    try:
        yield
    finally:
        _make_figure.reset(token)


class NoDataError(RaybenchError):
    """A figure has no data.

    The message gives the reason for the report's reader.
    """


@contextmanager
def styled(salt: str) -> Iterator[None]:
    """Context manager with raybench's matplotlib settings.

    The user's settings are ignored inside it and restored afterwards.

    Args:
        salt: for the ids inside an SVG; figures on one page need different ones.
    """
    # Without a home folder matplotlib uses a temporary font cache and would log two long lines about it.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    import matplotlib as mpl
    from matplotlib import rcParamsDefault

    # Do not touch the backend, or whether a notebook displays new figures.
    defaults: dict[str, Any] = {
        name: value for name, value in rcParamsDefault.items() if not name.startswith(("backend", "interactive"))
    }
    settings: Any = {**defaults, **LETTERS, "svg.hashsalt": salt}
    with mpl.rc_context(settings):
        yield


def new_figure(height: float, rows: int = 1, columns: int = 1, **options: Any) -> tuple[Figure, list[Axes]]:
    """Return a figure of this height in inches, and its panels.

    The panels are in row-major order. The caller owns it.
    """
    from matplotlib.figure import Figure

    figure = (_make_figure.get() or Figure)(figsize=(WIDTH, height), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False, **options)
    return figure, list(panels.ravel())


def svg(figure: Figure, salt: str) -> str:
    """Return the figure as an `<svg>` element to embed in a page.

    It has no prolog and no external references.
    """
    page = StringIO()
    with styled(salt):
        _save(figure, page, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = page.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    # matplotlib uses the same ids in every figure (`axes_1`), but an id has to be unique in a page.
    return re.sub(r' id="[A-Za-z][\w.]*_\d+"', "", text)


def png(figure: Figure, dpi: int = 160) -> bytes:
    """Return the figure as a PNG on white."""
    page = BytesIO()
    with styled(""):
        _save(figure, page, format="png", dpi=dpi, facecolor="white")
    return page.getvalue()


def _save(figure: Figure, page: IO[Any], **options: Any) -> None:
    """Save a figure without warnings about missing glyphs.

    Characters of names that no font has become a space or a box.
    """
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        words = text.get_text()
        shown = "".join(sign if sign.isprintable() or sign == "\n" else " " for sign in words)
        if shown != words:
            text.set_text(shown)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+", UserWarning)
        figure.savefig(page, **options)


def marks(number: int) -> list[tuple[str, str, Any]]:
    """Return a colour, marker and dash pattern for each of several lines.

    The first thirty are distinguishable without colour.
    """
    styles = zip(cycle(COLOURS), cycle(MARKERS), cycle(DASHES), strict=False)
    return list(islice(styles, number))


def fitted(name: str, max_length: int = 34) -> str:
    """Shorten a name to a maximum length.

    Characters are removed before the end, because the ends of names distinguish cells.

    Args:
        max_length: in characters.
    """
    if len(name) <= max_length:
        return name
    tail = max_length * 2 // 5
    return f"{name[: max_length - tail - 1].rstrip()}…{name[-tail:].lstrip()}"


def log_where_wide(panel: Axes, values: Sequence[float], which: str = "x", times: float = 8.0) -> bool:
    """Set a logarithmic scale for a wide range, else a linear one.

    The linear scale begins at 0.

    Args:
        panel: the panel.
        values: the values on the axis.
        which: "x" or "y".
        times: the ratio of maximum to minimum from which on the scale is logarithmic.

    Returns:
        Whether the scale is logarithmic.
    """
    positive = [value for value in values if value > 0]
    if not positive or max(positive) / min(positive) < times:
        getattr(panel, f"set_{which}lim")(0, max(positive, default=1) * 1.08)
        return False
    log(panel, min(positive) / 1.25, max(positive) * 1.25, which)
    return True


def log(panel: Axes, low: float, high: float, which: str = "x") -> None:
    """Set a logarithmic scale with plain numbers: 0.05, 2, 500."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    getattr(panel, f"set_{which}scale")("log")
    getattr(panel, f"set_{which}lim")(low, high)
    axis = panel.xaxis if which == "x" else panel.yaxis
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high / low < 300 else (1.0,), numticks=12))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}" if value < 1e5 else f"{value:.0e}"))
    axis.set_minor_formatter(NullFormatter())


def label_points(figure: Figure, panel: Axes, points: Sequence[tuple[str, float, float]]) -> None:
    """Label points, without labels that would overlap others.

    Args:
        figure: with its final legend and labels, because they determine the panel's position.
        panel: with its final scales and limits.
        points: name, x and y, the most important first.
    """
    figure.draw_without_rendering()
    to_page = panel.transData.transform
    marks_at = [to_page((x, y)) for _, x, y in points]
    begin, end = (float(panel.transAxes.transform((share, 0))[0]) for share in (0, 1))
    boxes: list[tuple[float, float, float]] = []
    for (name, x, y), (at_x, at_y) in zip(points, marks_at, strict=True):
        width = LETTER * len(name)
        for left in (at_x + GAP, at_x - GAP - width):
            inside = left > begin and left + width < end
            box = (left, left + width, at_y)
            free = all(
                abs(at_y - mark_y) > 7 or not box[0] - MARK < mark_x < box[1] + MARK for mark_x, mark_y in marks_at
            )
            if inside and free and all(abs(at_y - b[2]) > 10 or b[1] < box[0] or box[1] < b[0] for b in boxes):
                boxes.append(box)
                ha = "left" if left > at_x else "right"
                shift = (GAP if left > at_x else -GAP, 0)
                panel.annotate(name, (x, y), xytext=shift, textcoords="offset pixels", ha=ha, va="center", fontsize=7.5)
                break


GAP, LETTER, MARK = 7.0, 6.3, 5.0
"""Gap from mark to name, letter width, half mark size; in pixels.

At 100 pixels per inch.
"""


ROWS, ROW = 2, 0.18
"""Rows of a legend without extra height; inches per further row."""


def legend(figure: Figure, handles: Sequence[Any], names: Sequence[str], **options: Any) -> None:
    """Draw a legend above the panels, with as many columns as fit."""
    names = list(map(fitted, names))
    columns = max(1, min(len(names), int(60 / (max(map(len, names)) + 8))))
    extra_rows = -(-len(names) // columns) - ROWS
    if extra_rows > 0:
        figure.set_figheight(figure.get_figheight() + extra_rows * ROW)
    figure.legend(handles, names, loc="outside upper left", ncols=columns, frameon=False, **options)
