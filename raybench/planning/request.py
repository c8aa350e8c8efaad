"""The request of a plan, as it is saved with an execution and reported."""

from __future__ import annotations

from raybench.planning.plan import Plan
from raybench.results.grid_request import GridRequest, PlannedCell


def request_of(plan: Plan) -> GridRequest:
    """Return the request of a plan."""
    spec, command = plan.spec, plan.workload.command
    metrics = sorted(command.metric_names if command else (), key=lambda name: name.startswith("train/"))
    chosen = " ".join(f"--where {axis}={value}" for axis, value in plan.where)
    part = f"`{chosen}` leaves out {plan.left_out} of {len(plan.cells) + plan.left_out} configurations"
    return GridRequest(
        name=spec.name,
        cells=[
            PlannedCell(
                cell.cell_id,
                cell.axes,
                cell.repeats,
                cell.skip,
                cell.price.per_hour if cell.price else None,
                cell.content,
                cell.request_id,
                cell.price.source if cell.price else "",
            )
            for cell in plan.cells
        ],
        baseline=dict(spec.baseline or {}),
        workload=plan.workload.name,
        target=spec.target.plain() if spec.target else None,
        budget=spec.budget.amount if spec.budget else {},
        metric=spec.metric or (spec.target.metric if spec.target else next(iter(metrics), "")),
        unit=spec.unit or "",
        description=spec.description or "",
        text=spec.source_text or "",
        part=part if plan.left_out else "",
        currency=spec.price_currency,
        rule=spec.rule,
    )
