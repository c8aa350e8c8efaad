"""The figures of a report: speed and quality, learning curves, loss, where the time goes, time against price.

Each is a function from an `Answer` to a matplotlib `Figure` that the caller owns; without data for it, it raises
`NoDataError`. matplotlib is imported when the first figure is drawn, without `pyplot`, so no window is opened and
nothing has to be closed.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from io import BytesIO, StringIO
from itertools import chain, cycle
from pathlib import Path
from statistics import fmean
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

from raybench.analysis.answer import Answer, Configuration, Criterion, Effect, Ratio, Scaling, Summary
from raybench.analysis.chain import Chain, StepVerdict
from raybench.analysis.ratios import scaled
from raybench.core.job import is_accuracy
from raybench.core.labels import named_value
from raybench.core.repeats import percent
from raybench.core.text import format_value, printable
from raybench.errors import RaybenchError, UsageError, nearest
from raybench.reporting.columns import rows
from raybench.reporting.layout import NOTHING
from raybench.reporting.words.effects import plural_noun
from raybench.reporting.words.goodput import run_parts
from raybench.reporting.words.numbers import column_unit, number, ratio_text, seconds_text
from raybench.reporting.words.quality import goal_text, metric_name
from raybench.reporting.words.rows import currency_sign, is_reached, price_head, price_unit
from raybench.results.run_table import price_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


WIDTH = 4.6  # width of a figure in inches; on a phone, text of a wider one would be too small
ROW = 0.27  # height of a configuration's row in inches
VISIBLE = 0.3  # least share of a run in percent that a bar shows
MAX_ROWS, MAX_CURVES = 20, 8  # maximum number of configurations in a figure with rows, and of learning curves
MAX_LABEL = 26  # maximum number of characters of a label

FORMATS, DPI = (".svg", ".png", ".pdf"), 200  # of image files

COLORS = ("#0072b2", "#d55e00", "#009e73", "#8a2be2", "#b8860b", "#7f7f7f")
"""Colors that are distinguishable with most kinds of color blindness, on light and on dark pages."""

DASHES = ("-", (0, (5, 2)), (0, (1, 1.2)), (0, (6, 2, 1, 2)))  # line styles of curves with the same color

INK, PAPER, LINE = "#010203", "#fdfeff", "#c8c9ca"
"""Text, background and grid lines; a page replaces them by its own colors, so that figures suit its dark mode."""

LETTERS: Mapping[str, Any] = {
    "font.family": ["DejaVu Sans", "sans-serif"],
    "font.size": 9,
    "axes.labelsize": 9,
    "axes.titlesize": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "axes.formatter.useoffset": False,
    # Names from files are literal text, even with dollar signs.
    "text.parse_math": False,
    # Text as text: small files, which can be searched and read aloud.
    "svg.fonttype": "none",
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK),
}

SECTIONS = {
    "train": ("training", "#0072b2"),
    "input_wait": ("waiting for input", "#d55e00"),
    "evaluate": ("evaluation", "#56b4e9"),
    "compile": ("first step, compilation", "#e0b000"),
    "start": ("start-up and data", "#8a8a8a"),
    "other": ("other", "#c4c4c4"),
}
"""Parts of a run in stacking order, with their names and colors."""

Make = Callable[..., "Figure"]
"""What makes a figure: `matplotlib.figure.Figure`, or `pyplot.figure` for one that a notebook displays."""


class NoDataError(RaybenchError):
    """A figure has no data; the message gives the reason."""


class FigureSpec(NamedTuple):
    """A kind of figure; its caption says how to read it."""

    title: str
    caption: str
    draw: Callable[[Answer, Make], Figure]


class RenderedFigure(NamedTuple):
    """A figure that was drawn, with its SVG element."""

    name: str
    title: str
    caption: str
    svg: str


def draw(name: str, answer: Answer, make: Make | None = None) -> Figure:
    """Draw one figure.

    Raises:
        NoDataError: the grid has no data for it.
    """
    with styled(name):
        from matplotlib.figure import Figure

        return FIGURES[name].draw(answer, make or Figure)


def rendered_figures(answer: Answer, names: Iterable[str] = ()) -> dict[str, RenderedFigure]:
    """Draw the figures that the grid has data for, by name."""
    drawn = {}
    for name in names or FIGURES:
        with suppress(NoDataError):
            title, caption, _ = FIGURES[name]
            drawn[name] = RenderedFigure(name, title, caption, svg(draw(name, answer), name))
    return drawn


def figure_image(answer: Answer, path: Path) -> bytes:
    """Return the figure that a file is named after, such as `speed.svg`, as SVG, PNG or PDF.

    Raises:
        UsageError: there is no such figure or format, or the grid has no data for it.
    """
    if path.stem not in FIGURES:
        hint = nearest(path.stem, FIGURES)
        raise UsageError(f"--figure {path}: the name of the file is that of a figure; {hint}")
    if path.suffix not in FORMATS:
        raise UsageError(f"--figure {path}: {nearest(path.suffix, FORMATS)}")
    try:
        figure = draw(path.stem, answer)
    except NoDataError as error:
        raise UsageError(f"--figure {path}: {error}") from None
    file = BytesIO()
    with styled(path.stem):
        from matplotlib import rcParams

        rcParams["svg.fonttype"] = "path"  # a reader may lack the font
        figure.savefig(file, format=path.suffix[1:], dpi=DPI)
    return file.getvalue()


def speed(answer: Answer, make: Make) -> Figure:
    """Draw the speed of each configuration relative to its reference, and its quality beside it.

    Without a single reference per workload that all can be compared with, seconds per unit of work are drawn.
    """
    shown = _some([row for row in _ranked(answer) if row.seconds])
    if len(shown) < 2:
        raise NoDataError("fewer than two configurations have a time")
    widths = [2, 1.1] if any(row.quality for row in shown) else [1]
    figure, panels = _new_figure(make, ROW * len(shown) + 0.75, len(widths), width_ratios=widths, sharey=True)
    panel, colors = panels[0], _colors(answer)
    references = {row.reference for row in shown}
    relative = len(references) <= len({row.workload for row in shown}) and all(
        _ratio(row) or not _seconds(row) for row in shown
    )
    points = [_ratio(row) if relative else _seconds(row) for row in shown]
    singles = [_singles(row, relative) for row in shown]
    values = [value for point in points if point for value in (point.value, point.low, point.high) if value]
    values += chain.from_iterable(singles)
    _scale(panel, [*values, 1.0] if relative else values, 4.0 if relative else 10.0, from_zero=not relative)
    for row, (shown_row, point, single) in enumerate(zip(shown, points, singles, strict=True)):
        color, text = colors[shown_row.index], "not reached"
        if point:
            # The length of a bar means nothing on a logarithmic scale without a reference.
            if relative or panel.get_xscale() == "linear":
                start = 1.0 if relative else 0.0
                panel.barh(row, point.value - start, left=start, height=0.5, color=color, alpha=0.22, linewidth=0)
            _interval(panel, row, point, color, hollow=shown_row.is_reference)
            panel.plot(single, [row] * len(single), "|", color=color, markersize=7, markeredgewidth=0.7, alpha=0.6)
            ratio = "reference" if shown_row.is_reference else ratio_text(_ratio(shown_row)).partition(" ")[0]
            text = ratio if relative else f"{number(point.value)}, {ratio}".removesuffix(f", {NOTHING}")
        panel.text(1.015, row, text, transform=panel.get_yaxis_transform(), va="center", fontsize=8.5)
    goal = f" to {goal_text(answer)}" if any(row.to_target for row in shown) else ""
    if relative:
        panel.axvline(1, color=INK, linewidth=0.8, zorder=1)
    absolute = f"seconds{goal or f' per {answer.unit.label}'} (less is faster)"
    # Beside a second panel, a long title would run into its title.
    title = f"relative speed{goal}" if relative else absolute
    panel.set_xlabel(fill(title, 24) if len(panels) > 1 else title, loc="left")
    _name_rows(panel, [_fitted(answer, row) for row in shown])
    if len(panels) > 1:
        _quality_panel(panels[1], answer, shown, colors)
    for panel in panels:
        panel.grid(axis="y", linewidth=0.4, color=LINE)
        panel.set_axisbelow(True)
    return figure


def _name_rows(panel: Axes, names: Sequence[str]) -> None:
    panel.set_yticks(range(len(names)), names)
    panel.set_ylim(len(names) - 0.45, -0.55)
    panel.tick_params(axis="y", length=0)


def _singles(row: Configuration, relative: bool) -> list[float]:
    """Return the values of the single runs of a configuration, on the scale of its point."""
    middle, ratio = _seconds(row), _ratio(row)
    seconds = [value for run in row.runs if (value := run.to_target_s if row.to_target else run.seconds)]
    if not relative:
        return seconds
    return [ratio.value * middle.value / run_s for run_s in seconds] if middle and ratio else []


def _quality_panel(panel: Axes, answer: Answer, shown: Sequence[Configuration], colors: Mapping[int, str]) -> None:
    scale = 100 if is_accuracy(answer.metric) else 1
    for row, shown_row in enumerate(shown):
        if shown_row.quality:
            _interval(
                panel, row, shown_row.quality, colors[shown_row.index], hollow=shown_row.is_reference, scale=scale
            )
    if (bound := _bound(answer)) is not None:
        panel.axvline(bound * scale, color=INK, linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
    panel.set_xlabel(fill(metric_name(answer.metric) + (", %" if scale == 100 else ""), 16), loc="right")
    panel.tick_params(axis="y", length=0, labelleft=False)
    panel.tick_params(axis="x", labelsize=8)
    panel.spines["left"].set_visible(False)
    panel.margins(x=0.12)
    panel.locator_params(axis="x", nbins=2)
    low, high = panel.get_xlim()
    ticks = [tick for tick in panel.get_xticks() if low <= tick <= high]
    panel.set_xticks(ticks[:: max(1, len(ticks) - 1)])  # labels of more would touch one another


def learning(answer: Answer, make: Make, metric: str = "") -> Figure:
    """Draw the metric over training time: the mean over runs and their range, with a label at each curve.

    With a budget that is a price, over the price of the training time.
    """
    metric = metric or answer.metric
    curves_of = {
        row.index: [curve for run in row.runs if (curve := run.curve(metric))]
        for row in _some([row for row in rows(answer) if row.runs and metric in row.metrics], MAX_CURVES)
    }
    shown = [row for row in rows(answer) if any(len(curve) > 1 for curve in curves_of.get(row.index, ()))]
    if not shown:
        raise NoDataError("no run logged a metric after several epochs")
    figure, (panel,) = _new_figure(make, 3.3)
    scale = 100 if is_accuracy(metric) else 1
    colors, styles = _colors(answer), defaultdict[str, Iterator[Any]](lambda: cycle(DASHES))
    by_price = "price" in answer.budget and all(row.price_per_hour for row in shown)
    ends, xs = [], []
    for row in shown:
        curves = curves_of[row.index]
        length = min(map(len, curves))
        x = [fmean(curve[number][1] for curve in curves) for number in range(length)]
        x = [price_of(seconds, row.price_per_hour) or 0.0 for seconds in x] if by_price else x
        values = [[scale * curve[number][2] for curve in curves] for number in range(length)]
        y, color = list(map(fmean, values)), colors[row.index]
        panel.plot(x, y, color=color, linestyle=next(styles[color]), linewidth=1.5)
        if len(curves) > 1:
            panel.fill_between(x, list(map(min, values)), list(map(max, values)), color=color, alpha=0.14, linewidth=0)
        ends.append((_fitted(answer, row), x[-1], y[-1], color))
        xs += x
    if metric == answer.metric and (bound := _bound(answer)) is not None:
        panel.axhline(bound * scale, color=INK, linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
    _scale(panel, xs, 12.0)
    currency = currency_sign(answer)
    panel.set_xlabel(f"price of training, {currency}" if by_price else "training time, s", loc="left")
    panel.set_ylabel(metric_name(metric) + (", %" if scale == 100 else ""))
    panel.grid(axis="y", linewidth=0.4, color=LINE)
    _label_ends(figure, panel, ends)
    return figure


def loss(answer: Answer, make: Make) -> Figure:
    """Draw the loss over training time, that of validation if it was logged."""
    logged = dict.fromkeys(name for row in answer.configurations for name in row.metrics if name.endswith("/loss"))
    name = next((name for name in ("val/loss", "train/loss", *logged) if name in logged), "")
    if not name or name == answer.metric:
        raise NoDataError("no run logged a loss besides the metric")
    return learning(answer, make, name)


def time_parts(answer: Answer, make: Make) -> Figure:
    """Draw the parts of a run's wall time: training, waiting for input, evaluation, compilation, start-up."""
    shown = _some([row for row in rows(answer) if sum(row.run_parts_s.values())])
    if not shown:
        raise NoDataError("no run recorded the parts of its time")
    figure, (panel,) = _new_figure(make, ROW * len(shown) + 0.85)
    sums = list(map(run_parts, shown))
    ends = [0.0] * len(shown)
    for name, (label, color) in SECTIONS.items():
        shares = [100 * parts[name] / sum(parts.values()) for parts in sums]
        if max(shares) > VISIBLE:
            panel.barh(range(len(shown)), shares, left=ends, label=label, color=color, linewidth=0, height=0.62)
        ends = [end + share for end, share in zip(ends, shares, strict=True)]
    for row, parts in enumerate(sums):
        panel.text(101, row, seconds_text(sum(parts.values())), va="center", fontsize=8.5)
    _name_rows(panel, [_fitted(answer, row) for row in shown])
    panel.set_xlim(0, 100)
    panel.set_xlabel("share of a run's wall time, %", loc="left")
    options: dict[str, Any] = {"frameon": False, "handlelength": 0.9, "handletextpad": 0.4, "columnspacing": 1.1}
    figure.legend(loc="outside upper left", ncols=3, fontsize=8.5, **options)
    return figure


def time_and_price(answer: Answer, make: Make) -> Figure:
    """Draw time against price, to the target if there is one, else of a unit of work; a line joins the best of both."""
    points: list[tuple[Configuration, Summary, Summary]] = []
    for row in _some(_ranked(answer)):
        seconds, price = _seconds(row), row.to_target.price if row.to_target else row.price
        if seconds is not None and price is not None:
            points.append((row, seconds, price))
    if len(points) < 2:
        raise NoDataError("fewer than two configurations have a price; set `price_per_hour`")
    figure, (panel,) = _new_figure(make, 3.3)
    _, times = price_unit(answer)
    colors, unit = _colors(answer), column_unit(seconds.value * times for _, seconds, _ in points)
    points = [(row, scaled(s, times / unit.seconds), scaled(price, times)) for row, s, price in points]
    by_index = {row.index: (time.value, price.value) for row, time, price in points}
    for trade_off in answer.trade_offs:
        steps = [by_index[step.configuration] for step in trade_off.steps if step.configuration in by_index]
        panel.plot(*zip(*steps, strict=True), color=INK, linewidth=0.8, drawstyle="steps-pre", zorder=1)
    best = {step.configuration for trade_off in answer.trade_offs for step in trade_off.steps}
    for row, time, price in points:
        color = colors[row.index]
        x, y = ([summary.low or summary.value, summary.high or summary.value] for summary in (time, price))
        panel.plot(x, [price.value] * 2, color=color, linewidth=1.2)
        panel.plot([time.value] * 2, y, color=color, linewidth=1.2)
        face = color if row.index in best else PAPER
        panel.plot(time.value, price.value, "o", color=color, markersize=6, markerfacecolor=face)
    _scale(panel, [time.value for _, time, _ in points], 6.0)
    _scale(panel, [price.value for _, _, price in points], 6.0, "y")
    head = price_head(answer)
    panel.set_xlabel(f"time{head}, {unit.name}", loc="left")
    panel.set_ylabel(fill(f"price{head}, {currency_sign(answer)}", 40))
    panel.grid(linewidth=0.4, color=LINE)
    # Labels of more would hide the points.
    named = best | {best.configuration for best in answer.of_devices} if len(points) > MAX_CURVES else {*by_index}
    ends = [
        (_fitted(answer, row), time.value, price.value, colors[row.index])
        for row, time, price in points
        if row.index in named
    ]
    _label_ends(figure, panel, ends)
    return figure


def steps(chain: Chain) -> RenderedFigure:
    """Draw each version of a chain against the one before."""
    caption = "Lines are 95% intervals; rings are not distinguishable from noise."
    return RenderedFigure("steps", "Steps of the chain", caption, svg(draw_steps(chain), "steps"))


def draw_steps(chain: Chain) -> Figure:
    """Return that figure, which the caller owns."""
    with styled("steps"):
        from matplotlib.figure import Figure

        is_ratio = chain.criterion is not Criterion.QUALITY
        scale = 100 if not is_ratio and is_accuracy(chain.metric) else 1
        figure, (panel,) = _new_figure(Figure, ROW * len(chain.steps) + 0.75)
        for row, step in enumerate(chain.steps):
            color = COLORS[0] if step.verdict is StepVerdict.BETTER else COLORS[-1]
            if step.change:
                _interval(panel, row, step.change, color, hollow=step.verdict is StepVerdict.NOISE, scale=scale)
        panel.axvline(1 if is_ratio else 0, color=INK, linewidth=0.8, zorder=0)
        _name_rows(panel, [_shortened(step.after) for step in chain.steps])
        what = "relative speed" if is_ratio else metric_name(chain.metric) + (", points" if scale == 100 else "")
        panel.set_xlabel(f"{what}, against the version before", loc="left")
        panel.grid(axis="x", linewidth=0.4, color=LINE)
    return figure


def scaling(answer: Answer, make: Make) -> Figure:
    """Draw the speed-up by amount of hardware with the ideal line and, if it fits, Amdahl's law."""
    if not answer.scalings:
        raise NoDataError("no axis is an amount of hardware, such as `count` or `threads`")
    figure, panels = _new_figure(make, 3.3, len(answer.scalings))
    for panel, curve in zip(panels, answer.scalings, strict=True):
        _scaling_panel(panel, curve, [effect for effect in answer.effects if effect.axis == curve.axis])
    return figure


def _scaling_panel(panel: Axes, scaling: Scaling, effects: Sequence[Effect]) -> None:
    """Draw a curve of speed-ups, or one for each value of the axis that they depend on."""
    base = float(effects[0].other)
    curves: dict[str, dict[float, Ratio]] = {}
    for effect in effects:
        parts = [(format_value(part.value), part.speed) for part in effect.parts]
        for name, ratio in parts or [("measured", effect.speed)]:
            if ratio:
                curves.setdefault(name, {base: Ratio(1.0)})[float(effect.value)] = ratio
    amounts = sorted({base, *(float(effect.value) for effect in effects)})
    panel.plot(amounts, [amount / base for amount in amounts], color=INK, linewidth=0.8, linestyle=":", label="ideal")
    for (name, ratios), color in zip(curves.items(), cycle(COLORS), strict=False):
        x = sorted(ratios)
        y = [ratios[amount].value for amount in x]
        low, high = ([getattr(ratios[amount], end) or ratios[amount].value for amount in x] for end in ("low", "high"))
        panel.plot(x, y, "o-", color=color, linewidth=1.5, markersize=4.5, label=name)
        panel.vlines(x, low, high, color=color, linewidth=1.6)
    if scaling.serial and scaling.serial.value > 0:
        share = scaling.serial.value
        x = [amounts[0] * (amounts[-1] / amounts[0]) ** (step / 40) for step in range(41)]
        law = [(share + (1 - share) / base) / (share + (1 - share) / amount) for amount in x]
        panel.plot(x, law, "--", color="#7f7f7f", linewidth=1.0, label=f"Amdahl, serial {percent(share)}")
    panel.set_xscale("log", base=2)
    panel.set_xticks(amounts, [f"{amount:g}" for amount in amounts], minor=False)
    panel.set_yscale("log", base=2)
    panel.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    panel.margins(y=0.12)
    panel.set_xlabel(plural_noun(scaling.noun), loc="left")
    panel.set_ylabel(f"speed-up over {base:g}")
    panel.grid(linewidth=0.4, color=LINE)
    panel.legend(frameon=False, fontsize=8)


FIGURES: Mapping[str, FigureSpec] = {
    "speed": FigureSpec(
        "Speed and quality",
        "Dots are means over runs, lines 95% intervals, ticks single runs, a ring the reference.",
        speed,
    ),
    "scaling": FigureSpec(
        "Speed-up",
        "Dots are means with 95% intervals; the dotted line is an efficiency of 100%.",
        scaling,
    ),
    "learning": FigureSpec(
        "Learning curves",
        "Mean over runs; the band is from the smallest to the largest run. Training time is that of the epochs.",
        learning,
    ),
    "loss": FigureSpec("Loss", "Mean over runs; the band is from the smallest to the largest run.", loss),
    "time_parts": FigureSpec(
        "Where the time goes",
        "Wall time of a run, mean over runs; on the right its total.",
        time_parts,
    ),
    "time_and_price": FigureSpec(
        "Time against price",
        "Left is faster, down is cheaper; lines through dots are 95% intervals. The step line joins the configurations "
        "that no other beats in both, which are filled.",
        time_and_price,
    ),
}
"""All figures by name, in the order of a report."""


def _ranked(answer: Answer) -> list[Configuration]:
    """The configurations in the order of the table, without a target that no run reached."""
    ranked = rows(answer)
    return ranked if is_reached(ranked) else [replace(row, to_target=None) for row in ranked]


def _ratio(row: Configuration) -> Ratio | None:
    """The ratio by which configurations are ranked; 1 without interval for a reference."""
    if row.is_reference:
        return Ratio(1.0)
    return row.to_target.ratio if row.to_target else row.ratio


def _seconds(row: Configuration) -> Summary | None:
    """The seconds by which configurations are ranked, with their interval."""
    return row.to_target.expected if row.to_target else row.seconds


def _bound(answer: Answer) -> float | None:
    """The target's bound on the metric of the answer, as a fraction for an accuracy."""
    return answer.target.bound if answer.target and answer.target.metric == answer.metric else None


def _some(configurations: Sequence[Configuration], most: int = MAX_ROWS) -> list[Configuration]:
    """Return the best configurations, and references in place of the last of them if there are too many."""
    kept, further = configurations[:most], configurations[most:]
    references = [row for row in further if row.is_reference][: most // 3]
    return [*kept[: len(kept) - len(references)], *references]


def _colors(answer: Answer) -> dict[int, str]:
    """Return a color per configuration: by device or, if there is one, by the axis with the largest effect."""
    axis = "device" if "device" in answer.axes else answer.effects[0].axis if answer.effects else ""
    values = dict.fromkeys(format_value(row.axes.get(axis)) for row in answer.configurations)
    by_value = dict(zip(values, cycle(COLORS), strict=False))
    return {row.index: by_value[format_value(row.axes.get(axis))] for row in answer.configurations}


def _interval(panel: Axes, row: int, number: Summary, color: str, hollow: bool, scale: int = 1) -> None:
    """Draw a dot with its interval, or a ring."""
    if number.low is not None and number.high is not None:
        ends = [number.low * scale, number.high * scale]
        panel.plot(ends, [row, row], color=color, linewidth=1.6, solid_capstyle="butt")
    face = PAPER if hollow else color
    panel.plot([number.value * scale], [row], "o", color=color, markerfacecolor=face, markersize=5.5, zorder=3)


def _scale(panel: Axes, values: Sequence[float], times: float, which: str = "x", from_zero: bool = True) -> None:
    """Set a logarithmic scale for a range of more than `times`, else a linear one, from 0 or with a margin."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    positive = [value for value in values if value > 0] or [1.0]
    low, high = min(positive), max(positive)
    margin = 0.06 * (high - low) or 0.05
    is_log = high / low >= times
    limits = (low / 1.25, high * 1.25) if is_log else (0, high * 1.08) if from_zero else (low - margin, high + margin)
    panel.set(**{f"{which}lim": limits})
    if is_log:
        axis = panel.xaxis if which == "x" else panel.yaxis
        panel.set(**{f"{which}scale": "log"})
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high / low < 200 else (1.0,), numticks=12))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}" if value < 1e5 else f"{value:.0e}"))
        axis.set_minor_formatter(NullFormatter())


def _label_ends(figure: Figure, panel: Axes, ends: Sequence[tuple[str, float, float, str]]) -> None:
    """Write labels at the right margin, each with a thin line to its point."""
    ordered = sorted(ends, key=lambda end: -end[2])
    figure.draw_without_rendering()
    height = panel.get_window_extent().height / figure.dpi * 72
    places: list[float] = []
    for _, x, y, _ in ordered:
        height_of_point = float(panel.transAxes.inverted().transform(panel.transData.transform((x, y)))[1])
        places.append(min([height_of_point, *(place - 11 / height for place in places[-1:])]))
    # Labels that were pushed down together are centered on their points.
    shift = max(0.0, -min(places))
    for (name, x, y, color), place in zip(ordered, places, strict=True):
        panel.annotate(
            name,
            (x, y),
            xytext=(1.03, place + shift),
            textcoords="axes fraction",
            va="center",
            fontsize=8,
            color=color,
            arrowprops={"arrowstyle": "-", "color": color, "linewidth": 0.5, "alpha": 0.6, "shrinkA": 1, "shrinkB": 2},
            annotation_clip=False,
        )


def _fitted(answer: Answer, row: Configuration) -> str:
    """Return a label that fits: of a long one only the values, in the order of the table, and the end of these."""
    name = row.label or answer.workload
    if len(name) > MAX_LABEL:
        values = {axis: row.axes[axis] for axis in answer.axes if axis in row.axes}
        name = ", ".join(named_value(axis, v) if isinstance(v, bool) else format_value(v) for axis, v in values.items())
    return _shortened(name)


def _shortened(name: str) -> str:
    tail = MAX_LABEL // 2
    return name if len(name) <= MAX_LABEL else f"{name[: MAX_LABEL - tail - 1].rstrip()}…{name[-tail:].lstrip()}"


# matplotlib


def styled(salt: str) -> AbstractContextManager[None]:
    """Return a context with raybench's settings of matplotlib; the user's are restored afterwards."""
    # Without a home folder matplotlib uses a temporary font cache and would log two long lines about it.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    from matplotlib import style

    return style.context({**LETTERS, "svg.hashsalt": salt}, after_reset=True)


def _new_figure(make: Make, height: float, columns: int = 1, **options: Any) -> tuple[Figure, list[Axes]]:
    """Return a figure of this height in inches, and its panels from left to right."""
    figure = make(figsize=(WIDTH, height), layout="constrained")
    return figure, list(figure.subplots(1, columns, squeeze=False, **options)[0])


def svg(figure: Figure, salt: str) -> str:
    """Return the figure as an `<svg>` element to embed in a page, in the page's own colors."""
    page = StringIO()
    with styled(salt), warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+", UserWarning)
        figure.savefig(page, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = printable(page.getvalue())
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    for color, css in ((INK, "currentColor"), (PAPER, "var(--page, #fff)"), (LINE, "var(--line, #ccc)")):
        text = text.replace(color, css)
    # matplotlib uses the same ids in every figure (`axes_1`), but an id has to be unique in a page.
    return re.sub(r' id="[A-Za-z][\w.]*_\d+"', "", text)
