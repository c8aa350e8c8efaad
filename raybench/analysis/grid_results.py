"""A grid as it stands: the cells that were asked for, the runs there are, and what a person calls each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from raybench.analysis.comparison import (
    ACCURACY,
    PlannedCell,
    Row,
    compare,
    is_partial_axis,
    runs_of,
    steady_seconds_by_repeat,
)
from raybench.analysis.diagnostics.diagnose import Finding
from raybench.analysis.run_counts import RunCounts, count_runs
from raybench.core.identity import canonical, is_smoke, trial_id
from raybench.core.job import Target
from raybench.core.status import TrialStatus
from raybench.datasets import is_synthetic
from raybench.planning.plan import format_value
from raybench.results.attempt import Attempt, Key, main_metric
from raybench.results.timing import steady_epochs

PERCENT = 100.0

SKIPPED, NOT_RUN = TrialStatus.SKIPPED, "not run"

ERRORS = ("loss", "error", "mse", "mae", "perplexity")
"""How the names of metrics end of which less is better (`rmse` among them)."""

_ALWAYS = ("device", "batch_size", "weight_decay")
"""The axes that a grid is about, first and in this order."""

_JOB: Mapping[str, str] = {
    "workload.name": "workload",
    "data.name": "data_set",
    "data.examples.train": "train_examples",
    "data.examples.val": "val_examples",
}
"""What is trained, on how much: never compared across, also where each device has its own."""

_AXES: Mapping[str, str] = {
    **_JOB,
    "device.model": "hardware",
    "device.count": "count",
    "device.replicas": "replicas",
    "device.threads": "threads",
    "framework": "framework",
    "engine.framework_version": "framework_version",
    "workload.version": "workload_version",
    "data.digest": "data",
    "warmup_epochs": "warmup_epochs",
}
"""What outside the settings makes an axis where nobody wrote down which axes there are."""

PLACE = ("device", "framework", "precision", "replicas")
"""The axes that say on what a job runs and how it computes there; the others are settings that one has to choose."""


@dataclass(frozen=True)
class GridResults:
    """What was asked for and what there is, for tables, figures and sentences.

    Attributes:
        name: of the grid.
        workload: what is trained.
        cells: what was asked for, in the order of the file.
        latest: the latest attempt of each trial (`raybench.results.attempt.latest`).
        baseline: axes and the value that the baseline was to have there; empty where nothing is compared.
        target: the quality to reach, where one was asked for.
        findings: caveats of attempts (`raybench.analysis.diagnostics.diagnose.diagnose_all`).
    """

    name: str
    workload: str
    cells: Sequence[PlannedCell]
    latest: Mapping[str, Attempt]
    baseline: Mapping[str, Any]
    target: Target | None = None
    findings: Mapping[Key, Sequence[Finding]] = field(default_factory=dict)

    @property
    def smoke(self) -> bool:
        """Whether the grid was cut to see that it runs, so that no number of it is a result."""
        return is_smoke(self.name)

    @cached_property
    def metric(self) -> str:
        """The metric of quality (`main_metric`)."""
        names = {name for run in self.latest.values() for epoch in run.epochs[-1:] for name in epoch.metrics}
        return main_metric(names, self.target) or ACCURACY

    @cached_property
    def synthetic_data(self) -> str:
        """The generated data set that its cells are trained on in place of a real one; empty if they are not."""
        runs = [run for cell in self.cells for run in runs_of(cell, self.latest)]
        names = {each.data.name for each in (*(run.cell for run in runs), *(cell.content for cell in self.cells))}
        return next((name for name in names if isinstance(name, str) and is_synthetic(name)), "")

    @property
    def metric_label(self) -> str:
        """The metric for people: with a mark if the data are synthetic."""
        return f"{self.metric} (synthetic data)" if self.synthetic_data else self.metric

    @property
    def less_is_better(self) -> bool:
        """Whether the lowest metric is the best: the target says so or, where it is of another, its name does."""
        if self.target and self.target.metric == self.metric:
            return self.target.at_least is None
        return self.metric.rpartition("/")[2].endswith(ERRORS)

    @cached_property
    def rows(self) -> list[Row]:
        """The comparison, a row a cell, in the order of `cells`; of a smoke run without ratios."""
        return compare(self.cells, self.latest, {} if self.smoke else self.compared_with, self.metric, self.findings)

    @cached_property
    def compared_with(self) -> Mapping[str, Any]:
        """The baseline or, where no cell of it has a time and several others have, the first of these in its stead."""
        timed_cells = [cell for cell in self.cells if not cell.aa_of and self.baseline.keys() <= cell.axes.keys()]
        timed_cells = [cell for cell in timed_cells if steady_seconds_by_repeat(runs_of(cell, self.latest))]
        candidates = [{axis: cell.axes[axis] for axis in self.baseline} for cell in timed_cells]
        if dict(self.baseline) in candidates or all(values == candidates[0] for values in candidates):
            return self.baseline
        return candidates[0]

    @cached_property
    def axes(self) -> dict[str, list[Any]]:
        """The axes along which cells are told apart, each with its values in order.

        Along such an axis the grid has more than one value, or an included cell has one and others have none.
        """
        values_by_axis: dict[str, dict[str, Any]] = {}
        for cell in self.cells:
            for name, value in cell.axes.items():
                values_by_axis.setdefault(name, {})[format_value(value)] = value
        axis_names = [
            name for name, values in values_by_axis.items() if len(values) > 1 or is_partial_axis(name, self.cells)
        ]
        varied_axes = {name: list(values_by_axis[name].values()) for name in axis_names}
        return {name: varied_axes[name] for name in sorted(varied_axes, key=_place)}

    def label(self, cell: PlannedCell, without: Iterable[str] = ()) -> str:
        """What a person calls a cell: its values on the axes that vary, `gpu b512 wd5e-4`.

        Args:
            cell: one of `cells`.
            without: axes that the reader sees elsewhere.
        """
        left_out = set(without)
        parts = [axis_label(name, cell.axes[name]) for name in self.axes if name in cell.axes and name not in left_out]
        if not parts and not left_out:
            parts = [axis_label(name, cell.axes[name]) for name in _ALWAYS if name in cell.axes] or [cell.cell_id]
        return " ".join([*parts, *(["A/A"] if cell.aa_of else [])])

    @cached_property
    def places(self) -> dict[str, str]:
        """Hardware and arithmetic of each cell, by its id: `gpu`, `cpu tensorflow`, `tpu replicas=8`.

        This is the device's name in the grid file and, if a device has several of them, its framework, precision and
        replicas, because they change the work that the same settings stand for. Empty if the grid has none of these
        axes.
        """
        points = [cell.axes for cell in self.cells]
        place_axes = ["device", *(axis for axis in PLACE[1:] if varies_within(axis, points))]
        return {
            cell.cell_id: " ".join(axis_label(axis, cell.axes[axis]) for axis in place_axes if axis in cell.axes)
            for cell in self.cells
        }

    def runs(self, cell: PlannedCell) -> list[Attempt]:
        """The latest attempts at a cell's repeats, however they ended, in the order of the repeats."""
        names = [trial_id(cell.cell_id, repeat) for repeat in range(cell.repeats)]
        return [self.latest[name] for name in names if name in self.latest]

    def completed(self, cell: PlannedCell) -> list[Attempt]:
        """Those of its runs that give numbers."""
        return [run for run in self.runs(cell) if run.status == TrialStatus.COMPLETED]

    def values(self, cell: PlannedCell) -> list[float]:
        """The metric of a cell's completed runs after their last epoch."""
        return [value for run in self.completed(cell) if (value := run.metric(self.metric)) is not None]

    def steps(self, cell: PlannedCell) -> int | None:
        """Optimiser steps in an epoch of a cell; None where no completed run has told."""
        # Of a steady epoch: with 9.9 of them the last is shorter.
        epoch_steps = (steady_epochs(run)[-1].steps for run in self.completed(cell) if run.epochs)
        return next(filter(None, epoch_steps), None)

    def counts(self, cell: PlannedCell) -> RunCounts:
        """How the repeats of a cell ended."""
        return count_runs(cell.repeats, self.runs(cell), cell.skip)

    @cached_property
    def accuracies(self) -> list[tuple[dict[str, str], float]]:
        """Where each completed run lies on the axes that vary, and its accuracy.

        None where accuracy is not the metric, or where runs stop at their target, beyond which they might have learned
        more.
        """
        if any(run.stops for run in self.latest.values()):
            return []
        return [
            ({axis: format_value(cell.axes[axis]) if axis in cell.axes else "none" for axis in self.axes}, value)
            for cell in self.cells
            for value in self.values(cell)
            if not cell.aa_of and self.metric == ACCURACY
        ]

    @cached_property
    def aside(self) -> int:
        """How many attempts were not asked for: of another machine, another version, an earlier file or repeat."""
        own_trials = {trial_id(cell.cell_id, repeat) for cell in self.cells for repeat in range(cell.repeats)}
        return sum(name not in own_trials for name in self.latest)

    @cached_property
    def further(self) -> int:
        """How many of those are further repeats of these cells than were asked for."""
        repeats = {cell.cell_id: cell.repeats for cell in self.cells}
        return sum(run.repeat >= repeats.get(run.cell_id, run.repeat + 1) for run in self.latest.values())


def in_fractions(results: GridResults) -> GridResults:
    """Convert accuracies in percent to fractions, in the runs and in the target.

    Returns:
        The same object if the accuracies are no percentages.
    """
    metric_names = ("val/accuracy", "train/accuracy")
    values = [
        epoch.metrics[name]
        for run in results.latest.values()
        for epoch in run.epochs
        for name in metric_names
        if name in epoch.metrics
    ]
    if not values or max(values) <= 1 or min(values) < 0 or max(values) > PERCENT:
        return results
    target, run_targets = results.target, {run.target for run in results.latest.values()}
    scaled_targets = {each: _scaled(each) for each in {target, *run_targets}}
    latest = {}
    for trial, run in results.latest.items():
        epochs = {
            epoch.epoch: replace(
                epoch,
                metrics={
                    name: value / PERCENT if name in metric_names else value for name, value in epoch.metrics.items()
                },
            )
            for epoch in run.epochs
        }
        latest[trial] = replace(run, target=scaled_targets[run.target], _epochs=epochs)
    return replace(results, latest=latest, target=scaled_targets[target])


def _scaled(target: Target | None) -> Target | None:
    """A target on an accuracy in percent, as a fraction."""
    if target is None or not target.metric.endswith("/accuracy"):
        return target
    bounds = (None if bound is None else bound / PERCENT for bound in (target.at_least, target.at_most))
    return Target(target.metric, *bounds)


def varies_within(axis: str, points: Iterable[Mapping[str, Any]]) -> bool:
    """Whether some device has several values on an axis; where each has one, the device's name says it already."""
    values_by_device: dict[str, set[str]] = {}
    for point in points:
        values_by_device.setdefault(str(point.get("device")), set()).add(canonical({"": point.get(axis)}))
    return any(len(values) > 1 for values in values_by_device.values())


def axis_label(axis: str, value: Any) -> str:
    """A value on an axis as run names write it: `gpu`, `b512`, `wd5e-4`, `precision=bf16`."""
    if axis in ("device", "framework"):
        return str(value)
    prefixes = {"batch_size": "b", "weight_decay": "wd"}
    return f"{prefixes[axis]}{format_value(value)}" if axis in prefixes else f"{axis}={format_value(value)}"


def of_journal(name: str, latest: Mapping[str, Attempt], prices: Mapping[str, float] | None = None) -> GridResults:
    """A grid of which nothing is known but what its trials tell: every cell they have, on the axes that differ.

    What differs from device to device alone is no axis: the device's name says it. The first device is the baseline
    where there are several. A skipped trial never told of its cell, so that it has no place on an axis.

    Args:
        name: what to call it.
        latest: the latest attempt of each trial.
        prices: from a device's name to what an hour of it costs.
    """
    attempt_by_cell: dict[str, Attempt] = {}
    repeats: Counter[str] = Counter()
    for attempt in latest.values():
        if attempt.cell or attempt.cell_id not in attempt_by_cell:
            attempt_by_cell[attempt.cell_id] = attempt
        repeats[attempt.cell_id] = max(repeats[attempt.cell_id], attempt.repeat + 1)
    axes = {cell: _axes(attempt) for cell, attempt in attempt_by_cell.items() if attempt.cell or attempt.profile}
    kept_axes = [
        axis
        for axis in dict.fromkeys(axis for cell_axes in axes.values() for axis in cell_axes)
        if axis in _ALWAYS
        or varies_within(axis, axes.values())
        or (axis in _JOB.values() and len({format_value(cell_axes.get(axis)) for cell_axes in axes.values()}) > 1)
    ]
    if _follows("framework_version", axes.values()):
        kept_axes = [axis for axis in kept_axes if axis != "framework_version"]
    cells = []
    for cell, attempt in attempt_by_cell.items():
        cell_axes = {axis: axes[cell][axis] for axis in kept_axes if axis in axes.get(cell, {})}
        skip = str(attempt.error["message"]) if attempt.status == TrialStatus.SKIPPED and attempt.error else None
        price = (prices or {}).get(str(cell_axes.get("device")))
        original = attempt.cell.role.aa_of
        original = original if original in attempt_by_cell else None
        cells.append(PlannedCell(cell, cell_axes, repeats[cell], skip, price, original, attempt.cell))
    first_attempt = next((attempt for attempt in attempt_by_cell.values() if attempt.cell), None)
    devices = list(dict.fromkeys(cell.axes["device"] for cell in cells if "device" in cell.axes))
    return GridResults(
        name=name,
        workload=str((first_attempt and first_attempt.cell.workload.name) or name),
        cells=cells,
        latest=latest,
        baseline={"device": devices[0]} if len(devices) > 1 else {},
        target=next((attempt.target for attempt in attempt_by_cell.values() if attempt.target), None),
    )


def _follows(axis: str, points: Iterable[Mapping[str, Any]]) -> bool:
    """Whether the framework of each device decides a value: the version of one in an environment of its own."""
    values_by_place: dict[tuple[str, str], set[str]] = {}
    for point in points:
        values_by_place.setdefault((str(point.get("device")), str(point.get("framework"))), set()).add(
            str(point.get(axis))
        )
    return all(len(values) == 1 for values in values_by_place.values())


def _axes(attempt: Attempt) -> dict[str, Any]:
    """Where a cell lies: its device, and everything that may vary, by the names that a grid file has for it."""
    cell = attempt.cell.leaves()
    device = attempt.profile or cell.get("device.kind")
    axes: dict[str, Any] = {} if device is None else {"device": device}
    axes |= {axis: cell[leaf] for leaf, axis in _AXES.items() if leaf in cell}
    for leaf, value in cell.items():
        if leaf.startswith("settings."):
            axes[leaf.rpartition(".")[2] if leaf.startswith("settings.optimizer.") else leaf[9:]] = value
    if "settings.optimizer.name" in cell:
        axes["optimizer"] = cell["settings.optimizer.name"]
        del axes["name"]
    return axes


def _place(axis: str) -> tuple[int, str]:
    """Where an axis stands: those that a grid is about first; Python's sort keeps the file's order among equals."""
    return (_ALWAYS.index(axis), "") if axis in _ALWAYS else (len(_ALWAYS), "")
