"""Peak rates of a device and the work of a workload: the inputs of MFU and of a roofline.

It is a check: it runs before the trials, in a process and with cores, threads and devices like theirs, so it is in no
trial's time. Its numbers and a trial's times are combined in `raybench.analysis.bottleneck`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from raybench.core.cell import Cell
from raybench.core.job import Job
from raybench.core.rank import current_rank
from raybench.devices import Device, hosted
from raybench.engines import FRAMEWORKS, open_module
from raybench.engines.images import model_inputs
from raybench.trial.opening import open_assigned
from raybench.trial.run import load_data, workload_of

NAME = "roofline"
VERSION = 4  # version of the measurement; raised when rates or work would be measured differently

CALLS = 8  # calls of each size
SECONDS, HOST_SECONDS = 1.0, 0.3
"""Time of more calls of the fastest size, on a device that works behind the host and on one that is the host. The best
call counts, as others may use the host; of the former none before the last two thirds, as under load a GPU lowers its
clock."""

LONG_CALL_SECONDS = 0.01  # time of a call after which no larger size is tried: the launch overhead is negligible in it

PRODUCTS = (512, 1024, 2048, 4096, 8192)
CONVOLUTIONS = ((32, 64, 16), (32, 64, 32), (64, 128, 32), (128, 256, 32), (256, 256, 56))
"""Batch, channels, and height and width of each convolution."""
ADDITIONS = (1 << 24, 1 << 26, 1 << 28)  # values per array: two arrays of 64 MB do not fit into a cache
VALUE = 4  # bytes per float32


def subject(cell: Cell) -> dict[str, Any]:
    """The fields of a cell that determine its device's rates and its model's work.

    The batch size is not one of them. Of the user's own loop only the rates are measured.
    """
    tree, settings = cell.to_json(), cell.settings.only(("precision", "channels_last", "model"))
    work = {"workload": tree["workload"], "data": {name: tree["data"].get(name) for name in ("name", "digest")}}
    return {
        "framework": tree["framework"],
        "engine": tree["engine"],
        "device": tree["device"],
        **({} if cell.has_own_loop else work),
        **{name: value for name, value in settings.to_json().items() if value not in ({}, False)},
    }


def describe(cell: Cell) -> str:
    """Description of a cell's check: `peak speed: torch on cpu, fp32`."""
    return f"peak speed: {cell.framework} on {cell.device.kind}, {cell.settings.precision}"


def measure(job: Job) -> dict[str, Any]:
    """Probe the device, and count the operations of a declared workload.

    Returns:
        `probes`, for all the trial's devices together: FLOP/s of `product` and `convolution`, bytes/s of `memory`; and
        `work`, per example (`raybench.engines.torch.flops.count`), unless the loop is the user's.
    """
    cell, framework = job.cell, job.cell.framework
    device = open_assigned(job)
    probes_of = open_module(framework, "device_probes")
    operations = probes_of.Operations(device, cell.settings.precision, bool(cell.settings.channels_last))
    # Virtual devices share the cores, and one operation uses all of them; a rank has a part of the cores.
    ranks = current_rank().count
    devices = cell.device.count if cell.has_own_loop else cell.device.world_size
    times = ranks if ranks > 1 or hosted(device.kind) else devices
    probes = {name: times * rate for name, rate in probe(device, operations).items()}
    if cell.has_own_loop:
        return {"probes": probes}
    workload = workload_of(job)
    inputs = np.asarray(load_data(job, workload).train.inputs[:1])
    models = FRAMEWORKS[framework].models
    work = open_module(framework, "flops").count(workload.build_model(models), model_inputs(inputs, workload, models))
    return {"work": work, "probes": probes}


def probe(device: Device, operations: Any) -> dict[str, float]:
    """The highest rates of one device: FLOP/s of `product` and `convolution`, bytes/s of `memory`."""
    products = [(2.0 * size**3, (size,)) for size in PRODUCTS]
    convolutions = [(2.0 * 9 * n * c * c * side * side, (n, c, side)) for n, c, side in CONVOLUTIONS]
    additions = [(3.0 * VALUE * size, (size,)) for size in ADDITIONS]
    return {
        "product": _highest(device, operations.product, products),
        "convolution": _highest(device, operations.convolution, convolutions),
        "memory": _highest(device, operations.addition, additions),
    }


def _highest(
    device: Device, make: Callable[..., Callable[[], object]], sizes: Iterable[tuple[float, tuple[int, ...]]]
) -> float:
    """The highest rate of work per second, of a device that works behind the host one that lasts.

    Each size is (work, arguments), and they grow. The search ends at one that does not fit into memory or that takes
    long enough.
    """
    fastest: tuple[float, float, Callable[[], object]] | None = None
    for work, arguments in sizes:
        try:
            operation = make(*arguments)
            _timed(device, operation)  # set-up and compilation
            duration = min(_timed(device, operation) for _ in range(CALLS))
        except Exception as exc:
            if fastest and device.is_oom(exc):
                break
            raise
        if not fastest or work / duration > fastest[0]:
            fastest = work / duration, work, operation
        if duration > LONG_CALL_SECONDS:
            break
    assert fastest
    rate, work, operation = fastest
    durations, end = list[float](), time.perf_counter() + (HOST_SECONDS if device.synchronous else SECONDS)
    while len(durations) < 3 or time.perf_counter() < end:
        durations.append(_timed(device, operation))
    lasting = work / min(durations[len(durations) // 3 :])
    return max(rate, lasting) if device.synchronous else lasting


def _timed(device: Device, operation: Callable[[], object]) -> float:
    """Seconds from an idle device until it is idle again."""
    device.synchronize()
    start_ns = time.perf_counter_ns()
    operation()
    device.synchronize()
    return (time.perf_counter_ns() - start_ns) / 1e9
