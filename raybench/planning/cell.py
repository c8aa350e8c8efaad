"""From what a person wrote to a cell: settings resolved, defaults filled in, everything that can change a result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from raybench.core.cell import PROCESS, Cell, CellData, CellDevice, CellEngine, CellWorkload, Role
from raybench.core.identity import SCHEMA
from raybench.core.settings import Settings


def make_cell(
    *,
    workload: CellWorkload,
    data: CellData,
    device: CellDevice,
    engine: CellEngine,
    resolved: Mapping[str, Any],
    seed: int = 0,
    target: Mapping[str, Any] | None = None,
    isolation: str = PROCESS,
    smoke: Mapping[str, Any] | None = None,
) -> Cell:
    """A cell.

    Args:
        resolved: every setting.
        seed: the grid's seed; in the cell only where it is not 0.
        target: where training stops at the target, that target.
        isolation: `inline` where trials share a process: only then in the cell, so that such times mix with no others.
        smoke: of a cell that was cut: what it stands for.
    """
    settings = Settings.of(resolved)
    if target is not None:
        settings = replace(settings, further={"stop_at_target": dict(target)})
    return Cell(
        data=data,
        device=device,
        engine=engine,
        framework=resolved["framework"],
        schema=SCHEMA,
        settings=settings,
        warmup_epochs=resolved["warmup_epochs"],
        workload=workload,
        seed=seed,
        isolation=isolation,
        role=Role(smoke=smoke),
    )
