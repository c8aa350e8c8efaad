"""What the tests of devices do in a process that sees the user's own accelerators; plain values in and out."""

import time

from support import WORKLOADS
from support.jobs import job_of

from raybench.core import memory
from raybench.devices import KINDS, Assignment, missing_precision, open_device
from raybench.devices.host import usable_cores
from raybench.trial.record import record
from raybench.workloads import read_info

GIB = 1 << 30


def hardware_of(kind):
    """This machine's first hardware of a kind; None if it has none."""
    probe = KINDS[KINDS[kind].hardware or kind].probe
    return next(iter(probe()), None)


def reason_against(kind, framework):
    """The reason why this machine cannot test a kind under a framework; empty if it can."""
    if hardware_of(kind) is None:
        return f"this machine has no {KINDS[kind].label}"
    try:
        open_on(kind, framework)
    except (RuntimeError, ImportError) as error:
        return f"{KINDS[kind].label}: {error}"
    return ""


def open_on(kind, framework, precision="fp32"):
    """The device of a kind, as a trial opens it."""
    device = open_device(kind, framework, assignment(kind))
    device.hide_others()
    device.open(precision)
    return device


def assignment(kind):
    cores = usable_cores()
    return Assignment(cores, visible(kind), len(cores))


def visible(kind):
    """The one accelerator that a trial uses; none for a kind that computes on the host."""
    return [] if KINDS[kind].on_host else list(hardware_of(kind).ids[:1])


def describe(kind, framework):
    """Model, memory in bytes and precisions of a kind on this machine."""
    hardware = hardware_of(kind)
    return {
        "model": hardware.model,
        "memory_bytes": hardware.memory_bytes,
        "precisions": list(KINDS[kind].precisions),
    }


def job(kind, framework, workload, replicas=1, **more):
    """The job of a trial or check on one device of a kind."""
    missing = missing_precision(kind, more.get("precision", "fp32"))
    assert not missing, missing
    device = {"kind": kind, "model": hardware_of(kind).model, "count": 1, "replicas": replicas}
    more = {"batch_size": 64, "visible": visible(kind), **more}
    return job_of(read_info(workload), WORKLOADS, framework, device, **more)


def events_of(kind, framework, workload, **options):
    """The events of one trial or check, run in this process."""
    memory.limit(options.get("memory_limit", 0))
    events = []
    record(job(kind, framework, workload, **options), events.append)
    return events


def clock(kind, framework, seconds=0.3):
    """Times of the same work by several clocks, in seconds.

    Returns:
        `submitted`: until the last call returned; `wall`: until the device was done; `device`: between two marks;
        `copy`: of a value to the host, after the device was done.
    """
    device = open_on(kind, framework)
    side = 256 if KINDS[kind].on_host else 4096
    if framework == "tensorflow":
        import tensorflow as tf

        with tf.device(device.copy_to or None):
            matrix = tf.random.uniform([side, side])
        product, clamp, fetch = tf.linalg.matmul, tf.clip_by_value, lambda values: values[0, 0].numpy()
    else:
        import torch

        matrix = torch.rand(side, side).to(device.torch_name)
        product, clamp, fetch = torch.mm, torch.clamp, lambda values: values[0, 0].cpu()

    def multiply(times):
        nonlocal matrix
        start_s = time.perf_counter()
        begin = device.mark()
        for _ in range(times):
            matrix = clamp(product(matrix, matrix), 0, 1)
        end = device.mark()
        submitted_s = time.perf_counter() - start_s
        device.synchronize()
        wall_s = time.perf_counter() - start_s
        start_s = time.perf_counter()
        fetch(matrix)
        copy_s = time.perf_counter() - start_s
        return {
            "submitted": submitted_s,
            "wall": wall_s,
            "device": device.elapsed(begin, end) * 1e-9,
            "copy": copy_s,
            "synchronous": device.synchronous,
            "own_clock": device.own_clock,
        }

    multiply(2)
    one_s = multiply(4)["wall"] / 4
    return multiply(min(400, max(8, round(seconds / one_s))))
