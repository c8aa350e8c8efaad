"""Curves: accuracy over epochs and over time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from math import prod
from statistics import fmean
from typing import TYPE_CHECKING, Any

from raybench.analysis.comparison import PlannedCell
from raybench.analysis.grid_results import GridResults, axis_label
from raybench.core.text import format_value
from raybench.reporting.figures.line_styles import styles_by_label
from raybench.reporting.figures.theme import GREY, NoDataError, fitted, legend, log_where_wide, new_figure
from raybench.reporting.sentences import render_phrase
from raybench.results.attempt import Attempt
from raybench.results.timing import TRAINING, seconds_of_each

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINES = 6
"""Maximum number of lines per panel that can be distinguished."""

PANELS = 9
"""Maximum number of panels.

If more are needed, the cells with the best final metric are shown.
"""

HEAD = 0.16
"""Height of a line of text above a panel, in inches."""

Panel = tuple[str, list[tuple[str, PlannedCell]]]
"""A title, and each line's name and cell."""

Curve = tuple[Sequence[float], Sequence[float]]


def accuracy_by_epoch(results: GridResults) -> Figure:
    """Draw the metric by epoch, one panel per device.

    A line is the mean of a cell's runs, with their range if there are several. With separate panels for devices,
    settings can be distinguished on each.

    Raises:
        NoDataError: no run has recorded the metric, or there are too many cells.
    """
    return _curves(results, _by_epoch, "epoch", lines_of=("weight_decay", "batch_size"))


def accuracy_by_time(results: GridResults) -> Figure:
    """Draw the metric over training time, by device.

    Training time is compile + train + waiting for input, without evaluation. Devices share a panel, with one panel per
    setting, so that they can be compared directly.

    Raises:
        NoDataError: no run has recorded the metric, or there are too many cells.
    """
    return _curves(results, _by_time, "training time, s", lines_of=("device", "framework"))


def _by_epoch(run: Attempt, metric: str) -> Curve:
    return _points((float(epoch.epoch) for epoch in run.epochs), run, metric)


def _by_time(run: Attempt, metric: str) -> Curve:
    return _points(accumulate(seconds_of_each(run.epochs, TRAINING)), run, metric)


def _points(xs: Iterable[float], run: Attempt, metric: str) -> Curve:
    values = [epoch.metrics.get(metric) for epoch in run.epochs]
    points = [(x, value) for x, value in zip(xs, values, strict=True) if value is not None]
    return [x for x, _ in points], [value for _, value in points]


def _curves(results: GridResults, curve: Callable[[Attempt, str], Curve], unit: str, lines_of: Sequence[str]) -> Figure:
    if not any(len(curve(run, results.metric)[0]) for cell in results.cells for run in results.runs(cell)):
        raise NoDataError(f"no run recorded {results.metric}")
    groups = _panels(results, lines_of)
    if len(groups) > PANELS:
        groups = _best(results, together="device" in lines_of)
    columns = 1 if len(groups) == 1 else 2
    rows = -(-len(groups) // columns)
    figure, panels = new_figure(2.9 if columns == 1 else 2.1 * rows + 0.5, rows, columns, sharex=True, sharey=True)
    first_cells: dict[str, PlannedCell] = {}
    for _, cells in groups:
        for name, cell in cells:
            first_cells.setdefault(name, cell)
    look = dict(zip(first_cells, styles_by_label(results, list(first_cells.values())), strict=True))
    xs: list[float] = []
    max_lines = 1
    for panel, (title, cells) in zip(panels, groups, strict=False):
        for name, cell in cells:
            xs += _draw(panel, results, cell, look[name], name, curve)
        title_lines = [fitted(title), *_trouble(results, cells)]
        max_lines = max(max_lines, len(title_lines))
        panel.set_title("\n".join(filter(None, title_lines)), loc="left", fontsize=8)
        if results.target:
            bound = results.target.at_least if results.target.at_least is not None else results.target.at_most
            if results.target.metric == results.metric and bound is not None:
                panel.axhline(bound, color=GREY, linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
    for number, panel in enumerate(panels):
        panel.set_visible(number < len(groups))
        panel.tick_params(labelbottom=number + columns >= len(groups))
    if unit == "epoch":
        from matplotlib.ticker import MaxNLocator

        panels[0].xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))
    else:
        log_where_wide(panels[0], xs, times=12.0)
    if max_lines > 1:
        figure.set_figheight(figure.get_figheight() + HEAD * (max_lines - 1) * rows)
    figure.supxlabel(unit, fontsize=9.5)
    figure.supylabel(results.metric_label, fontsize=9.5)
    handles, names = _legend(panels)
    if len(names) > 1:
        legend(figure, handles, names)
    return figure


def _draw(
    panel: Axes,
    results: GridResults,
    cell: PlannedCell,
    look: tuple[str, str, Any],
    name: str,
    curve: Callable[[Attempt, str], Curve],
) -> list[float]:
    """Draw a cell's line.

    A cross marks the end of a run that did not complete.

    Returns:
        The x values of its points.
    """
    colour, marker, dash = look
    completed = results.completed(cell)
    curves = [run_curve for run in completed if len((run_curve := curve(run, results.metric))[0])]
    points: list[float] = []
    if curves:
        length = min(len(xs) for xs, _ in curves)
        x = [fmean(xs[place] for xs, _ in curves) for place in range(length)]
        y = [[ys[place] for _, ys in curves] for place in range(length)]
        style = {"color": colour, "linestyle": dash, "marker": marker, "markersize": 3.5, "linewidth": 1.2}
        panel.plot(x, [fmean(ys) for ys in y], label=name, markevery=max(1, length // 8), **style)
        if len(curves) > 1:
            panel.fill_between(x, [min(ys) for ys in y], [max(ys) for ys in y], color=colour, alpha=0.15, linewidth=0)
        points += x
    for run in results.runs(cell):
        xs, ys = curve(run, results.metric)
        if run not in completed and len(xs):
            panel.plot(xs, ys, color=colour, linestyle=dash, linewidth=0.7)
            panel.plot(xs[-1:], ys[-1:], "x", color=colour, markersize=6)
            points += xs
    return points


def _trouble(results: GridResults, cells: Sequence[tuple[str, PlannedCell]]) -> list[str]:
    """Return one line of text per cell with incomplete runs.

    The text is placed above the panel, outside the area of the curves.
    """
    troubles = [(name, render_phrase("run_troubles", results.counts(cell))) for name, cell in cells]
    lines = [f"{fitted(name or 'runs', 20)}: {trouble}" for name, trouble in troubles if trouble]
    return [*lines[:3], *([f"and {len(lines) - 3} more"] if len(lines) > 3 else [])]


def _panels(results: GridResults, lines_of: Sequence[str]) -> list[Panel]:
    """Return panels with the lines in each.

    The requested axes distinguish lines, up to the capacity of a panel. If all cells fit, there is a single panel.
    """
    axes = results.axes
    line_axes: list[str] = []
    total = prod(len(values) for values in axes.values())
    for axis in list(axes) if total <= LINES else [*lines_of, *reversed(axes)]:
        if axis in axes and axis not in line_axes and len(axes[axis]) * prod(len(axes[a]) for a in line_axes) <= LINES:
            line_axes.append(axis)
    panel_axes = [axis for axis in axes if axis not in line_axes]
    panels: dict[str, list[tuple[str, PlannedCell]]] = {}
    for cell in results.cells:
        title = " ".join(axis_label(axis, cell.axes[axis]) for axis in panel_axes if axis in cell.axes)
        panels.setdefault(title, []).append(
            (results.label(cell, without=panel_axes) or format_value(cell.cell_id), cell)
        )
    return list(panels.items())


def _best(results: GridResults, together: bool) -> list[Panel]:
    """Return the cells with the best final metric.

    Each device has a panel with its best cells, or the best cell of each is in one common panel.
    """
    final_values = {
        cell.cell_id: [run.metric(results.metric) for run in results.completed(cell)] for cell in results.cells
    }
    means = {
        name: fmean(numbers)
        for name, values in final_values.items()
        if (numbers := [v for v in values if v is not None])
    }
    sign = 1 if results.less_is_better else -1
    best = sorted((c for c in results.cells if c.cell_id in means), key=lambda cell: sign * means[cell.cell_id])
    devices: dict[str, list[PlannedCell]] = {}
    for cell in best:
        devices.setdefault(str(cell.axes.get("device", "")), []).append(cell)
    if together:
        return [
            (
                "the best of each device",
                [(results.label(device_cells[0]), device_cells[0]) for device_cells in devices.values()][:LINES],
            )
        ]
    return [
        (
            f"{device}: the best {LINES}",
            [(results.label(cell, without=("device",)), cell) for cell in device_cells[:LINES]],
        )
        for device, device_cells in sorted(devices.items())
    ]


def _legend(panels: Sequence[Axes]) -> tuple[list[Any], list[str]]:
    """Return each legend entry once, in the order of the panels."""
    handles: dict[str, Any] = {}
    for panel in panels:
        for handle, name in zip(*panel.get_legend_handles_labels(), strict=True):
            handles.setdefault(name, handle)
    return list(handles.values()), list(handles)
