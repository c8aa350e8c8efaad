"""Summary of a trial's samples over the time of its epochs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from raybench.core.events import Event

Sample = Mapping[str, Any]
"""A sample in a trial's `samples.jsonl`, which covers one interval.

`t` is its end, UTC; `at` the same in seconds since the trial's process began; `seconds` its length. Over the interval,
in processor seconds: `busy_s`, `idle_s`, `iowait_s` and `steal_s` of the trial's cores, and `own_cpu_s` of its
processes. At its end: `load_1m`, `mhz`, `rss_bytes`, `peak_rss_bytes` until then, and `gpus`. Quantities that the
system does not report are left out. `energy_j` has joules by counter, and `socket_busy_s` the processor seconds on the
sockets of the counters (`raybench.monitoring.energy`). The last sample of a process that has ended has joules alone.
"""

Window = tuple[float, float]
"""Start and end, in seconds since 1970."""

LEAST_S = 0.5
"""Minimum seconds for a meaningful share of processor time: the kernel counts it in steps of 10 ms per core."""

_TRENDS = ("clock_mhz", "memory_clock_mhz")
_LEVELS = ("power_w", "temperature_c", "utilization")


def moment(t: str) -> float:
    """A time of the journal, in seconds since 1970."""
    return datetime.fromisoformat(t).timestamp()


def widen(window: Window | None, event: Event) -> Window:
    """Extend the time of the epochs by one epoch: from its end, given by its event, back by the sum of its ledger.

    Evaluations are included, and so is the little work of the host between two epochs.
    """
    end = moment(event["t"])
    start = end - sum(event["ledger"].values())
    return (start, end) if window is None else (min(window[0], start), max(window[1], end))


def summarise(samples: Sequence[Sample], window: Window | None = None) -> dict[str, Any]:
    """Summarise a trial's conditions.

    A sample is weighted by the part of it that lies in the window, so intervals at its edges count in proportion. If
    these parts are shorter than `LEAST_S` together, the whole trial is used (`within`). `peak_rss_bytes` is of the
    whole trial. `other_cpu_s`, the time that other processes used on the trial's cores, is the busy time of the cores
    less the time of the trial's own processes: this is exact if those stay on their cores, as trials do.

    Args:
        samples: the samples in order.
        window: the time to summarise; None for all of it.
    """
    samples = [sample for sample in samples if has_conditions(sample)]
    overlaps = [(sample, inside(sample, window)) for sample in samples]
    weighted = [(sample, seconds) for sample, seconds in overlaps if seconds > 0]
    if window is not None and sum(seconds for _, seconds in weighted) < LEAST_S:
        return summarise(samples)
    conditions: dict[str, Any] = {
        "seconds": round(sum(seconds for _, seconds in weighted), 3),
        "samples": len(weighted),
        "within": "trial" if window is None else "epochs",
        "host": _host(weighted),
    }
    peaks = [sample["peak_rss_bytes"] for sample in samples if "peak_rss_bytes" in sample]
    conditions["process"] = {"peak_rss_bytes": max(peaks)} if peaks else {}
    conditions["gpus"] = _gpus(weighted)
    return conditions


def has_conditions(sample: Sample) -> bool:
    """Whether a sample has more than the joules of a process that has ended."""
    return "energy_j" not in sample or not sample.keys() <= {"t", "at", "seconds", "energy_j"}


def inside(sample: Sample, window: Window | None) -> float:
    """Seconds of a sample's interval that lie in the window."""
    length = float(sample["seconds"])
    if window is None:
        return length
    end = moment(sample["t"])
    return max(0.0, min(end, window[1]) - max(end - length, window[0]))


Weighed = Sequence[tuple[Sample, float]]
"""Samples, or the values of one GPU in them, each with its seconds."""


def _host(weighted: Weighed) -> dict[str, Any]:
    conditions: dict[str, Any] = {}
    own, busy = _sum(weighted, "own_cpu_s"), _sum(weighted, "busy_s")
    if own is not None:
        conditions["own_cpu_s"] = round(own, 3)
        if busy is not None:
            conditions["other_cpu_s"] = round(max(0.0, busy - own), 3)
    for name in ("steal_s", "iowait_s"):
        total = _sum(weighted, name)
        if total is not None:
            conditions[name] = round(total, 3)
    return conditions | _level(weighted, "load_1m") | _trend(weighted, "mhz")


def _sum(weighted: Weighed, name: str) -> float | None:
    parts = [sample[name] * seconds / sample["seconds"] for sample, seconds in weighted if name in sample]
    return sum(parts) if parts else None


def _level(weighted: Weighed, name: str) -> dict[str, Any]:
    """The mean over time and the maximum, under the quantity's name.

    Empty if it was not reported.
    """
    pairs = [(sample[name], seconds) for sample, seconds in weighted if name in sample]
    if not pairs:
        return {}
    return {name: {"mean": _mean(pairs), "max": round(max(value for value, _ in pairs), 3)}}


def _trend(weighted: Weighed, name: str) -> dict[str, Any]:
    """The means of the first and last quarter of the samples, and extremes."""
    pairs = [(sample[name], seconds) for sample, seconds in weighted if name in sample]
    if not pairs:
        return {}
    quarter = -(-len(pairs) // 4)
    values = [value for value, _ in pairs]
    ends = {"first": _mean(pairs[:quarter]), "last": _mean(pairs[-quarter:])}
    return {name: {**ends, "min": round(min(values), 3), "max": round(max(values), 3)}}


def _mean(pairs: Sequence[tuple[float, float]]) -> float:
    return round(sum(value * seconds for value, seconds in pairs) / sum(seconds for _, seconds in pairs), 3)


def _gpus(weighted: Weighed) -> list[dict[str, Any]]:
    """Clocks, power, temperature, utilisation and share of throttled time per GPU."""
    by_gpu: dict[str, list[tuple[Sample, float]]] = {}
    for sample, seconds in weighted:
        for gpu in sample.get("gpus", ()):
            by_gpu.setdefault(gpu["id"], []).append((gpu, seconds))
    summaries = []
    for name, readings in by_gpu.items():
        summary: dict[str, Any] = {"id": name}
        for quantity in _TRENDS:
            summary |= _trend(readings, quantity)
        for quantity in _LEVELS:
            summary |= _level(readings, quantity)
        summaries.append(summary | _throttled(readings))
    return summaries


def _throttled(weighted: Weighed) -> dict[str, Any]:
    samples = [(sample["throttled"], seconds) for sample, seconds in weighted if "throttled" in sample]
    if not samples:
        return {}
    total_s = sum(seconds for _, seconds in samples)
    reasons = sorted({reason for reasons, _ in samples for reason in reasons})
    shares = {reason: sum(seconds for reasons, seconds in samples if reason in reasons) / total_s for reason in reasons}
    return {"throttled": {reason: round(share, 3) for reason, share in shares.items()}}
