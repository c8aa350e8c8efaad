"""A figure of a report as an image file: SVG, PNG or PDF by matplotlib."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

from raybench.errors import UsageError, nearest
from raybench.reporting import figures
from raybench.reporting.report import Report

FORMATS = (".svg", ".png", ".pdf")
DPI = 200


def figure_image(report: Report, path: Path) -> bytes:
    """Return the figure that a file is named after, such as `speed.svg`.

    Raises:
        UsageError: there is no such figure or format, or the grid has no data for it.
    """
    if path.stem not in figures.FIGURES:
        hint = nearest(path.stem, figures.FIGURES)
        raise UsageError(f"--figure {path}: the name of the file is that of a figure; {hint}")
    if path.suffix not in FORMATS:
        raise UsageError(f"--figure {path}: {nearest(path.suffix, FORMATS)}")
    try:
        figure = figures.draw(path.stem, report.answer)
    except figures.NoDataError as error:
        raise UsageError(f"--figure {path}: {error}") from None
    file = BytesIO()
    with figures.styled(path.stem):
        from matplotlib import rcParams

        rcParams["svg.fonttype"] = "path"  # a reader may lack the font
        figure.savefig(file, format=path.suffix[1:], dpi=DPI)
    return file.getvalue()
