"""Probe of one batch size: real training steps in their own process."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from raybench.core import memory
from raybench.core.cell import Cell
from raybench.core.identity import digest
from raybench.core.job import Job, Recipe
from raybench.core.ledger import Ledger
from raybench.core.rank import current_rank
from raybench.core.settings import MEMORY, affecting
from raybench.devices import hosted
from raybench.devices.host import available_memory
from raybench.engines import EngineParts, open_engine
from raybench.trial.run import load_data, open_assigned, workload_of

NAME = "max_batch"

STEPS = 3
"""Number of training steps.

The first allocates the optimiser's state; the second runs with it and with the next batch in memory."""

SHARE = 0.9
"""Memory limit relative to the free host memory, if the grid sets no limit.

The limit prevents the kernel from ending the probe, or another process in its place."""

OF_MEMORY = affecting(MEMORY) - {"batch_size"}
"""The settings that affect the memory of a training step, except the batch size."""


def subject(cell: Cell) -> dict[str, Any]:
    """The fields of a cell that determine the largest batch."""
    tree = cell.to_json()
    shared = {name: tree[name] for name in ("framework", "engine", "device", "workload", "data")}
    return {**shared, "settings": cell.settings.only(OF_MEMORY).to_json()}


def key(cell: Cell, memory_limit: int) -> str:
    """Identity of a search; cells with the same key share its result."""
    return f"{NAME}-{digest({**subject(cell), 'memory_limit': memory_limit})}"


def with_batch(cell: Cell, batch: int) -> Cell:
    """Copy a cell with another batch size and an epoch of a few steps."""
    return replace(cell, settings=replace(cell.settings, batch_size=batch, epochs=1, steps_per_epoch=STEPS))


def measure(job: Job) -> dict[str, Any]:
    """Train a few steps.

    Returns:
        `batch_size`; `fits`: True, or None if there are fewer training examples; `examples`: their number;
        `peak_bytes`: peak memory of the device or, on a CPU, of the process; `limit_bytes`, if there was a limit.

    Raises:
        OutOfMemory: it does not fit.
    """
    recipe = Recipe.from_cell(job.cell)
    limit = job.memory_limit
    if not limit and hosted(job.cell.device.kind):
        limit = int(SHARE * available_memory() / current_rank().count)
        memory.limit(limit)
    device = open_assigned(job)
    try:
        workload = workload_of(job)
        data = load_data(job, workload)
        result = {"batch_size": recipe.batch_size, "examples": len(data.train)}
        if recipe.batch_size > len(data.train):
            return {**result, "fits": None}
        engine = open_engine(job.cell.framework, EngineParts(recipe, workload, device, Ledger(), job.seed))
        engine.load(data)
        engine.build()
        engine.train_epoch(1)
    except Exception as error:
        if not device.is_oom(error):
            raise
        memory.remove_limit()
        raise memory.OutOfMemory(str(error), memory.describe(str(error), device.peak_memory(), limit)) from error
    return {**result, "fits": True, "peak_bytes": device.peak_memory(), **({"limit_bytes": limit} if limit else {})}
