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
        "Times as fast as the baseline",
        "A dot is the ratio of geometric means of the steady epoch, its line the 95 % interval; an arrow where that "
        "leaves the page, and no line for one run each. An interval that holds 1 shows no difference.",
        bars.speedups,
    ),
    "times": FigureSpec(
        "Seconds an epoch",
        "Steady epochs, without warm-up and compilation. A ring is a run, the dot their geometric mean, the line its "
        "95 % interval; one run has none.",
        bars.times,
    ),
    "accuracy_by_epoch": FigureSpec(
        "Learning by epoch",
        "The mean over runs, with their least and most as a band; a cross is where a run ended that did not complete; "
        "the dashed rule is the target.",
        curves.accuracy_by_epoch,
    ),
    "accuracy_by_time": FigureSpec(
        "Learning by time",
        "The same over the time spent training: compilation, steps and waiting for input; evaluation is left out.",
        curves.accuracy_by_time,
    ),
    "reached": FigureSpec(
        "How many have reached the target by when",
        "The share of runs after so much training, by Kaplan and Meier's estimate: a tick is a run that ended without "
        "it; one that was stopped early counts as long as it ran. The band is the 95 % interval.",
        time_to_target.survival_curves,
    ),
    "accuracy_map": FigureSpec(
        "What each setting came to",
        "After the last epoch: mean over runs ± their standard deviation; a fuller grey is higher. Hatched cells "
        "have no number, and say why.",
        heatmap.accuracy_map,
    ),
    "time_and_cost": FigureSpec(
        "Time against cost",
        "A whole run of each cell: its median time and its price. Left is faster, down is cheaper.",
        cost.time_and_cost,
    ),
    "crossover": FigureSpec(
        "From which length on it holds",
        "Times as fast as the baseline for a job of so many epochs, with loading, start-up and compilation paid; of "
        "many cells, the fastest of each device. The band is the 95 % interval; one wider than the page is left out.",
        cost.crossover,
    ),
    "ledger": FigureSpec(
        "Where the time went",
        "The wall time of a run's process by section, mean over runs; at the right all of it.",
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
