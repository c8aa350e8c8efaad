"""Build a cell from resolved settings and defaults: everything that can change a result."""

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
    """Build a cell.

    Args:
        resolved: every setting.
        seed: the grid's seed; part of the cell only if it is not 0.
        target: the target, if training stops when it is reached.
        isolation: `inline` if trials share a process. Only then is it part of the cell, so that the times of such
            trials are never mixed with others.
        smoke: for a scaled-down cell, the original values.
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
