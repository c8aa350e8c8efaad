"""Energy of a trial's epochs, from readings of cumulative counters."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from raybench.core.events import Event
from raybench.core.job import Job
from raybench.core.settings import MISSING
from raybench.devices import hosted
from raybench.devices.energy import Joules
from raybench.monitoring.summary import Window, window_of
from raybench.results.epoch import is_steady

MIN_INTERVALS = 5
"""Minimum length of a measured window, in intervals between readings: power is taken as constant within one."""

MIN_SECONDS = 0.5  # minimum seconds of a measured window: GPUs update their counters every 0.1 s or less often

MAX_UNREAD = 0.02
"""Maximum fraction of a window without readings, as at the start of a trial: its power is taken as the mean."""

Reading = tuple[float, Joules]  # the time in seconds since 1970, and the cumulative joules by counter


@dataclass
class EpochWindows:
    """The times of a trial's epochs in its own process, each with its evaluation.

    Attributes:
        windows: begin and end by the epoch's number.
        partial: the number of the epoch that the trial's budget ended before its data did; 0 if there is none.
        reached: the first epoch that reached the target, if one did and all earlier epochs are known.
    """

    job: Job
    windows: dict[int, Window] = field(default_factory=dict)
    partial: int = 0
    reached: int | None = None

    def see(self, event: Event) -> None:
        """Record an epoch."""
        number, target = event["epoch"], self.job.target
        self.windows[number] = window_of(event)
        self.partial = number if event.get("partial") else 0
        if self.reached is None and 1 in self.windows and target and target.reached(event.get("metrics") or {}):
            self.reached = number

    @property
    def whole(self) -> Window | None:
        """From the beginning of the first to the end of the last; None without one."""
        windows = self.windows.values()
        return (min(begin for begin, _ in windows), max(end for _, end in windows)) if windows else None

    @property
    def steady(self) -> list[int]:
        """The epochs after the warm-up, also after that of a process which resumed, without a shorter last one."""
        warmup = self.job.cell.warmup_epochs
        warmup = 1 if warmup is MISSING else warmup
        first, epochs = min(self.windows, default=1), self.job.cell.settings.epochs or 0
        gaps = (first - 1,) if first > 1 else ()
        numbers = sorted(self.windows.keys() - {self.partial})
        return [number for number in numbers if is_steady(number, warmup, gaps, epochs)]


def summarize_energy(
    readings: Sequence[Reading], epochs: EpochWindows, missing: Sequence[str], host: Mapping[str, Any]
) -> dict[str, Any]:
    """Summarize the energy of a trial's epochs.

    Each of the parts has `device_j` and, on an accelerator, `host_j`; what was not measured is left out.

    - `epochs`: all epochs (`count`), with evaluation and the time between two epochs.
    - `steady`: the same of the epochs after the warm-up.
    - `target`: from the beginning to the end of the first epoch that reached the target.
    - `each`: single epochs, by number.
    - `missing`: why something is not measurable.
    - `others_share`: the fraction of the processor time on the CPU's sockets that other processes used.
    """
    numbers = sorted(epochs.windows)
    curves = _curves(readings, hosted(epochs.job.cell.device.kind))
    until_target = [number for number in numbers if number <= (epochs.reached or 0)]
    energy: dict[str, Any] = {}
    for name, chosen in {"epochs": numbers, "steady": epochs.steady, "target": until_target}.items():
        windows = [epochs.windows[number] for number in chosen]
        if windows and (sums := _measure(curves, (windows[0][0], windows[-1][1]))):
            energy[name] = {"count": len(chosen), **sums}
    by_epoch = {str(number): _measure(curves, epochs.windows[number]) for number in numbers}
    energy["each"] = {number: sums for number, sums in by_epoch.items() if sums}
    reasons = list(dict.fromkeys(missing))
    if numbers and curves and "epochs" not in energy:
        reasons.append("energy: the epochs were too short, or the counters were not read in all of them")
    energy["missing"] = reasons
    used_s, busy_s = host.get("own_cpu_s"), host.get("socket_busy_s")
    if used_s is not None and busy_s:
        energy["others_share"] = round(max(0.0, 1 - used_s / busy_s), 4)
    return energy


@dataclass
class _Curve:
    """The readings of one counter: times in seconds since 1970, and cumulative joules."""

    part: str
    times: list[float] = field(default_factory=list)
    joules: list[float] = field(default_factory=list)

    def used(self, window: Window) -> float:
        """The joules in a window; nan if they were not measured."""
        begin, end = max(window[0], self.times[0]), min(window[1], self.times[-1])
        length = window[1] - window[0]
        if len(self.times) < 2 or end - begin < (1 - MAX_UNREAD) * length:
            return math.nan
        (begin_j, begin_s), (end_j, end_s) = self._at(begin), self._at(end)
        if length < max(MIN_SECONDS, MIN_INTERVALS * max(begin_s, end_s)):
            return math.nan
        return (end_j - begin_j) * length / (end - begin)

    def _at(self, time: float) -> tuple[float, float]:
        """The joules at a time, and the seconds between the readings around it."""
        index = min(max(1, bisect_left(self.times, time)), len(self.times) - 1)
        (begin, end), (begin_j, end_j) = self.times[index - 1 : index + 1], self.joules[index - 1 : index + 1]
        return begin_j + (end_j - begin_j) * (time - begin) / (end - begin), end - begin


def _curves(readings: Sequence[Reading], is_hosted: bool) -> list[_Curve]:
    curves: dict[str, _Curve] = {}
    for time, joules in readings:
        for name, value in joules.items():
            is_of_device = is_hosted or name.startswith("gpu")
            curve = curves.setdefault(name, _Curve("device_j" if is_of_device else "host_j"))
            curve.times.append(time)
            curve.joules.append(value)
    return list(curves.values())


def _measure(curves: Sequence[_Curve], window: Window) -> dict[str, float]:
    """The joules of each part; those that were not measured are left out."""
    sums: dict[str, float] = {}
    for curve in curves:
        sums[curve.part] = sums.get(curve.part, 0.0) + curve.used(window)
    # A counter that stands still, as in some virtual machines, has measured nothing.
    return {part: round(joules, 3) for part, joules in sums.items() if joules > 0}
