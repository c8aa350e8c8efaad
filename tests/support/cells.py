"""Cells of parts that are given as JSON."""

from raybench.core.cell import UNKNOWN_CELL, Cell
from raybench.core.settings import Settings


def make_cell(*, data, device, engine, workload, resolved, target=None, **further):
    """A cell of a declared workload with every setting, as the planner makes it.

    Args:
        data, device, engine: as in its JSON.
        resolved: every setting.
    """
    parts = Cell.from_json({"data": data, "device": device, "engine": engine})
    return Cell(
        data=parts.data,
        device=parts.device,
        engine=parts.engine,
        workload=workload,
        framework=resolved["framework"],
        settings=Settings.of(resolved),
        warmup_epochs=resolved["warmup_epochs"],
        stop_at_target=target,
        **further,
    )


def resolved_cell(name, content=UNKNOWN_CELL, fit=None):
    """A planned cell with this id, as the executors take it."""
    from raybench.planning.resolve import ResolvedCell  # needs pydantic, which frameworks' own environments lack

    cell = ResolvedCell(content, {}, "x", None, fit)
    cell.__dict__["cell_id"] = name
    return cell
