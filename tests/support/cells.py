"""Cells of parts that are given as JSON."""

from raybench.core.cell import Cell
from raybench.planning import cell


def make_cell(*, data, device, engine, **further):
    """A cell as the planner makes it; the other arguments are those of `raybench.planning.cell.make_cell`."""
    parts = Cell.from_json({"data": data, "device": device, "engine": engine})
    return cell.make_cell(data=parts.data, device=parts.device, engine=parts.engine, **further)
