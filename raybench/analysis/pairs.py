"""Comparisons of each cell with its baseline, as plain numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import fmean
from typing import Any

from raybench.analysis.comparison import (
    ACCURACY,
    CoLocatedCells,
    PlannedCell,
    are_even,
    baseline_indices,
    bottleneck_of,
    cautions_of,
    examples_of,
    have_equal_steps,
    is_partial_axis,
    on_other_hardware,
    runs_of,
    speedup_of,
)
from raybench.analysis.diagnostics.finding import Finding
from raybench.analysis.energy import epoch_energies, target_energies
from raybench.analysis.run_counts import RunCounts, count_runs
from raybench.analysis.samples import hosts_of, steady_seconds_by_repeat
from raybench.analysis.statistics.break_even import (
    BreakEven,
    RunCost,
    break_even_length,
    run_costs_of,
    startup_seconds,
)
from raybench.analysis.statistics.speedup import Speedup
from raybench.analysis.statistics.time_to_target import Expected, TargetAttempt, expected, target_attempt_of
from raybench.core.cell import Cell
from raybench.core.job import Target
from raybench.core.settings import CONVERGENCE, MISSING, PARAM, SETTINGS, TRAINING, affecting, label
from raybench.core.status import TrialStatus
from raybench.core.text import format_value
from raybench.datasets import is_synthetic
from raybench.results import timing
from raybench.results.attempt import Attempt, Key

LEARNING = affecting(CONVERGENCE)
"""The settings that affect the number of epochs to a target."""

HARDWARE = {"device", "count", *SETTINGS} - LEARNING
"""The axes that do not affect the number of epochs to target."""


@dataclass(frozen=True)
class SettingDifference:
    """A setting in which two cells differ.

    Attributes:
        setting: its name in a grid file.
        other, baseline: its values.
        in_baseline: whether the baseline's value is known: a published source may leave settings out.
    """

    setting: str
    other: Any
    baseline: Any
    in_baseline: bool = True

    @property
    def affects_learning(self) -> bool:
        """Whether it may change the number of epochs to a target.

        Unknown settings count as such.
        """
        return self.setting not in HARDWARE


@dataclass(frozen=True)
class CellSummary:
    """The runs of one cell.

    Attributes:
        name: the values that distinguish it from the other side, such as "gpu" or "batch 128".
        counts: number of runs by how they ended.
        times: steady seconds per epoch of completed runs, by repeat.
        hosts: the machines on which these ran.
        from_warmup: whether one of them had no epoch after its warm-up.
        accuracies: of the last epoch of completed runs, as fractions.
        epochs: numbers of epochs of completed runs: a single one, unless they stopped at a target.
        examples: examples per epoch; None if not recorded.
        stops: whether a run ends when it reaches its target.
        bottleneck: the bottlenecks of its runs, most frequent first; empty if not known.
        cautions: codes of its runs' findings that could reverse the verdict.
        synthetic_data: whether its runs trained on generated data in place of a real data set.
        target_attempts: its runs towards the target, if one was set.
        processes: one-time cost and cost per step of its completed runs.
        before: mean seconds that these took before their training; 0 if not recorded.
        price_per_hour: of its device.
        energies: joules per steady epoch of its completed runs that were measured.
        target_energies: `target_attempts` with joules in place of seconds; empty if one of them was not measured.
    """

    name: str
    counts: RunCounts
    times: Mapping[int, float] = field(default_factory=dict)
    hosts: tuple[Any, ...] = ()
    from_warmup: bool = False
    accuracies: tuple[float, ...] = ()
    epochs: frozenset[float] = frozenset()
    examples: int | None = None
    stops: bool = False
    bottleneck: tuple[str, ...] = ()
    cautions: frozenset[str] = frozenset()
    synthetic_data: bool = False
    target_attempts: tuple[TargetAttempt, ...] = ()
    processes: tuple[RunCost, ...] = ()
    before: float = 0.0
    price_per_hour: float | None = None
    energies: tuple[float, ...] = ()
    target_energies: tuple[TargetAttempt, ...] = ()

    @cached_property
    def to_target(self) -> Expected | None:
        """Its success rate and expected time to the target; None without a target or a run that informs about it."""
        return expected(self.target_attempts)


@dataclass(frozen=True)
class Comparison:
    """A cell and its baseline.

    Attributes:
        setting: the values that both share, such as "batch 256, decay 5e-4"; may be empty.
        other: the cell.
        baseline: the other's baseline; None if the cell is the baseline itself, none was named, or the cell with the
            baseline's values is not in the grid.
        is_baseline: whether others are compared with `other`.
        is_aa_test: whether both are the same cell, for an A/A check.
        hardware: whether they ran on different hardware or different amounts of it, as far as is known; if not, their
            ratio is not attributed to hardware.
        differences: settings in which they differ, other than the baseline's axes.
        learns_alike: whether only hardware is compared, so that only `differences` can change the number of epochs to a
            target.
        same_steps: whether a step is the same work on both sides, because the batch sizes are equal.
        speedup: of the other over the baseline; None if a side has no time.
        even: whether epochs have equally many examples on both sides, as far as is known.
        examples: size of the validation set; None if not known.
        target: the quality to reach, if one was set.
    """

    setting: str
    other: CellSummary
    baseline: CellSummary | None = None
    is_baseline: bool = False
    is_aa_test: bool = False
    hardware: bool = True
    differences: tuple[SettingDifference, ...] = ()
    learns_alike: bool = True
    same_steps: bool = True
    speedup: Speedup | None = None
    even: bool = True
    examples: int | None = None
    target: Target | None = None

    @cached_property
    def break_even(self) -> BreakEven | None:
        """The faster side by the length of a job in steps.

        None if a step is other work on the two sides, or without the costs of a side.
        """
        if self.baseline is None or not self.same_steps:
            return None
        return break_even_length(self.baseline.processes, self.other.processes)

    @property
    def learning_differences(self) -> tuple[SettingDifference, ...]:
        """The differences that may change the number of epochs to a target."""
        return tuple(each for each in self.differences if each.affects_learning)


def pairs(
    cells: Sequence[PlannedCell],
    latest: Mapping[str, Attempt],
    baseline: Mapping[str, Any] | None = None,
    metric: str = ACCURACY,
    findings: Mapping[Key, Sequence[Finding]] | None = None,
) -> list[Comparison]:
    """Return a comparison for each cell, in order.

    The arguments are those of `raybench.analysis.comparison.compare`.
    """
    baseline, findings = baseline or {}, findings or {}
    runs = [runs_of(cell, latest) for cell in cells]
    varied_axes = _varied(cells)
    fields = [name for name in varied_axes if name in baseline] or list(baseline)
    neighbours = CoLocatedCells(runs, [steady_seconds_by_repeat(cell_runs) for cell_runs in runs])
    sides = [_side(*each, fields, metric) for each in zip(cells, runs, strict=True)]
    cell_pairs = []
    for number, origin in enumerate(baseline_indices(cells, baseline)):
        cell, cell_runs, side = cells[number], runs[number], sides[number]
        sample_run = next((run for run in cell_runs if run.cell), None)
        shown_axes = [name for name in varied_axes if name not in fields]
        if "batch_size" in cell.axes and "batch_size" not in (*shown_axes, *fields):
            shown_axes.insert(0, "batch_size")
        pair = Comparison(
            setting=", ".join(axis_value_label(name, cell.axes[name]) for name in shown_axes if name in cell.axes),
            other=side,
            is_baseline=origin == number and not cell.aa_of,
            is_aa_test=cell.aa_of is not None,
            examples=(sample_run.cell.data.examples.val or None) if sample_run else None,
            target=next((run.target for run in cell_runs if run.target), None),
        )
        if origin is not None and origin != number:
            baseline_run = next((run for run in runs[origin] if run.cell), None)
            cell_differences = (
                differences(baseline_run.cell, sample_run.cell, fields) if baseline_run and sample_run else ()
            )
            batches = [each.axes.get("batch_size") for each in (cell, cells[origin]) if "batch_size" in fields]
            speedup = speedup_of(runs[origin], cell_runs, neighbours.of(origin, number))
            cautions = (
                cautions_of(speedup, runs[origin], cell_runs, findings) if speedup else (frozenset(), frozenset())
            )
            pair = replace(
                pair,
                baseline=replace(sides[origin], cautions=cautions[0]),
                other=replace(side, cautions=cautions[1]),
                speedup=speedup,
                even=are_even(runs[origin], cell_runs),
                differences=cell_differences,
                hardware=on_other_hardware(runs[origin], cell_runs),
                learns_alike=set(fields) <= HARDWARE,
                same_steps=all(each == batches[0] for each in batches)
                and all(each.setting != "batch_size" for each in cell_differences)
                and have_equal_steps(runs[origin], cell_runs),
            )
        cell_pairs.append(pair)
    return cell_pairs


def differences(baseline: Cell, other: Cell, fields: Sequence[str]) -> tuple[SettingDifference, ...]:
    """Return differences of two cells' settings, other than the compared ones.

    This includes the framework. The hardware itself, its threads and whatever follows from the framework are excluded.
    """
    other_settings, baseline_settings = _job(other), _job(baseline)
    optimizers = {other_settings["optimizer"], baseline_settings["optimizer"]} - {MISSING}
    return tuple(
        SettingDifference(
            name,
            value,
            None if (known := baseline_settings.get(name, MISSING)) is MISSING else known,
            known is not MISSING,
        )
        for name, value in other_settings.items()
        if value is not MISSING
        and value != baseline_settings.get(name, MISSING)
        and name not in fields
        and (name not in TRAINING or all(map(TRAINING[name].applies_to, optimizers)))
    )


def _job(cell: Cell) -> dict[str, Any]:
    """Return the settings of a cell other than its hardware, by name."""
    settings = {name: getattr(cell.settings, name) for name in TRAINING}
    fields = {"replicas": cell.device.replicas, "framework": cell.framework, "stop_at_target": cell.stop_at_target}
    params = {f"{PARAM}{name}": value for name, value in (cell.params or {}).items()}
    return settings | fields | params


def _varied(cells: Sequence[PlannedCell]) -> list[str]:
    """Return the axes that distinguish cells, in order.

    These have more than one value, or a value that other cells lack.
    """
    values: dict[str, list[Any]] = {}
    for cell in cells:
        for name, value in cell.axes.items():
            values.setdefault(name, []).append(value)
    return [
        name
        for name, axis_values in values.items()
        if any(value != axis_values[0] for value in axis_values) or is_partial_axis(name, cells)
    ]


def _side(
    cell: PlannedCell,
    runs: Sequence[Attempt],
    fields: Sequence[str],
    metric: str,
) -> CellSummary:
    completed = [run for run in runs if run.status == TrialStatus.COMPLETED]
    target = next((run.target for run in runs if run.target), None)
    run_bound = bottleneck_of(runs)
    values = [value for run in completed if (value := run.metric(metric)) is not None]
    name = ", ".join(
        format_value(cell.axes[key]) if key == "device" else axis_value_label(key, cell.axes[key])
        for key in fields
        if key in cell.axes
    )
    return CellSummary(
        name=(name or _fallback(cell)) + (" again" if cell.aa_of else ""),
        counts=count_runs(cell.repeats, runs, cell.skip),
        times=steady_seconds_by_repeat(runs),
        hosts=tuple(hosts_of(runs)),
        from_warmup=any(map(timing.steady_from_warmup, completed)),
        accuracies=tuple(values) if metric == ACCURACY and all(0 <= value <= 1 for value in values) else (),
        epochs=frozenset(map(_trained, completed)),
        examples=examples_of(runs),
        stops=any(run.stops for run in runs),
        synthetic_data=any(is_synthetic(name) for run in runs if isinstance(name := run.cell.data.name, str)),
        bottleneck=run_bound.causes if run_bound else (),
        target_attempts=tuple(each for run in runs if target and (each := target_attempt_of(run, target))),
        processes=run_costs_of(completed),
        before=fmean(map(startup_seconds, completed)) if completed else 0.0,
        price_per_hour=cell.price_per_hour,
        energies=epoch_energies(runs),
        target_energies=target_energies(runs, target) if target else (),
    )


def _trained(run: Attempt) -> float:
    """Return the number of epochs of a run.

    If the last epoch is a partial one, this is the requested number, such as 9.9.
    """
    epoch_count = len(run.epochs)
    return float(run.cell.settings.epochs) if len(run.full_epochs) < epoch_count else epoch_count


def _fallback(cell: PlannedCell) -> str:
    """Return a cell's name if no baseline determines its distinguishing values."""
    return format_value(cell.axes["device"]) if "device" in cell.axes else cell.cell_id


def axis_value_label(name: str, value: Any) -> str:
    """Format an axis value in words: "batch 128", "decay 5e-4"."""
    return f"{label(name)} {format_value(value)}"
