"""The request of one grid execution, saved next to its attempts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from pydantic import TypeAdapter

from raybench.analysis.comparison import PlannedCell
from raybench.core.identity import canonical
from raybench.core.job import Target
from raybench.planning.plan import Plan, baseline_of
from raybench.results.executions import Execution
from raybench.results.history import GridHistory
from raybench.results.parsing import valid_values_in


@dataclass(frozen=True)
class GridRequest:
    """The request of one grid execution, as far as it was recorded.

    Attributes:
        cells: in the order of the file.
        baseline: axes and the baseline's values on them.
        target: the quality to reach.
        description: the purpose of the grid.
        text: the grid file.
        part: a description of the selection if only some cells were requested; empty if all were.
        price_per_kwh, gco2_per_kwh: price and grams of CO2 of a kilowatt-hour; None if not given.
    """

    cells: Sequence[PlannedCell]
    baseline: Mapping[str, Any]
    workload: str
    target: Target | None = None
    description: str = ""
    text: str = ""
    part: str = ""
    price_per_kwh: float | None = None
    gco2_per_kwh: float | None = None


def planned_cells(plan: Plan) -> list[PlannedCell]:
    """Convert the plan's cells to `PlannedCell` objects."""
    return [
        PlannedCell(
            cell.cell_id,
            cell.axes,
            cell.repeats,
            cell.skip,
            cell.price_per_hour,
            None,
            cell.content,
            cell.request_id,
        )
        for cell in plan.cells
    ]


def request_of(plan: Plan) -> GridRequest:
    """Return the request of a plan."""
    spec = plan.spec
    return GridRequest(
        cells=planned_cells(plan),
        baseline=baseline_of(spec, plan.cells),
        workload=plan.workload.name,
        target=Target(**spec.target.model_dump()) if spec.target else None,
        description=spec.description or "",
        text=spec.source_text or "",
        part=_part(plan),
        price_per_kwh=spec.price_per_kwh,
        gco2_per_kwh=spec.gCO2_per_kwh,
    )


def _part(plan: Plan) -> str:
    """Describe the requested part of a grid.

    Empty if no cell was left out.
    """
    if not plan.left_out:
        return ""
    chosen = " ".join(f"--where {axis}={value}" for axis, value in plan.where)
    cells = len(plan.cells) + plan.left_out
    return f"`{chosen}` leaves out {plan.left_out} of its {cells} cells"


def to_dict(request: GridRequest) -> dict[str, Any]:
    """Convert a request to plain data, without the text of the grid file."""
    cells = [{**vars(cell), "content": cell.content.to_json()} for cell in request.cells]
    target = asdict(request.target) if request.target else None
    fields = {
        name: value
        for name, value in vars(request).items()
        if name != "text" and not (name.endswith("_per_kwh") and value is None)
    }
    return fields | {"cells": cells, "target": target}


def latest_request(history: GridHistory) -> GridRequest | None:
    """Return the request of the last execution, or None.

    If results of other folders were added, such as those of different hardware, it has their cells too.
    """
    requests: dict[str, GridRequest] = {}
    for execution in reversed(history.executions):
        if execution.origin not in requests and (request := _request_in(execution)):
            requests[execution.origin] = request
    first, *others = requests.values() if requests else (None,)
    return unite(first, others) if first else None


def unite(request: GridRequest, others: Sequence[GridRequest]) -> GridRequest:
    """Add the cells of other machines to a request.

    A cell that cannot run on one machine is left out if another machine has it. Cells that differ only in the hardware
    or in what is installed there get different device names, such as `cpu (AMD EPYC)`.
    """
    if not others:
        return request
    points: dict[str, dict[str, PlannedCell]] = {}
    for cell in (cell for each in (request, *others) for cell in each.cells):
        cells_of_point = points.setdefault(canonical({"axes": cell.axes, "aa": bool(cell.aa_of)}), {})
        known = cells_of_point.get(cell.cell_id)
        cells_of_point[cell.cell_id] = replace(known, repeats=max(known.repeats, cell.repeats)) if known else cell
    groups = []
    for cells_of_point in points.values():
        runnable = [cell for cell in cells_of_point.values() if not cell.skip]
        groups.append(runnable or list(cells_of_point.values())[:1])
    names = _device_names(groups)
    cells = [_renamed(cell, names) for group in groups for cell in group]
    has_rest = request.part and len(groups) > len(request.cells)
    baseline = dict(request.baseline)
    if "device" in baseline:
        first = next((cell for cell in request.cells if cell.axes.get("device") == baseline["device"]), None)
        baseline["device"] = names.get(first.cell_id, baseline["device"]) if first else baseline["device"]
    return replace(request, cells=cells, baseline=baseline, part="" if has_rest else request.part)


def _device_names(groups: Sequence[Sequence[PlannedCell]]) -> dict[str, str]:
    """Return a name of the device for each cell of those devices of which a group has several.

    Args:
        groups: the cells of each point of the grid.
    """
    names: dict[str, str] = {}
    cells_by_device: dict[str, list[PlannedCell]] = {}
    for cell in (cell for group in groups for cell in group if not cell.skip):
        cells_by_device.setdefault(str(cell.axes.get("device")), []).append(cell)
    for device, cells in cells_by_device.items():
        twins = [group for group in groups if len(group) > 1 and str(group[0].axes.get("device")) == device]
        chosen: list[str] = []
        for leaf in _DIFFERENCES:
            texts = [[_text(cell, [*chosen, leaf]) for cell in group] for group in twins]
            known = [[_text(cell, chosen) for cell in group] for group in twins]
            if any(len(set(new)) > len(set(old)) for new, old in zip(texts, known, strict=True)):
                chosen.append(leaf)
        if any(len({_text(cell, chosen) for cell in group}) < len(group) for group in twins):
            chosen.append(_CELL)
        for cell in cells:
            if chosen and (text := _text(cell, chosen)):
                names[cell.cell_id] = f"{device} ({text})"
    return names


_CELL = "cell"
_DIFFERENCES: Mapping[str, str] = {
    "device.model": "{}",
    "device.threads": "{} threads",
    "device.count": "count {}",
    "engine.framework_version": "framework {}",
    "data.digest": "data {:.8}",
    "workload.version": "workload {}",
    "workload.digest": "files {:.8}",
}
"""Parts of a cell that are not known before it runs, with a text for each."""


def _text(cell: PlannedCell, leaves: Sequence[str]) -> str:
    values = cell.content.leaves()
    texts = [_DIFFERENCES[leaf].format(str(values[leaf]).removeprefix("sha256:")) for leaf in leaves if leaf in values]
    texts = ["1 thread" if text == "1 threads" else text for text in texts]
    return ", ".join([*texts, *([f"cell {cell.cell_id:.6}"] if _CELL in leaves else [])])


def _renamed(cell: PlannedCell, names: Mapping[str, str]) -> PlannedCell:
    if cell.cell_id not in names:
        return cell
    return replace(cell, axes={**cell.axes, "device": names[cell.cell_id]})


def same_cells(first: GridRequest | None, second: GridRequest | None) -> bool:
    """Return whether two requests have the same cells, repeats, baseline and target."""
    contents = [
        each and ([(cell.cell_id, cell.repeats) for cell in each.cells], dict(each.baseline), each.target)
        for each in (first, second)
    ]
    return contents[0] == contents[1]


def _request_in(execution: Execution) -> GridRequest | None:
    """Return the request of an execution; None if any of it is damaged."""
    try:
        return TypeAdapter(GridRequest).validate_python({**valid_values_in(execution.request), "text": execution.grid})
    except (LookupError, TypeError, ValueError, RecursionError):
        return None
