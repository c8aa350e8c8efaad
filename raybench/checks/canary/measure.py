"""The canary: a tiny known job before and after each block of trials, that tells whether the machine is still the same.

What it takes is no result of anything but the machine: a clock that went down with the heat, a neighbour that came or
went. What follows from canaries is worked out in `raybench.checks.canary.judge`.
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
"""Whatever the trials compute in, so that canaries of one device can be compared."""

HOST_SIZE, ACCELERATOR_SIZE = 512, 4096
"""Of the two matrices that are multiplied: milliseconds on a processor, and on an accelerator more than its start."""

SECONDS, LEAST = 0.3, 5
"""How long it goes on, and how many products it makes at least."""

MAD_TO_DEVIATION = 1.4826
"""The standard deviation of a normal distribution is that multiple of its median absolute deviation."""


def subject(cell: Cell) -> dict[str, Any]:
    """What canaries have to have in common to be compared: the framework and the device, as far as a cell tells."""
    return {"framework": cell.framework, "device": cell.to_json()["device"]}


def at_its_precision(cell: Cell) -> Cell:
    """A trial's cell as the canary's."""
    return replace(cell, settings=replace(cell.settings, precision=PRECISION))


def measure(job: Job) -> dict[str, Any]:
    """Multiply two matrices again and again.

    Returns:
        `call_s`, the median seconds of a product; `noise`, the standard deviation of one as a part of that, by the
        median absolute deviation; `calls`; and where it was: `host`, `visible`.
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
