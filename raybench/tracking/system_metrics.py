"""Time series of a trial's system metrics for its MLflow run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from raybench.monitoring import SAMPLES
from raybench.monitoring.summary import has_conditions
from raybench.results.parsing import json_object
from raybench.tracking.mapping import milliseconds

MOST = 200
"""Maximum points of one series; neighbouring samples are averaged, because pages and stores cannot handle more."""

OF_GPUS = ("clock_mhz", "power_w", "temperature_c")


class Point(NamedTuple):
    """One value of a series: its name, milliseconds since 1970, and the number (from 1) of its last sample."""

    name: str
    value: float
    t: int
    step: int


def points(folder: Path) -> list[Point]:
    """The series of the samples in an attempt's folder; empty if there are no readable samples.

    `system/own_cpu` and `system/other_cpu` are in cores: 1.5 is one core and a half. MLflow shows metrics with the
    prefix `system/` on a separate page.
    """
    try:
        lines = (folder / SAMPLES).read_bytes().splitlines()
    except OSError:
        return []
    samples = [sample for line in lines if (sample := json_object(line)) and _usable(sample)]
    size = -(-len(samples) // MOST) or 1
    series = []
    for start in range(0, len(samples), size):
        block = samples[start : start + size]
        t = milliseconds(block[-1]["t"]) or 0
        series += [Point(f"system/{name}", value, t, start + len(block)) for name, value in _values(block)]
    return series


def _usable(sample: Mapping[str, Any]) -> bool:
    t, seconds = sample.get("t"), sample.get("seconds")
    is_timed = isinstance(t, str) and milliseconds(t) is not None and isinstance(seconds, float) and seconds > 0
    return is_timed and has_conditions(sample)


def _values(block: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, float]]:
    """The time-weighted mean of each quantity that all samples of a block have."""
    own_rate, busy_rate = _rate(block, "own_cpu_s"), _rate(block, "busy_s")
    if own_rate is not None:
        yield "own_cpu", own_rate
        if busy_rate is not None:
            yield "other_cpu", max(0.0, busy_rate - own_rate)
    for name in ("mhz", "rss_bytes"):
        if all(name in sample for sample in block):
            yield name, _mean([(sample[name], sample["seconds"]) for sample in block])
    readings: dict[str, list[tuple[float, float]]] = {}
    for sample in block:
        for gpu in sample.get("gpus", ()):
            for name in OF_GPUS:
                if name in gpu:
                    readings.setdefault(f"gpu_{gpu['id']}_{name}", []).append((gpu[name], sample["seconds"]))
    for name, values in readings.items():
        yield name, _mean(values)


def _rate(block: Sequence[Mapping[str, Any]], name: str) -> float | None:
    """Processor seconds per second."""
    if not all(name in sample for sample in block):
        return None
    return float(sum(sample[name] for sample in block) / sum(sample["seconds"] for sample in block))


def _mean(values: Sequence[tuple[float, float]]) -> float:
    return sum(value * seconds for value, seconds in values) / sum(seconds for _, seconds in values)
