"""From a trial's samples to what its conditions come to, over the time that its epochs took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from raybench.core.events import Event

Sample = Mapping[str, Any]
"""What a trial's `samples.jsonl` has of one interval.

`t` is its end, UTC; `at` the same in seconds since the trial's process began; `seconds` how long it was. Over it, in
processor seconds: `busy_s`, `idle_s`, `iowait_s` and `steal_s` of the trial's cores, and `own_cpu_s` of its processes.
At its end: `load_1m`, `mhz`, `rss_bytes`, `peak_rss_bytes` until then, and `gpus`. What the system does not tell is
left out.
"""

Window = tuple[float, float]
"""From when to when, in seconds since 1970."""

LEAST_S = 0.5
"""Seconds over which a share of processor time means anything: the kernel counts it in steps of 10 ms a core."""

_TRENDS = ("clock_mhz", "memory_clock_mhz")
_LEVELS = ("power_w", "temperature_c", "utilization")


def moment(t: str) -> float:
    """A time of the journal, in seconds since 1970."""
    return datetime.fromisoformat(t).timestamp()


def widen(window: Window | None, event: Event) -> Window:
    """The time that epochs took, with one more: from its end, as its event tells it, back by what its ledger holds.

    Evaluations are inside, and so is the little that the host does between two epochs.
    """
    end = moment(event["t"])
    begin = end - sum(event["ledger"].values())
    return (begin, end) if window is None else (min(window[0], begin), max(window[1], end))


def summarise(samples: Sequence[Sample], window: Window | None = None) -> dict[str, Any]:
    """What a trial's conditions come to.

    A sample counts by the part of it that lies in the window: an interval at its edge in proportion. If they are
    shorter than `LEAST_S` together, the whole trial counts (`within`). `peak_rss_bytes` is of the whole trial.
    `other_cpu_s`, what other processes took of the trial's cores, is what the cores were busy less what the trial's own
    processes used: this is exact where those keep to their cores, as trials do.

    Args:
        samples: in their order.
        window: the time that counts; None: all of it.
    """
    weighed = [(sample, _inside(sample, window)) for sample in samples]
    counted = [(sample, seconds) for sample, seconds in weighed if seconds > 0]
    if window is not None and sum(seconds for _, seconds in counted) < LEAST_S:
        return summarise(samples)
    found: dict[str, Any] = {
        "seconds": round(sum(seconds for _, seconds in counted), 3),
        "samples": len(counted),
        "within": "trial" if window is None else "epochs",
        "host": _host(counted),
    }
    peaks = [sample["peak_rss_bytes"] for sample in samples if "peak_rss_bytes" in sample]
    found["process"] = {"peak_rss_bytes": max(peaks)} if peaks else {}
    found["gpus"] = _gpus(counted)
    return found


def _inside(sample: Sample, window: Window | None) -> float:
    """Seconds of a sample's interval that lie in the window."""
    length = float(sample["seconds"])
    if window is None:
        return length
    end = moment(sample["t"])
    return max(0.0, min(end, window[1]) - max(end - length, window[0]))


Weighed = Sequence[tuple[Sample, float]]
"""Samples, or what one GPU says in them, each with its seconds."""


def _host(counted: Weighed) -> dict[str, Any]:
    found: dict[str, Any] = {}
    own, busy = _sum(counted, "own_cpu_s"), _sum(counted, "busy_s")
    if own is not None:
        found["own_cpu_s"] = round(own, 3)
        if busy is not None:
            found["other_cpu_s"] = round(max(0.0, busy - own), 3)
    for name in ("steal_s", "iowait_s"):
        total = _sum(counted, name)
        if total is not None:
            found[name] = round(total, 3)
    return found | _level(counted, "load_1m") | _trend(counted, "mhz")


def _sum(counted: Weighed, name: str) -> float | None:
    parts = [sample[name] * seconds / sample["seconds"] for sample, seconds in counted if name in sample]
    return sum(parts) if parts else None


def _level(counted: Weighed, name: str) -> dict[str, Any]:
    """The mean over time and the maximum, under the quantity's name; nothing where it was not told."""
    told = [(sample[name], seconds) for sample, seconds in counted if name in sample]
    if not told:
        return {}
    return {name: {"mean": _mean(told), "max": round(max(value for value, _ in told), 3)}}


def _trend(counted: Weighed, name: str) -> dict[str, Any]:
    """The mean of the first and of the last quarter of the samples, and the extremes."""
    told = [(sample[name], seconds) for sample, seconds in counted if name in sample]
    if not told:
        return {}
    quarter = -(-len(told) // 4)
    values = [value for value, _ in told]
    ends = {"first": _mean(told[:quarter]), "last": _mean(told[-quarter:])}
    return {name: {**ends, "min": round(min(values), 3), "max": round(max(values), 3)}}


def _mean(told: Sequence[tuple[float, float]]) -> float:
    return round(sum(value * seconds for value, seconds in told) / sum(seconds for _, seconds in told), 3)


def _gpus(counted: Weighed) -> list[dict[str, Any]]:
    """For each GPU its clocks, power, temperature and utilisation, and the share of time in which it was throttled."""
    of_each: dict[str, list[tuple[Sample, float]]] = {}
    for sample, seconds in counted:
        for gpu in sample.get("gpus", ()):
            of_each.setdefault(gpu["id"], []).append((gpu, seconds))
    found = []
    for name, told in of_each.items():
        summary: dict[str, Any] = {"id": name}
        for quantity in _TRENDS:
            summary |= _trend(told, quantity)
        for quantity in _LEVELS:
            summary |= _level(told, quantity)
        found.append(summary | _throttled(told))
    return found


def _throttled(told: Weighed) -> dict[str, Any]:
    asked = [(sample["throttled"], seconds) for sample, seconds in told if "throttled" in sample]
    if not asked:
        return {}
    whole = sum(seconds for _, seconds in asked)
    reasons = sorted({reason for reasons, _ in asked for reason in reasons})
    shares = {reason: sum(seconds for reasons, seconds in asked if reason in reasons) / whole for reason in reasons}
    return {"throttled": {reason: round(share, 3) for reason, share in shares.items()}}
