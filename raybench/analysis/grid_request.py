"""The request of one grid execution, saved next to the journal."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import TypeAdapter

from raybench.analysis.comparison import PlannedCell
from raybench.core.job import Target
from raybench.planning.plan import Plan, baseline_of
from raybench.results.executions import PLAN
from raybench.results.history import GridHistory
from raybench.results.parsing import valid_values_in

FILE = "grid.yaml"
"""Name of an execution's copy of the grid file beside its journal."""


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
    """

    cells: Sequence[PlannedCell]
    baseline: Mapping[str, Any]
    workload: str
    target: Target | None = None
    description: str = ""
    text: str = ""
    part: str = ""


def planned_cells(plan: Plan) -> list[PlannedCell]:
    """Convert the plan's cells to `PlannedCell` objects."""
    return [
        PlannedCell(
            cell.cell_id,
            cell.axes,
            cell.repeats,
            cell.skip,
            cell.price_per_hour,
            cell.content.role.aa_of,
            cell.content,
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
    )


def _part(plan: Plan) -> str:
    """Describe the requested part of a grid.

    Empty if no cell was left out.
    """
    if not plan.left_out:
        return ""
    chosen = " ".join(f"--where {axis}={value}" for axis, value in plan.where)
    cells = len([cell for cell in plan.cells if not cell.content.role.is_aa_test]) + plan.left_out
    return f"`{chosen}` leaves out {plan.left_out} of its {cells} cells"


def to_dict(request: GridRequest) -> dict[str, Any]:
    """Convert a request to plain data for `PLAN`.

    The grid file is left out, because it is saved separately.
    """
    cells = [{**vars(cell), "content": cell.content.to_json()} for cell in request.cells]
    target = asdict(request.target) if request.target else None
    return {name: value for name, value in vars(request).items() if name != "text"} | {"cells": cells, "target": target}


def latest_request(history: GridHistory) -> GridRequest | None:
    """Return the latest readable request of a grid, or None."""
    for summary in history.executions():
        request = _wanted(summary.files)
        if request:
            return request
    return None


def same_cells(first: GridRequest | None, second: GridRequest | None) -> bool:
    """Return whether two requests have the same cells, repeats, baseline and target."""
    contents = [
        each and ([(cell.cell_id, cell.repeats) for cell in each.cells], dict(each.baseline), each.target)
        for each in (first, second)
    ]
    return contents[0] == contents[1]


def _wanted(files: Mapping[str, str]) -> GridRequest | None:
    """Parse the request from an execution's files.

    None if any of it is damaged.
    """
    try:
        plan = valid_values_in(json.loads(files[PLAN])["wanted"])
        return TypeAdapter(GridRequest).validate_python({**plan, "text": files.get(FILE, "")})
    except (LookupError, TypeError, ValueError, RecursionError):
        return None
