"""What an execution of a grid asked for: from its plan to what it leaves beside the journal, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import TypeAdapter

from raybench.analysis.comparison import PlannedCell
from raybench.core.job import Target
from raybench.planning.plan import Plan, baseline_of
from raybench.results.executions import ENDED, PLAN, read_execution
from raybench.results.history import GridHistory
from raybench.results.parsing import valid_values_in

FILE = "grid.yaml"
"""The grid file, as an execution leaves it beside its journal."""


@dataclass(frozen=True)
class GridRequest:
    """What an execution of a grid asked for, as far as it is written down.

    Attributes:
        cells: in the order of the file.
        baseline: axes and the value that the baseline has there.
        target: the quality to reach.
        description: what the grid is for.
        text: the grid file.
        part: of a grid of which only some cells were asked for, what was; empty where all were.
    """

    cells: Sequence[PlannedCell]
    baseline: Mapping[str, Any]
    workload: str
    target: Target | None = None
    description: str = ""
    text: str = ""
    part: str = ""


def planned_cells(plan: Plan) -> list[PlannedCell]:
    """The plan's cells as the comparison wants them."""
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
    """What a plan asks for."""
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
    """What was asked for of a grid of which some cells were left out."""
    if not plan.left_out:
        return ""
    chosen = " ".join(f"--where {axis}={value}" for axis, value in plan.where)
    cells = len([cell for cell in plan.cells if not cell.content.role.is_aa_test]) + plan.left_out
    return f"`{chosen}` leaves out {plan.left_out} of its {cells} cells"


def to_dict(request: GridRequest) -> dict[str, Any]:
    """The same as plain data, for `PLAN`; the file has one of its own."""
    cells = [{**vars(cell), "content": cell.content.to_json()} for cell in request.cells]
    target = asdict(request.target) if request.target else None
    return {name: value for name, value in vars(request).items() if name != "text"} | {"cells": cells, "target": target}


def latest_request(history: GridHistory) -> GridRequest | None:
    """What the last execution of a grid asked for; None where none has left word that can be read."""
    for event in reversed(history.of_kind(ENDED)):
        summary = read_execution(history.folder, event)
        request = _wanted(summary.files) if summary else None
        if request:
            return request
    return None


def same_cells(first: GridRequest | None, second: GridRequest | None) -> bool:
    """Whether two executions asked for the same: their cells, how often each, the baseline and the target."""
    contents = [
        each and ([(cell.cell_id, cell.repeats) for cell in each.cells], dict(each.baseline), each.target)
        for each in (first, second)
    ]
    return contents[0] == contents[1]


def _wanted(files: Mapping[str, str]) -> GridRequest | None:
    """What an execution's files say that it asked for; None if something in them is damaged."""
    try:
        plan = valid_values_in(json.loads(files[PLAN])["wanted"])
        return TypeAdapter(GridRequest).validate_python({**plan, "text": files.get(FILE, "")})
    except (LookupError, TypeError, ValueError, RecursionError):
        return None
