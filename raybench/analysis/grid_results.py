"""Results of a grid: its planned cells, their runs, and display labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from raybench.analysis.comparison import ACCURACY, PlannedCell, Row, compare, is_partial_axis, runs_of
from raybench.analysis.diagnostics.diagnose import Finding
from raybench.analysis.run_counts import RunCounts, count_runs
from raybench.analysis.samples import steady_seconds_by_repeat
from raybench.core.cell import VERSION_AXIS
from raybench.core.identity import canonical, is_smoke, trial_id
from raybench.core.job import Target
from raybench.core.settings import PARAM, short_name
from raybench.core.status import TrialStatus
from raybench.core.text import format_value, is_written
from raybench.datasets import is_synthetic
from raybench.errors import UsageError, nearest
from raybench.results.attempt import Attempt, Key, main_metric
from raybench.results.timing import steady_epochs

PERCENT = 100.0

ACCURACIES = ("val/accuracy", "train/accuracy")

SKIPPED, NOT_RUN = TrialStatus.SKIPPED, "not run"

ERRORS = ("loss", "error", "mse", "mae", "perplexity")
"""Suffixes of metric names for which lower is better (includes `rmse`)."""

_ALWAYS = ("device", "batch_size", "weight_decay")
"""The axes that are always listed first, in this order."""

_JOB: Mapping[str, str] = {
    "workload.name": "workload",
    "data.name": "data_set",
    "data.examples.train": "train_examples",
    "data.examples.val": "val_examples",
}
"""Axes of the workload and its data.

Cells that differ on them are never compared. This also holds if each device has its own workload or data.
"""

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
    "compared.version": VERSION_AXIS,
}
"""Axes other than settings.

They are used if the journal has no record of the grid's axes.
"""

PLACE = ("device", "framework", "precision", "replicas")
"""The axes for the hardware and numerics of a job.

All others are settings to tune.
"""


@dataclass(frozen=True)
class GridResults:
    """Requested cells and available runs, for tables, figures and text.

    Attributes:
        name: of the grid.
        workload: the name of the workload.
        cells: the requested cells, in the order of the file.
        latest: the latest attempt of each trial (`raybench.results.attempt.latest`).
        baseline: axes and the requested baseline's values on them; empty if nothing is compared.
        target: the quality to reach, if one was requested.
        findings: findings by attempt (`raybench.analysis.diagnostics.diagnose.diagnose_all`).
        file: the file that the runs were read from if there is no grid file; empty otherwise.
        price_per_kwh, gco2_per_kwh: price and grams of CO2 of a kilowatt-hour; None if not given.
    """

    name: str
    workload: str
    cells: Sequence[PlannedCell]
    latest: Mapping[str, Attempt]
    baseline: Mapping[str, Any]
    target: Target | None = None
    findings: Mapping[Key, Sequence[Finding]] = field(default_factory=dict)
    file: str = ""
    price_per_kwh: float | None = None
    gco2_per_kwh: float | None = None

    @property
    def smoke(self) -> bool:
        """Whether this is a smoke run, whose numbers are not results."""
        return is_smoke(self.name)

    @cached_property
    def metric(self) -> str:
        """The metric of quality (`main_metric`)."""
        names = {name for run in self.latest.values() for epoch in run.epochs[-1:] for name in epoch.metrics}
        return main_metric(names, self.target) or ACCURACY

    @cached_property
    def synthetic_data(self) -> str:
        """Name of the generated data set that replaces a real one.

        Empty if there is none.
        """
        runs = [run for cell in self.cells for run in runs_of(cell, self.latest)]
        names = {each.data.name for each in (*(run.cell for run in runs), *(cell.content for cell in self.cells))}
        return next((name for name in names if isinstance(name, str) and is_synthetic(name)), "")

    @property
    def metric_label(self) -> str:
        """The metric's display name, marked if the data are synthetic."""
        return f"{self.metric} (synthetic data)" if self.synthetic_data else self.metric

    @property
    def less_is_better(self) -> bool:
        """Whether lower values of the metric are better.

        The target decides; if it is on another metric, the metric's name does.
        """
        if self.target and self.target.metric == self.metric:
            return self.target.at_least is None
        return self.metric.rpartition("/")[2].endswith(ERRORS)

    @cached_property
    def rows(self) -> list[Row]:
        """The comparison, one row per cell in the order of `cells`.

        Without ratios for a smoke run.
        """
        rows = compare(self.cells, self.latest, {} if self.smoke else self.compared_with, self.metric, self.findings)
        return [
            replace(row, energy=row.energy.priced(self.price_per_kwh, self.gco2_per_kwh)) if row.energy else row
            for row in rows
        ]

    @cached_property
    def compared_with(self) -> Mapping[str, Any]:
        """The baseline's axis values, or those of its replacement.

        If no cell of the baseline has a time and several other candidates have, the first of these replaces it.
        """
        baseline = dict(self.baseline)
        if not baseline:
            return self.baseline
        cells = [cell for cell in self.cells if not cell.aa_of and baseline.keys() <= cell.axes.keys()]
        values = [{axis: cell.axes[axis] for axis in baseline} for cell in cells]
        if any(each == baseline and self._is_timed(cell) for cell, each in zip(cells, values, strict=True)):
            return self.baseline
        candidates = [each for cell, each in zip(cells, values, strict=True) if self._is_timed(cell)]
        if all(each == candidates[0] for each in candidates):
            return self.baseline
        return candidates[0]

    def _is_timed(self, cell: PlannedCell) -> bool:
        return bool(steady_seconds_by_repeat(self.runs(cell)))

    @cached_property
    def axes(self) -> dict[str, list[Any]]:
        """The axes that distinguish cells, each with its values in order.

        On such an axis the grid has more than one value, or an included cell has a value and others have none.
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

    def value_on(self, axis: str, value: Any) -> Any:
        """Return the grid's value on an axis that a text or a number stands for.

        Raises:
            UsageError: the grid has no such axis or value; the message has the nearest one.
        """
        axis_names = dict.fromkeys(name for cell in self.cells for name in cell.axes)
        if axis not in axis_names:
            hint = nearest(axis, axis_names) if axis_names else "there is none"
            raise UsageError(f"{self.name} has no axis {axis}; {hint}")
        values = [cell.axes[axis] for cell in self.cells if axis in cell.axes]
        text = value if isinstance(value, str) else format_value(value)
        matches = [known for known in values if is_written(text, known)]
        if not matches:
            hint = nearest(text, dict.fromkeys(map(format_value, values)))
            raise UsageError(f"{axis} of {self.name} is never {text}; {hint}")
        return matches[0]

    def label(self, cell: PlannedCell, without: Iterable[str] = ()) -> str:
        """Return a cell's display label.

        These are its values on varying axes, such as `gpu b512 wd5e-4`.

        Args:
            cell: one of `cells`.
            without: axes to omit because they are shown elsewhere.
        """
        left_out = set(without)
        parts = [axis_label(name, cell.axes[name]) for name in self.axes if name in cell.axes and name not in left_out]
        if not parts and not left_out:
            parts = [axis_label(name, cell.axes[name]) for name in _ALWAYS if name in cell.axes] or [cell.cell_id]
        return " ".join([*parts, *(["A/A"] if cell.aa_of else [])])

    @property
    def has_several_jobs(self) -> bool:
        """Whether cells differ in the workload or its data, so that their times must not be compared."""
        return not self.axes.keys().isdisjoint(_JOB.values())

    @cached_property
    def places(self) -> dict[str, str]:
        """Hardware and numerics of each cell, by cell id.

        For example `gpu`, `cpu tensorflow` or `tpu replicas=8`. This is the device's name in the grid file, followed by
        those of framework, precision and replicas that take several values on one device, because they change the work
        that the same settings stand for. An empty string if the grid has none of these axes.
        """
        points = [cell.axes for cell in self.cells]
        place_axes = ["device", *(axis for axis in PLACE[1:] if varies_within(axis, points))]
        return {
            cell.cell_id: " ".join(axis_label(axis, cell.axes[axis]) for axis in place_axes if axis in cell.axes)
            for cell in self.cells
        }

    def runs(self, cell: PlannedCell) -> list[Attempt]:
        """Return the latest attempts of a cell's repeats, in order of repeat.

        Attempts with any status are included.
        """
        key = cell.cell_id, cell.repeats
        if key not in self._runs:
            self._runs[key] = runs_of(cell, self.latest)
        return self._runs[key]

    @cached_property
    def _runs(self) -> dict[Key, list[Attempt]]:
        return {}

    def completed(self, cell: PlannedCell) -> list[Attempt]:
        """Return the completed runs of a cell."""
        return [run for run in self.runs(cell) if run.status == TrialStatus.COMPLETED]

    def values(self, cell: PlannedCell) -> list[float]:
        """The metric of a cell's completed runs after their last epoch."""
        return [value for run in self.completed(cell) if (value := run.metric(self.metric)) is not None]

    def steps(self, cell: PlannedCell) -> int | None:
        """Return optimizer steps per epoch of a cell.

        None if no completed run has them.
        """
        # Use a steady epoch: with a fractional number of epochs such as 9.9, the last one is shorter.
        epoch_steps = (steady_epochs(run)[-1].steps for run in self.completed(cell) if run.epochs)
        return next(filter(None, epoch_steps), None)

    def counts(self, cell: PlannedCell) -> RunCounts:
        """Count the repeats of a cell by how they ended."""
        return count_runs(cell.repeats, self.runs(cell), cell.skip)

    @cached_property
    def accuracies(self) -> list[tuple[dict[str, str], float]]:
        """The accuracy of each completed run, with its values on varying axes.

        Empty if accuracy is not the metric, or if runs stop at their target: these might have reached a higher accuracy
        with more epochs.
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
    def has_percent(self) -> bool:
        """Whether the accuracies are percentages."""
        highest = lowest = 0.0
        for run in self.latest.values():
            for name in ACCURACIES:
                values = [epoch.metrics.get(name, 0.0) for epoch in run.epochs]
                highest = max(highest, max(values, default=0.0))
                lowest = min(lowest, min(values, default=0.0))
        return 1 < highest <= PERCENT and lowest >= 0

    @cached_property
    def aside(self) -> int:
        """Number of attempts that were not requested.

        They are from other machines, versions or earlier files, or further repeats.
        """
        own_trials = {trial_id(cell.cell_id, repeat) for cell in self.cells for repeat in range(cell.repeats)}
        return sum(name not in own_trials for name in self.latest)

    @cached_property
    def further(self) -> int:
        """Number of `aside` attempts that are further repeats of the requested cells."""
        repeats = {cell.cell_id: cell.repeats for cell in self.cells}
        return sum(run.repeat >= repeats.get(run.cell_id, run.repeat + 1) for run in self.latest.values())


def in_fractions(results: GridResults) -> GridResults:
    """Convert accuracies and targets in percent to fractions.

    Returns:
        The same object if neither the accuracies nor a target are percentages.
    """
    target, run_targets = results.target, {run.target for run in results.latest.values()}
    in_percent = results.has_percent
    if not in_percent and not any(each and each.in_percent for each in (target, *run_targets)):
        return results
    scaled_targets = {each: _scaled(each) for each in {target, *run_targets}}
    latest = {}
    for trial, run in results.latest.items():
        epochs = [
            replace(
                epoch,
                metrics={
                    name: value / PERCENT if in_percent and name in ACCURACIES else value
                    for name, value in epoch.metrics.items()
                },
            )
            for epoch in run.epochs
        ]
        latest[trial] = replace(run, target=scaled_targets[run.target], epochs=epochs)
    return replace(results, latest=latest, target=scaled_targets[target])


def _scaled(target: Target | None) -> Target | None:
    """Convert a target on an accuracy from percent to a fraction."""
    if target is None or not target.in_percent:
        return target
    bounds = (None if bound is None else bound / PERCENT for bound in (target.at_least, target.at_most))
    return Target(target.metric, *bounds)


def varies_within(axis: str, points: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether any device has several values on an axis.

    If each device has a single value, the device's name implies it.
    """
    values_by_device: dict[str, set[Any]] = {}
    for point in points:
        value = point.get(axis)
        is_plain = value is None or isinstance(value, (str, int, float))
        key = (type(value), value) if is_plain else canonical({"": value})
        values_by_device.setdefault(str(point.get("device")), set()).add(key)
    return any(len(values) > 1 for values in values_by_device.values())


def axis_label(axis: str, value: Any) -> str:
    """Format an axis value for run names: `gpu`, `b512`, `wd5e-4`, `precision=bf16`."""
    if axis in ("device", "framework", VERSION_AXIS):
        return str(value)
    prefixes = {"batch_size": "b", "weight_decay": "wd"}
    return f"{prefixes[axis]}{format_value(value)}" if axis in prefixes else f"{short_name(axis)}={format_value(value)}"


def of_journal(name: str, latest: Mapping[str, Attempt], prices: Mapping[str, float] | None = None) -> GridResults:
    """Build results from trials alone, if no record of the grid exists.

    All cells of the trials are included, on the axes that differ. A value that differs only between devices is no axis,
    because the device's name implies it. With several devices, the first is the baseline. A skipped trial has no
    recorded cell and hence no values on the axes.

    Args:
        name: name of the grid.
        latest: the latest attempt of each trial.
        prices: price per hour by device name.
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
        cells.append(PlannedCell(cell, cell_axes, repeats[cell], skip, price, None, attempt.cell))
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
    """Return whether the framework of each device determines a value.

    This holds for the framework's version if each framework has an environment of its own.
    """
    values_by_place: dict[tuple[str, str], set[str]] = {}
    for point in points:
        values_by_place.setdefault((str(point.get("device")), str(point.get("framework"))), set()).add(
            str(point.get(axis))
        )
    return all(len(values) == 1 for values in values_by_place.values())


def _axes(attempt: Attempt) -> dict[str, Any]:
    """Return a cell's values on all possible axes, by grid file names."""
    cell = attempt.cell.leaves()
    device = attempt.profile or cell.get("device.kind")
    axes: dict[str, Any] = {} if device is None else {"device": device}
    axes |= {axis: cell[leaf] for leaf, axis in _AXES.items() if leaf in cell}
    for leaf, value in cell.items():
        if leaf.startswith("settings."):
            axes[leaf.rpartition(".")[2] if leaf.startswith("settings.optimizer.") else leaf[9:]] = value
        elif leaf.startswith(PARAM):
            axes[leaf] = value
    if "settings.optimizer.name" in cell:
        axes["optimizer"] = cell["settings.optimizer.name"]
        del axes["name"]
    return axes


def _place(axis: str) -> tuple[int, str]:
    """Sort key of an axis: the `_ALWAYS` axes first.

    Python's sort is stable, so the others keep the file's order.
    """
    return (_ALWAYS.index(axis), "") if axis in _ALWAYS else (len(_ALWAYS), "")
