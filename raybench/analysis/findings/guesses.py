"""Guesses: what raybench takes for granted because nobody said it, and how to say it instead.

The docstring of a guess says when it is reported. It yields what an answer depends on, as cautions, or as words for the
sentence on two configurations. Where two sides disagree, they are not compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from statistics import fmean

from raybench.analysis.answer import Caution, Configuration, Criterion
from raybench.analysis.findings.finding import View, concerning, detects
from raybench.analysis.measured import TIME
from raybench.analysis.ratios import UNEQUAL_LENGTH, quality_difference, unlike
from raybench.analysis.work import SAME_WORK, clock_of, work_of
from raybench.core.groups import grouped
from raybench.core.job import is_accuracy
from raybench.core.labels import axis_label, configuration_label
from raybench.core.ledger import STEADY, TRAINING
from raybench.core.origin import Origin
from raybench.core.repeats import percent
from raybench.core.settings import PARAM
from raybench.core.settings import TRAINING as SETTINGS_OF_TRAINING
from raybench.core.status import TrialStatus
from raybench.core.text import join_words, names_text, plural
from raybench.results.metrics import quality_metrics
from raybench.results.output_clock import OF_TRAINING
from raybench.results.run_table import OF_A_TABLE, Run, seconds_in

LEAST_OTHER = 0.02  # least share of an epoch in other sections, such as evaluation, that an answer names

LEAST_CHANGE = math.log1p(0.1)  # least change of a ratio by evaluation that an answer names

START, COMPILE = ("setup", "startup", "data", "build"), ("compile", "compile_evaluate")
"""Sections of a run that it has once."""

FAILURES = (TrialStatus.DIVERGED, TrialStatus.FAILED, TrialStatus.OOM, TrialStatus.TIMEOUT)
"""Ends of runs that the others do not stand for."""


def _axes(axes: Sequence[str]) -> str:
    return join_words(list(map(axis_label, axes)))


@detects(
    "say `--lower-is-better METRIC` or `--higher-is-better METRIC`, or `lower_is_better: [METRIC]` in the grid file",
    of_answer=True,
    guess=True,
    about="quality",
)
def metric_direction(view: View) -> Iterator[Caution]:
    """A metric decides, by a budget or for lack of times, whose name does not say whether more of it is better."""
    answer = view.answer
    decides = answer.budget or not any(row.seconds for row in view.rows)
    if decides and answer.metric and not view.request.direction(answer.metric).sign:
        yield Caution("", f"whether more or less {answer.metric} is better is not known", could_change_best=True)


@detects("log fractions on both sides", of_answer=True, guess=True, about="quality")
def percent_or_fraction(view: View) -> Iterator[Caution]:
    """Accuracies of one side are read as percent (median above 1.5), and those of another as fractions."""
    metric = view.answer.metric
    scales = {cell.index: cell.scales[metric] for cell in view.measured if metric in cell.scales}
    if len({*scales.values()}) > 1:
        percent = [index for index, scale in scales.items() if scale != 1]
        fractions = [index for index, scale in scales.items() if scale == 1]
        text = f"values of {metric} are read as percent for {view.names(percent)} and as fractions for"
        yield concerning(scales, f"{text} {view.names(fractions)}: they are not compared")


@detects(
    "set equal `epochs`, a `budget` or a `target`, or make `epochs` an axis", of_pair=True, guess=True, about="quality"
)
def unequal_epochs(view: View, index: int, reference: int) -> Iterator[str]:
    """Sides trained for unequal numbers of epochs, or of steps in a whole run."""
    metric, places = view.answer.metric, sorted((index, reference))  # a sentence with both directions says it once
    sides, labels = [view.measured[place] for place in places], [view.rows[place].label for place in places]
    if why := unlike(sides[0], sides[1], metric):
        lengths = (f"{label}: {side.length_text}" for label, side in zip(labels, sides, strict=True))
        yield f"{metric} not compared ({'; '.join(lengths) if why is UNEQUAL_LENGTH else why})"
    if view.answer.unit.has_rate or not all(side.lengths and side.completed[0].clock == OF_A_TABLE for side in sides):
        return
    for what in ("epochs", "steps"):
        counts = [fmean(run.length if what == "epochs" else run.epochs[-1].steps for run in s.completed) for s in sides]
        if max(counts) > SAME_WORK * min(counts):
            texts = (f"{label} of {count:g}" for label, count in zip(labels, counts, strict=True))
            yield f"runs differ in their {what} ({', '.join(texts)})"
            return


@detects("run these", of_pair=True, guess=True)
def no_match(view: View, index: int, reference: int) -> Iterator[str]:
    """The best has settings with which the other side has no completed run."""
    best_axes, reference_axes = view.rows[index].axes, view.rows[reference].axes
    differing = [
        axis for axis in view.matching.axes if axis in best_axes and best_axes[axis] != reference_axes.get(axis)
    ]
    compared = [axis for axis in differing if axis in view.matching.compared]
    settings = [axis for axis in differing if axis not in compared and axis.startswith((*SETTINGS_OF_TRAINING, PARAM))]
    sides = [(reference_axes, compared), (best_axes, settings)]
    has_run = any(
        row.completed and all(row.axes.get(axis) == side.get(axis) for side, axes in sides for axis in axes)
        for row in view.rows
    )
    if compared and settings and not has_run:
        names = [configuration_label(*side) for side in sides]
        yield f"{names[0]} has no completed run with {names[1]}, which may be the reason"


@detects("leave out logs that were cut off, or set a `target`", of_answer=True, guess=True, about="quality")
def runs_of_unequal_length(view: View) -> Iterator[Caution]:
    """Runs of one configuration have unequal numbers of epochs, without a target or budget."""
    unequal = [cell for cell in view.measured if len(cell.lengths) > 1]
    if unequal and view.answer.metric:
        lengths = [f"{view.rows[cell.index].label} have {cell.length_text}" for cell in unequal]
        text = f"runs of {names_text(lengths)}, and {view.answer.metric} is the mean of all"
        yield concerning((cell.index for cell in unequal), text)


@detects("let it decide with `--metric NAME`", of_pair=True, guess=True, about="quality")
def other_metric_worse(view: View, index: int, reference: int) -> Iterator[str]:
    """The best is significantly worse in a further metric of validation."""
    side, other = view.measured[index], view.measured[reference]
    for name in quality_metrics(side.qualities):
        gap = None if name == view.answer.metric else quality_difference(side, other, name)
        if not gap or not gap.is_significant or not name.startswith(("val/", "test/")):
            continue
        size = 1.0 if is_accuracy(name) else abs(fmean(sample.value for sample in other.qualities[name]))
        if view.request.direction(name).sign * gap.value < 0 < size:
            ends = sorted(abs(end or 0.0) for end in (gap.low, gap.high))
            amount, low, high = (percent(part / size).rstrip("%") for part in (abs(gap.value), *ends))
            unit, change = " points" if is_accuracy(name) else "%", "higher" if gap.value > 0 else "lower"
            of = f"{name} of {view.rows[index].label}"
            yield f"{of} is {amount}{unit} {change} (95% CI {low}–{high}{unit})"


@detects("let both sides evaluate alike", of_pair=True, guess=True)
def other_sections(view: View, index: int, reference: int) -> Iterator[str]:
    """Evaluation, or the rest of a run, which no speed contains, changes a ratio of times by 10% or more."""
    sides = view.measured[index], view.measured[reference]
    if view.answer.budget or not all(side.times for side in sides):
        return
    shares = [fmean(map(_other_share, side.completed)) for side in sides]
    seconds, other_s = (math.exp(fmean(sample.value for sample in side.times)) for side in sides)
    if max(shares) >= LEAST_OTHER:
        ratio = seconds * (1 + shares[0]) / (other_s * (1 + shares[1]))
        if abs(math.log(ratio * other_s / seconds)) < LEAST_CHANGE:
            return
        names = [view.rows[side].label for side in (index, reference)][:: 1 if ratio > 1 else -1]
        ratio = max(ratio, 1 / ratio)
        longer = f"{ratio:.2g}x as long as" if ratio > 1.1 else f"{100 * (ratio - 1):.0f}% more time than"
        is_whole = view.answer.unit.name == OF_TRAINING.unit
        part = f"a whole run of {names[0]}" if is_whole else f"an epoch of {names[0]} with its evaluation"
        yield f"{part} takes {longer} one of {names[1]}"
    rows = [view.rows[side] for side in (index, reference)]
    parts, totals = [(row.price and row.price.value) or 0.0 for row in rows], [row.total_price or 0.0 for row in rows]
    if all(parts) and all(totals) and (parts[0] < parts[1]) != (totals[0] < totals[1]):
        cheap, dear = sorted(zip(totals, (row.label for row in rows), strict=True))
        yield f"a whole run of {dear[1]} costs {percent(dear[0] / cheap[0] - 1)} more than one of {cheap[1]}"


@detects("use `--whole-runs`", of_pair=True, guess=True)
def start_up_decides(view: View, index: int, reference: int) -> Iterator[str]:
    """Compilation or start-up makes the runs of the fastest longer."""
    rows = view.rows[index], view.rows[reference]
    sides = view.measured[index], view.measured[reference]
    is_training = not (view.answer.budget or view.answer.target or view.answer.unit.name == "run")
    if not is_training or not all(side.times and side.lengths for side in sides):
        return
    epoch_s, other_s = (fmean(run.steady_s or 0.0 for run in side.completed) for side in sides)
    starts, compiles = ([sum(row.run_parts_s.get(n, 0.0) for n in names) for row in rows] for names in (START, COMPILE))
    once = [sum(parts) for parts in zip(starts, compiles, strict=True)]
    length = max(sides[0].lengths)
    ratio = (once[0] + length * epoch_s) / (once[1] + length * other_s)
    if epoch_s < other_s and math.log(ratio) >= LEAST_CHANGE:
        noun = "compilation" if compiles[0] - compiles[1] > starts[0] - starts[1] else "start-up"
        after = sides[0].work_text(float(f"{(once[0] - once[1]) / (other_s - epoch_s):.2g}"))
        run = f"a run of {sides[0].work_text(length)} takes {ratio:.2g}x as long as with {rows[1].label}"
        yield f"with its {noun} {run}, and it pays after about {after}"


def _other_share(run: Run) -> float:
    """The time of steady epochs in sections other than training, or of a whole run of a table, relative to it."""
    if run.output_clock == OF_TRAINING:
        return (run.wall or 0.0) / training_s - 1 if (training_s := run.epochs_s) else 0.0
    names = {*run.timed.names("ledger")} - {*TRAINING}
    trained_s, others_s = (sum(seconds_in(run.timed, sections)) for sections in (STEADY, names))
    return others_s / trained_s if trained_s else 0.0


@detects("run them again with `--retry`", of_pair=True, guess=True)
def survivors(view: View, index: int, reference: int) -> Iterator[str]:
    """Runs of a side diverged or failed, so that the others stand for them."""
    for row in (view.rows[index], view.rows[reference]):
        ends = [f"{end.runs} {end.status}" for end in row.endings if end.status in FAILURES]
        if ends and row.completed:
            runs = plural(row.completed + sum(end.runs for end in row.endings), "run")
            yield f"{row.completed} of {runs} of {row.label} completed, {join_words(ends)}"


@detects("leave a slow first part out with `warmup_epochs`", of_answer=True, guess=True)
def changing_speed(view: View) -> Iterator[Caution]:
    """Steady epochs differ by 5% between the halves of training, or by a rank test over repeats: their mean counts.

    A median would be the time of one part of the training.
    """
    if rates := {cell.index: cell.changing for cell in view.measured if cell.changing}:
        early, late = max(rates.values(), key=lambda pair: abs(math.log(pair[1] / pair[0])))
        text = f"the speed of {view.names(rates)} changes in training, from {early:.3g} to {late:.3g} s per "
        text += f"{view.answer.unit.label}{' at most' if len(rates) > 1 else ''}: the times are means of steady epochs"
        yield concerning(rates, text, "find what slows it down, such as heat" if late > early else "")


@detects("give times with more digits", of_answer=True, guess=True)
def equal_times(view: View) -> Iterator[Caution]:
    """The times of all repeats are equal in all digits: there is no interval."""
    equal = [cell.index for cell in view.measured if TIME in cell.alike]
    if equal and not view.answer.budget:  # with one they are meant to be
        text = f"the times of all runs of {view.names(equal)} are equal in all digits: there is no interval"
        yield concerning(equal, text, is_open=len(view.timed) > 1)


@detects(
    "name the model: by `accelerator_type`, as the device, or in `--prices`",
    of_answer=True,
    guess=True,
)
def price_of_kind(view: View) -> Iterator[Caution]:
    """The cheapest has the price of a kind such as `cuda`, whatever model ran."""
    cells = view.request.cells
    assumed = [
        row.index
        for row in view.rows
        if row.price and row.price.value and cells[row.index].price_origin == Origin.ASSUMED
    ]
    if assumed and any(Criterion.CHEAPEST in best.ratios for best in view.answer.best):
        models = join_words(list(dict.fromkeys(view.rows[index].hardware for index in assumed)))
        yield concerning(assumed, f"the price of {view.names(assumed)} is of its kind, and it ran on {models}")


@detects("set one with `--epoch`", of_answer=True, guess=True)
def different_clocks(view: View) -> Iterator[Caution]:
    """The work of commands is counted by different lines: they are not compared."""
    clocks = grouped((clock_of(run), index) for index, run in view.runs)
    if len(clocks) > 1:
        named = [f"{view.names(indices)} ({clock or 'epochs'})" for clock, indices in clocks.items()]
        text = f"the clocks of {join_words(named)} differ, so that these are not compared"
        yield concerning((index for index, _ in view.runs), text)


@detects("state `work` under `workload`, or by `--work` of `raybench run`", of_answer=True, guess=True)
def assumed_work(view: View) -> Iterator[Caution]:
    """An axis whose name says nothing is taken to leave the work of a command's epoch alone."""
    axes = [axis for axis in view.matching.axes if work_of(axis, view.timed_runs) == (False, Origin.ASSUMED)]
    if axes and view.timed and not view.answer.unit.counted and view.is_printed:
        noun = "a run" if all(run.clock == "run" for run in view.timed_runs) else "an epoch"
        text = f"{noun} of the program is taken to be the same work with every value of {_axes(axes)}"
        ranked = any(Criterion.FASTEST in best.ratios and best.other is not None for best in view.answer.best)
        yield replace(concerning(_differing(view.rows, axes), text, is_open=ranked), axes=tuple(axes))


@detects("count the examples of an epoch", of_answer=True, guess=True)
def work_not_counted(view: View) -> Iterator[Caution]:
    """By its name an axis changes the work of an epoch, which no run counts."""
    axes = [axis for axis in view.matching.axes if work_of(axis, view.timed_runs)[0]]
    if axes and view.timed and not view.answer.unit.counted:
        text = f"no run counts its examples, and the work of an epoch may depend on {_axes(axes)}"
        per_unit = f"the ratios are of times per {view.answer.unit.label}"
        text += f": {f'nothing is compared across {_axes(axes)}' if view.is_printed else per_unit}"
        example = f'`work: {{examples: "{{{axes[0].removeprefix(PARAM)}}} * 10"}}`'
        stated = f"state it under `workload`, such as {example}, or with `--work` of `raybench run`"
        caution = concerning(_differing(view.rows, axes), text, stated if view.is_printed else "")
        yield replace(caution, axes=tuple(axes))


def _differing(rows: Sequence[Configuration], axes: Iterable[str]) -> list[int]:
    """The configurations that differ from their reference in one of some axes."""
    compared = [row for row in rows if row.reference is not None]
    return [
        row.index
        for row in compared
        if any(row.axes.get(axis) != rows[row.reference or 0].axes.get(axis) for axis in axes)
    ]
