"""From what a person wrote to a cell: settings resolved, defaults filled in, everything that can change a result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from raybench.core.identity import SCHEMA
from raybench.core.settings import Settings

PROCESS = "process"
"""Each trial in a process of its own: what every cell is taken to be that says nothing else."""


def make_cell(
    *,
    workload: Mapping[str, Any],
    data: Mapping[str, Any],
    device: Mapping[str, Any],
    engine: Mapping[str, Any],
    resolved: Mapping[str, Any],
    seed: int = 0,
    target: Mapping[str, Any] | None = None,
    isolation: str = PROCESS,
    smoke: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A cell, of which `raybench.core.identity.cell_id` is the digest.

    Args:
        workload: name and version, or name and digest of a person's own file.
        data: name, digest and the examples of each split.
        device: kind, model, count, replicas and threads; and, where replicas are several, how they are made.
        engine: name, version and the framework's major.minor.
        resolved: every setting.
        seed: the grid's seed; in the cell only where it is not 0.
        target: where training stops at the target, that target.
        isolation: `inline` where trials share a process: only then in the cell, so that such times mix with no others.
        smoke: of a cell that was cut: what it stands for.
    """
    settings = Settings.of(resolved).to_json()
    if target is not None:
        settings["stop_at_target"] = dict(target)
    cell: dict[str, Any] = {
        "data": dict(data),
        "device": dict(device),
        "engine": dict(engine),
        "framework": resolved["framework"],
        "schema": SCHEMA,
        "settings": settings,
        "warmup_epochs": resolved["warmup_epochs"],
        "workload": dict(workload),
    }
    if seed:
        cell["seed"] = seed
    if isolation != PROCESS:
        cell["isolation"] = isolation
    return cell | ({"smoke": dict(smoke)} if smoke is not None else {})
