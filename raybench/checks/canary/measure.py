"""The canary: a small fixed job before and after each block of trials.

Its time depends only on the machine, and reveals changes such as thermal throttling or a concurrent program. The
results are evaluated in `raybench.checks.canary.judge`.
"""

from __future__ import annotations

import platform
import time
from dataclasses import replace
from statistics import median
from typing import Any, Literal

from raybench.core.cell import Cell
from raybench.core.job import Job
from raybench.devices import hosted
from raybench.engines import open_operations
from raybench.trial.run import open_assigned

NAME = "canary"

PRECISION: Literal["fp32"] = "fp32"
"""Precision of every canary, so that all canaries of one device are comparable."""

HOST_SIZE, ACCELERATOR_SIZE = 512, 4096
"""Size of the two square matrices, by host and accelerator.

A product takes milliseconds on a processor, and longer than its launch on an accelerator."""

SECONDS, LEAST = 0.3, 5
"""Duration in seconds, and minimum number of products."""

MAD_TO_DEVIATION = 1.4826
"""Ratio of a normal distribution's standard deviation to its median absolute deviation."""


def subject(cell: Cell) -> dict[str, Any]:
    """Fields of a cell by which canaries are grouped for comparison: framework and device."""
    return {"framework": cell.framework, "device": cell.to_json()["device"]}


def at_its_precision(cell: Cell) -> Cell:
    """Convert a trial's cell to the canary's."""
    return replace(cell, settings=replace(cell.settings, precision=PRECISION))


def measure(job: Job) -> dict[str, Any]:
    """Multiply two matrices repeatedly.

    Returns:
        `call_s`, the median seconds of a product; `noise`, the standard deviation of one relative to that, from the
        median absolute deviation; `calls`, the number of products; and the location: `host`, `visible`.
    """
    device = open_assigned(job)
    size = HOST_SIZE if hosted(device.kind) else ACCELERATOR_SIZE
    operation = open_operations(job.cell.framework)(device, PRECISION, False).product(size)
    for _ in range(2):
        operation()
    device.synchronize()
    durations = list[float]()
    while sum(durations) < SECONDS or len(durations) < LEAST:
        start_ns = time.perf_counter_ns()
        operation()
        device.synchronize()
        durations.append((time.perf_counter_ns() - start_ns) / 1e9)
    middle = median(durations)
    noise = MAD_TO_DEVIATION * median(abs(seconds - middle) for seconds in durations) / middle
    location = {"host": platform.node(), "visible": list(job.visible)}
    return {"call_s": middle, "noise": noise, "calls": len(durations), **location}
