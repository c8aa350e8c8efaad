"""Summary of a trial's samples over the time of its epochs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from raybench.core.events import Event

Conditions = Mapping[str, Any]
"""A sample of a trial's conditions, which covers one interval.

`t` is its end, UTC; `seconds` its length. Over the interval, in processor seconds: `busy_s` and `steal_s` of the
trial's cores, `own_cpu_s` of its processes, and `socket_busy_s` on the sockets of energy counters; `stopped_s`, seconds
in which the trial or the whole machine was stopped. At its end: `mhz` and `gpus`. Quantities that the system does not
report are left out.
"""

Window = tuple[float, float]  # start and end, in seconds since 1970

LEAST_S = 0.5
"""Minimum seconds for a meaningful share of processor time: the kernel counts it in steps of 10 ms per core."""

BUSY_PART, BUSY_CORES = 0.1, 0.5
"""Tolerated load by other programs, as a fraction of the cores and in cores: the system, Ray and the sampler take a few
percent of two; evenly divided work waits for the slowest of many cores, even if others keep only that one half busy."""


def is_busy(used: float, cores: float) -> bool:
    """Return whether other programs that use so many cores change the times of trials."""
    return used >= min(BUSY_PART * cores, BUSY_CORES) > 0


def moment(t: str) -> float:
    """A time of an event, in seconds since 1970."""
    return datetime.fromisoformat(t).timestamp()


def window_of(event: Event) -> Window:
    """The time of an epoch, with its evaluation: from its end, given by its event, back by the sum of its ledger."""
    end = moment(event["t"])
    return end - sum(event["ledger"].values()), end


def summarize(samples: Sequence[Conditions], window: Window | None = None) -> dict[str, Any]:
    """Summarize a trial's conditions.

    A sample is weighted by the part of it that lies in the window, so intervals at its edges count in proportion. If
    these parts are shorter than `LEAST_S` together, the whole trial is used (`within`). `other_cpu_s`, the time
    that other processes used on the trial's cores, is the busy time of the cores less the time of the trial's own
    processes: this is exact if those stay on their cores, as trials do.
    """
    weighted = [(sample, seconds) for sample in samples if (seconds := _overlap(sample, window)) > 0]
    total_s = sum(seconds for _, seconds in weighted)
    if window is not None and total_s < LEAST_S:
        return summarize(samples)
    return {
        "seconds": round(total_s, 3),
        "within": "trial" if window is None else "epochs",
        "host": _host(weighted),
        "gpus": _gpus(weighted),
    }


def _overlap(sample: Conditions, window: Window | None) -> float:
    """Seconds of a sample's interval that lie in the window."""
    length = float(sample["seconds"])
    if window is None:
        return length
    end = moment(sample["t"])
    return max(0.0, min(end, window[1]) - max(end - length, window[0]))


Weighed = Sequence[tuple[Conditions, float]]  # samples, or the values of one GPU in them, each with its seconds


def _host(weighted: Weighed) -> dict[str, Any]:
    sums = {}
    for name in ("own_cpu_s", "busy_s", "steal_s", "socket_busy_s", "stopped_s"):
        parts = [sample[name] * seconds / sample["seconds"] for sample, seconds in weighted if name in sample]
        if parts:
            sums[name] = round(sum(parts), 3)
    if "own_cpu_s" in sums and "busy_s" in sums:
        sums["other_cpu_s"] = round(max(0.0, sums["busy_s"] - sums["own_cpu_s"]), 3)
    clocks = _values(weighted, "mhz")
    quarter = -(-len(clocks) // 4)
    return sums | ({"mhz": {"first": _mean(clocks[:quarter]), "last": _mean(clocks[-quarter:])}} if clocks else {})


def _values(weighted: Weighed, name: str) -> list[tuple[Any, float]]:
    return [(sample[name], seconds) for sample, seconds in weighted if name in sample]


def _mean(pairs: Sequence[tuple[float, float]]) -> float:
    return round(sum(value * seconds for value, seconds in pairs) / sum(seconds for _, seconds in pairs), 3)


def _gpus(weighted: Weighed) -> list[dict[str, Any]]:
    """The share of throttled time of each GPU, by reason, and of the time in which it worked."""
    by_gpu: dict[str, list[tuple[Conditions, float]]] = {}
    for sample, seconds in weighted:
        for gpu in sample.get("gpus", ()):
            by_gpu.setdefault(gpu["id"], []).append((gpu, seconds))
    summaries: list[dict[str, Any]] = []
    for name, readings in by_gpu.items():
        summaries.append({"id": name})
        if throttled := _values(readings, "throttled"):
            total_s, shares = sum(seconds for _, seconds in throttled), Counter[str]()
            for reasons, seconds in throttled:
                shares.update(dict.fromkeys(reasons, seconds / total_s))
            summaries[-1]["throttled"] = {reason: round(share, 3) for reason, share in sorted(shares.items())}
        if busy := _values(readings, "busy"):
            summaries[-1]["busy"] = _mean(busy)
    return summaries
