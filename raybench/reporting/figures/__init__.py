"""Figures of a grid: functions from `GridResults` to a matplotlib `Figure`.

The caller owns the figure. matplotlib is imported when the first figure is drawn, and its `pyplot` only for
`managed_figures`, so no window is opened and nothing has to be closed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from raybench.analysis.grid_results import GridResults
from raybench.reporting.figures import bars, cost, curves, heatmap, time_to_target
from raybench.reporting.figures.theme import NoDataError, managed_figures, png, styled, svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "FIGURES",
    "FigureSpec",
    "NoDataError",
    "RenderedFigure",
    "draw",
    "managed_figures",
    "png",
    "rendered_figures",
    "svg",
]


@dataclass(frozen=True)
class FigureSpec:
    """A kind of figure.

    Attributes:
        title: the heading.
        says: how to read it, in a sentence or two.
        draw: function from grid results to the figure.
    """

    title: str
    says: str
    draw: Callable[[GridResults], Figure]


FIGURES: Mapping[str, FigureSpec] = {
    "speedups": FigureSpec(
        "Speed-up over the baseline",
        "A dot is the ratio of the geometric means of epoch times, its line the 95% confidence interval (none for one "
        "run each). An arrow: the interval continues beyond the figure. If the interval includes 1, the difference is "
        "not significant.",
        bars.speedups,
    ),
    "times": FigureSpec(
        "Seconds per epoch",
        "Epochs after warm-up, without compilation. A ring is a run, the dot the geometric mean, the line its 95% "
        "confidence interval (none for one run).",
        bars.times,
    ),
    "accuracy_by_epoch": FigureSpec(
        "Learning curves over epochs",
        "The mean over runs; the band is from minimum to maximum. A cross marks the end of a run that did not "
        "complete, a dashed line the target.",
        curves.accuracy_by_epoch,
    ),
    "accuracy_by_time": FigureSpec(
        "Learning curves over time",
        "The mean over runs; the band is from minimum to maximum. Training time is compilation, steps and waiting for "
        "input, without evaluation. A dashed line is the target.",
        curves.accuracy_by_time,
    ),
    "reached": FigureSpec(
        "Runs that reached the target, over time",
        "The share of runs that reached the target by a training time (Kaplan–Meier). A tick is a run that ended "
        "without reaching it. The band is the 95% confidence interval.",
        time_to_target.survival_curves,
    ),
    "accuracy_map": FigureSpec(
        "Quality of each setting",
        "After the last epoch: mean over runs ± standard deviation; darker is higher. Hatched cells have no "
        "number, and give the reason.",
        heatmap.accuracy_map,
    ),
    "time_and_cost": FigureSpec(
        "Time against cost",
        "Median time and price of a whole run of each cell. Left is faster, down is cheaper.",
        cost.time_and_cost,
    ),
    "crossover": FigureSpec(
        "Speed-up by job length",
        "Speed-up over the baseline for a job of this many epochs, with loading, start-up and compilation; of many "
        "cells, the fastest of each device. The band is the 95% confidence interval, if it fits the figure.",
        cost.crossover,
    ),
    "ledger": FigureSpec(
        "Where the time went",
        "Wall time of a run's process by section, mean over runs; the total is on the right.",
        bars.ledger,
    ),
}
"""All figures by name, in the order of a report."""


LONGEST_REASON = 300
"""Maximum length of the reason for leaving out a figure, in characters."""


@dataclass(frozen=True)
class RenderedFigure:
    """A figure that was drawn.

    Attributes:
        name: its key in `FIGURES`.
        title, says: as in `FigureSpec`.
        svg: an `<svg>` element.
    """

    name: str
    title: str
    says: str
    svg: str


def draw(name: str, results: GridResults) -> Figure:
    """Draw one figure, for example for a notebook.

    Raises:
        NoDataError: the grid has no data for it; the message gives the reason.
        LookupError: there is no figure of that name.
    """
    with styled(name):
        return FIGURES[name].draw(results)


def rendered_figures(results: GridResults) -> tuple[list[RenderedFigure], dict[str, str]]:
    """Draw every figure that the grid has data for.

    A figure that fails does not affect the others.

    Returns:
        The figures, and the reason for each one that was left out, by name.
    """
    drawn: list[RenderedFigure] = []
    left_out: dict[str, str] = {}
    for name, kind in FIGURES.items():
        try:
            drawn.append(RenderedFigure(name, kind.title, kind.says, svg(draw(name, results), name)))
        except NoDataError as error:
            left_out[name] = str(error)
        except Exception as error:
            left_out[name] = f"it could not be drawn: {type(error).__name__}: {error}"[:LONGEST_REASON]
    return drawn, left_out
