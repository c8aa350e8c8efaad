"""The request of a grid: its configurations, repeats, baseline and target, as saved with each execution."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Self

import msgspec

from raybench.core.cell import UNKNOWN_CELL, Cell
from raybench.core.identity import canonical
from raybench.core.job import Target
from raybench.core.origin import Origin
from raybench.core.repeats import RepeatRule
from raybench.core.settings import PARAM
from raybench.core.status import TrialStatus
from raybench.results.executions import as_name
from raybench.results.metrics import Direction, direction_of
from raybench.results.parsing import cell_in
from raybench.results.run_table import Run

if TYPE_CHECKING:
    from raybench.results.history import GridHistory


@dataclass(frozen=True)
class PlannedCell:
    """A requested configuration of a grid.

    Attributes:
        axes: its coordinates in the grid: each axis and its value.
        repeats: number of runs requested, at least 1.
        skip: the reason why it cannot run here; None if it can.
        price_per_hour: price of its device, in the grid's currency.
        content: the fields that its identity is computed from; falsy if only its runs have them.
        request_id: the digest of its request, the same on machines on which the cells differ; empty if not known.
        price_source: where its price comes from; empty if not known.
        price_origin: assumed if the price is of a kind of accelerators, such as `cuda`, of whatever model.
    """

    cell_id: str
    axes: Mapping[str, Any]
    repeats: int
    skip: str | None = None
    price_per_hour: float | None = None
    content: Cell = UNKNOWN_CELL
    request_id: str = ""
    price_source: str = ""
    price_origin: Origin = Origin.SAID


@dataclass(frozen=True)
class GridRequest:
    """The request of one grid execution, as far as it is known.

    Attributes:
        cells: in the order of the file.
        baseline: axes and the baseline's values on them; empty for the first value of every axis.
        budget: what each trial may spend on training, by `time` (s), `price` or `energy` (J); empty without a limit.
        metric: the metric of quality; empty to choose it from what the runs logged.
        higher_is_better: by metric, as far as the user says it.
        unit: the unit of work that the runs count, such as `tokens`; empty to choose it.
        text: the grid file.
        part: a description of the selection if only some cells were requested; empty if all were.
        currency: of its prices.
        rule: what decides the number of repeats, of which `repeats` of a cell is then the largest; None if it is fixed.
        limits: those of a comparison of two versions (`raybench.analysis.versions.Limits`); None of any other grid.
        max_quality_loss: by how much an accuracy, or what part of a metric, may be worse than the best and still count.
        first_look: the number of repeats after which a report was made before more were added; 0 if none were.
        these_machines: whether the answer is about the machines of the runs, and not about their models of device.
    """

    name: str
    cells: Sequence[PlannedCell] = ()
    baseline: Mapping[str, Any] = field(default_factory=dict)
    workload: str = ""
    target: Target | None = None
    budget: Mapping[str, float] = field(default_factory=dict)
    metric: str = ""
    higher_is_better: Mapping[str, bool] = field(default_factory=dict)
    unit: str = ""
    description: str = ""
    text: str = ""
    part: str = ""
    currency: str = "USD"
    rule: RepeatRule | None = None
    limits: Mapping[str, Any] | None = None
    max_quality_loss: float = 0.01
    first_look: int = 0
    these_machines: bool = False

    def to_json(self) -> dict[str, Any]:
        """The request as plain values, without the text of the grid file, which is saved apart."""
        cells = [{**vars(cell), "content": cell.content.to_json()} for cell in self.cells]
        target = asdict(self.target) if self.target else None
        rule = asdict(self.rule) if self.rule else None
        return {**vars(self), "cells": cells, "target": target, "text": "", "rule": rule}

    @classmethod
    def from_json(cls, tree: Mapping[str, Any], text: str = "") -> Self | None:
        """Read a request that `to_json` wrote; None if anything in it is damaged."""
        try:
            contents = [cell_in(json.dumps(cell["content"])) for cell in tree["cells"]]
            cells = [{name: cell[name] for name in cell if name != "content"} for cell in tree["cells"]]
            request = msgspec.convert({**tree, "cells": cells, "text": text}, cls)
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError, msgspec.ValidationError):
            return None
        is_whole = {entry.name for entry in fields(cls)} >= {*tree}
        filled = [replace(cell, content=content) for cell, content in zip(request.cells, contents, strict=True)]
        return replace(request, cells=filled) if is_whole else None

    def direction(self, metric: str) -> Direction:
        """Return whether more of a metric is better, and how that is known."""
        return direction_of(metric, self.higher_is_better, self.target)

    def is_same(self, earlier: GridRequest | None) -> bool:
        """Return whether a different request differs at most in the text of its file."""

        def saved(request: GridRequest) -> str:
            return json.dumps({**request.to_json(), "first_look": 0}, default=str)

        return earlier is not None and saved(self) == saved(earlier)


def latest_request(history: GridHistory) -> GridRequest | None:
    """Return the request of the last execution, with the cells of those of other machines; None if none is readable."""
    by_origin: dict[str, GridRequest] = {}
    with_runs = {run.cell_id for run in history.attempts.values() if run.started}
    for execution in reversed(history.executions):
        request = GridRequest.from_json(execution.request, execution.grid)
        if request and execution.origin in by_origin:
            by_origin[execution.origin] = _with_earlier(by_origin[execution.origin], request, with_runs)
        elif request:
            by_origin[execution.origin] = request
    if not by_origin:
        return None
    # Machines in the order in which they began, so that results of a further one do not change the reference.
    began = [by_origin[origin] for origin in dict.fromkeys(e.origin for e in history.executions) if origin in by_origin]
    last = next(iter(by_origin.values()))
    place = next(number for number, candidate in enumerate(began) if candidate is last)
    return replace(unite(last, began[place + 1 :], began[:place]), first_look=first_look(history, last))


def _with_earlier(request: GridRequest, earlier: GridRequest, with_runs: Collection[str]) -> GridRequest:
    """Put cells that ran earlier in the place of those that cannot run now, such as those of a node that is gone."""
    ran = {cell.request_id: cell for cell in earlier.cells if cell.cell_id in with_runs and cell.request_id}
    cells = [
        replace(ran[cell.request_id], axes=cell.axes, repeats=cell.repeats)
        if cell.skip and cell.request_id in ran
        else cell
        for cell in request.cells
    ]
    return replace(request, cells=cells)


def first_look(history: GridHistory, request: GridRequest) -> int:
    """Return the number of repeats of the first execution with fewer repeats, if it came to its end; else 0."""
    begins = [execution.name for execution in history.executions[1:]]  # each report was made before the next
    most = {cell.cell_id: cell.repeats for cell in request.cells}
    last: dict[tuple[str, int], str] = {}
    for run in history.attempts.values():
        if run.status == TrialStatus.COMPLETED and run.ended:
            last[run.cell_id, run.repeat] = as_name(run.ended)
    for execution, following in zip(history.executions, [*begins, "~"], strict=False):
        earlier = GridRequest.from_json(execution.request)
        if earlier is None or (earlier.rule and request.rule):
            continue
        planned = {
            cell.cell_id: earlier.rule.at_least if earlier.rule else cell.repeats
            for cell in earlier.cells
            if cell.cell_id in most
        }
        looks = [repeats for cell, repeats in planned.items() if repeats < most[cell]]
        ends = [last.get((cell, repeats - 1), "") for cell, repeats in planned.items()]
        if looks and max(looks) > 1 and "" < max(ends) < following:
            return max(looks)
    return 0


def unite(request: GridRequest, further: Sequence[GridRequest], earlier: Sequence[GridRequest] = ()) -> GridRequest:
    """Add the cells of other machines to a request; those of `earlier` ones come first.

    A cell that cannot run on one machine is left out if a different machine has it. Cells that differ only in the
    hardware or in what is installed there get different device names, such as `cpu (AMD EPYC)`.
    """
    points: dict[str, dict[str, PlannedCell]] = {}
    for of_machine, cell in ((asked, cell) for asked in (*earlier, request, *further) for cell in asked.cells):
        of_point = points.setdefault(canonical({"axes": cell.axes}), {})
        planned = of_point.get(cell.cell_id, cell)
        content = cell if of_machine is request else planned
        of_point[cell.cell_id] = replace(content, repeats=max(planned.repeats, cell.repeats))
    groups = []
    for of_point in points.values():
        runnable = [cell for cell in of_point.values() if not cell.skip]
        groups.append(runnable or list(of_point.values())[:1])
    names = device_names(groups)
    cells = [
        replace(cell, axes={**cell.axes, "device": names[cell.cell_id]}) if cell.cell_id in names else cell
        for group in groups
        for cell in group
    ]
    baseline = dict(request.baseline)
    if "device" in baseline:
        asked = (cell for earlier_request in (*earlier, request) for cell in earlier_request.cells)
        first = next((cell for cell in asked if cell.axes.get("device") == baseline["device"] and not cell.skip), None)
        baseline["device"] = names.get(first.cell_id, baseline["device"]) if first else baseline["device"]
    return replace(request, cells=cells, baseline=baseline)


_DIFFERENCES: Mapping[str, str] = {
    "device.model": "{}",
    "device.threads": "threads {}",
    "device.count": "count {}",
    "engine.framework_version": "framework {}",
    "engine.lock": "environment {:.8}",
    "data.digest": "data {:.8}",
    "workload.version": "workload {}",
    "workload.digest": "files {:.8}",
}
"""Parts of a cell that are not known before it runs, with a text for each."""


def device_names(groups: Sequence[Sequence[PlannedCell]]) -> dict[str, str]:
    """Return a name of the device for each cell of those devices of which a point of the grid has several."""
    names: dict[str, str] = {}
    by_device: dict[str, list[PlannedCell]] = {}
    for cell in (cell for group in groups for cell in group if not cell.skip):
        by_device.setdefault(str(cell.axes.get("device")), []).append(cell)
    for device, cells in by_device.items():
        twins = [group for group in groups if len(group) > 1 and str(group[0].axes.get("device")) == device]
        chosen: list[str] = []
        for leaf in _DIFFERENCES:
            if any(len(_texts(group, [*chosen, leaf])) > len(_texts(group, chosen)) for group in twins):
                chosen.append(leaf)
        for cell in cells if twins else ():
            text = _text(cell, chosen) or f"configuration {cell.cell_id:.6}"
            names[cell.cell_id] = f"{device} ({text})"
    return names


def _texts(group: Sequence[PlannedCell], leaves: Sequence[str]) -> set[str]:
    return {_text(cell, leaves) for cell in group}


def _text(cell: PlannedCell, leaves: Sequence[str]) -> str:
    values = cell.content.leaves
    return ", ".join(
        _DIFFERENCES[leaf].format(str(values[leaf]).removeprefix("sha256:")) for leaf in leaves if leaf in values
    )


_AXES: Mapping[str, str] = {
    "workload.name": "workload",
    "data.name": "data_set",
    "device.model": "hardware",
    "device.count": "count",
    "device.nodes": "nodes",
    "device.replicas": "replicas",
    "device.threads": "threads",
    "framework": "framework",
    "engine.framework_version": "framework_version",
    "engine.environment": "environment",
    "compared.version": "version",
}
"""Names of axes other than settings, by their place in a cell."""


def request_of_runs(name: str, attempts: Iterable[Run], prices: Mapping[str, float] | None = None) -> GridRequest:
    """Return the request that attempts imply, if none was saved, as for a CSV file.

    Every cell is included, with the fields of cells that differ as axes. Hardware and software that follow from the
    device are no axes, because the device's name implies them.
    """
    by_cell: dict[str, list[Run]] = {}
    for attempt in attempts:
        by_cell.setdefault(attempt.cell_id, []).append(attempt)
    runs = {cell_id: next((run for run in group if run.cell), group[0]) for cell_id, group in by_cell.items()}
    axes = {cell_id: _axes(run) for cell_id, run in runs.items()}
    varied = [axis for axis in dict.fromkeys(axis for point in axes.values() for axis in point) if _varies(axis, axes)]
    cells = []
    for cell_id, run in runs.items():
        coordinates = {axis: axes[cell_id][axis] for axis in varied if axis in axes[cell_id]}
        skip = str(run.error.get("message")) if run.status == TrialStatus.SKIPPED and run.error else None
        repeats = max(run.repeat for run in by_cell[cell_id]) + 1
        cells.append(PlannedCell(cell_id, coordinates, repeats, skip, (prices or {}).get(cell_id), run.cell))
    target = next((run.target for run in runs.values() if run.target), None)
    budgets = [dict(run.cell.budget or {}) for run in runs.values()]
    common = budgets[0] if budgets and all(budget == budgets[0] for budget in budgets) else {}
    budget = {name: common[key] for name, key in (("time", "seconds"), ("energy", "joules")) if key in common}
    workloads = dict.fromkeys(str(run.cell.workload.name) for run in runs.values() if run.cell.workload.name)
    metric = target.metric if target else next((run.metric for run in runs.values() if run.metric), "")
    directions = {
        name: is_higher
        for run in runs.values()
        for names, is_higher in ((run.lower_is_better, False), (run.higher_is_better, True))
        for name in (names or "").split()
    }
    request = GridRequest(name, cells, workload=", ".join(workloads) or name, target=target, metric=metric)
    return replace(request, budget=budget, higher_is_better=directions)


def _varies(axis: str, axes: Mapping[str, Mapping[str, Any]]) -> bool:
    """Return whether an axis has several values; hardware and software that the device's name implies do not count."""
    values: dict[str, set[str]] = {}
    follows_device = axis in _AXES.values() and axis != "workload"
    for coordinates in axes.values():
        values.setdefault(str(coordinates.get("device")) if follows_device else "", set()).add(
            repr(coordinates.get(axis))
        )
    return any(len(value) > 1 for value in values.values())


def _axes(attempt: Run) -> dict[str, Any]:
    """Return an attempt's values on all possible axes, by their names in a grid file."""
    leaves = attempt.cell.leaves
    device = attempt.profile or leaves.get("device.kind")
    axes: dict[str, Any] = {} if device is None else {"device": device}
    axes |= {axis: leaves[leaf] for leaf, axis in _AXES.items() if leaf in leaves}
    if attempt.cell.device.kind == "cpu" and "count" in axes:  # there it is that of cores
        axes |= {"cpus": axes["count"], "count": leaves.get("device.devices", 1)}
    for leaf, value in leaves.items():
        if leaf == "settings.optimizer.name":
            axes["optimizer"] = value
        elif leaf.startswith("settings.optimizer."):
            axes[leaf.rpartition(".")[2]] = value
        elif leaf.startswith("settings."):
            axes[leaf.removeprefix("settings.")] = value
        elif leaf.startswith(PARAM):
            axes[leaf] = value
    return axes
