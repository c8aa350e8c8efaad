"""Energy of a trial's epochs, from the joules in its samples."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from raybench.core.events import Event
from raybench.core.job import Job
from raybench.core.settings import MISSING
from raybench.monitoring.energy import parts_of
from raybench.monitoring.summary import Sample, Window, moment, widen
from raybench.results.warmup import is_steady

LEAST_PERIODS = 5
"""Minimum length of a stretch of time whose energy is given, in periods.

A period is the longest of those between two updates of a counter and of the samples in which the stretch begins and
ends: the power within a sample is taken as constant.
"""

MOST_UNREAD = 0.02
"""Maximum fraction of a stretch of time in which the counters were not read.

Its joules are those of the rest, extended in proportion. It is more if the sampler began late or stopped early, and if
the wall clock was set meanwhile.
"""


@dataclass
class EpochWindows:
    """The times of a trial's epochs in its own process, each with its evaluation.

    Attributes:
        windows: begin and end by the epoch's number.
        reached: the first epoch that reached the target, if one did and all earlier epochs are known.
    """

    job: Job
    windows: dict[int, Window] = field(default_factory=dict)
    reached: int | None = None

    def see(self, event: Event) -> None:
        """Record an epoch; one without a number is ignored."""
        number = event.get("epoch")
        if not isinstance(number, int):
            return
        self.windows[number] = widen(None, event)
        if self.reached is None and 1 in self.windows and self._reached(event):
            self.reached = number

    def _reached(self, event: Event) -> bool:
        return bool(self.job.target and self.job.target.reached(event.get("metrics") or {}))

    @property
    def steady(self) -> list[int]:
        """The epochs after the warm-up, also after that of a process which resumed, without a shorter last one."""
        warmup = self.job.cell.warmup_epochs
        warmup = 1 if warmup is MISSING else warmup
        first, epochs = min(self.windows, default=1), self.job.cell.settings.epochs or 0
        gaps = (first - 1,) if first > 1 else ()
        return [number for number in sorted(self.windows) if is_steady(number, warmup, gaps, epochs)]


def summarise_energy(
    samples: Sequence[Sample],
    epochs: EpochWindows,
    period_s: float,
    missing: Sequence[str],
    no_counter: Sequence[str] = (),
) -> dict[str, Any]:
    """Summarise the energy of a trial's epochs.

    Each of the parts has `seconds`, `device_j` and, on an accelerator, `host_j`; what was not measured is left out.

    - `epochs`: all epochs (`count`), with evaluation and the time between two epochs.
    - `steady`: the same of the epochs after the warm-up.
    - `target`: from the beginning to the end of the first epoch that reached the target.
    - `each`: single epochs, by number.
    - `counters`: joules by counter, over all epochs.
    - `others_share`: fraction of the processor time on the CPU's sockets that other processes used during the epochs.
    - `missing`: why something is not measurable; `no_counter`: those of the reasons that are the hardware's, if any.

    Args:
        samples: the samples in order.
        epochs: the times of the epochs.
        period_s: seconds between two updates of the slowest counter.
        missing: reasons why counters could not be read.
        no_counter: those of them that are the hardware's.
    """
    energy: dict[str, Any] = {}
    reasons = list(dict.fromkeys(missing))
    meter = _Meter(samples, period_s, parts_of(epochs.job.cell.device.kind))
    # A period is that of a counter which could be opened, even if no sample has it.
    if epochs.windows and (period_s > 0 or any("energy_j" in sample for sample in samples)):
        every = sorted(epochs.windows)
        stretches = {"epochs": every, "steady": epochs.steady}
        if epochs.reached:
            stretches["target"] = list(takewhile(lambda number: number <= (epochs.reached or 0), every))
        for name, numbers in stretches.items():
            if numbers and (found := meter.measure(_span(epochs.windows[number] for number in numbers))):
                energy[name] = {"count": len(numbers), **found}
        energy["each"] = {str(number): found for number in every if (found := meter.measure(epochs.windows[number]))}
        whole = _span(epochs.windows.values())
        if "epochs" in energy:
            energy["counters"] = meter.counters(whole)
            energy |= meter.others(whole)
        elif meter.is_short(whole):
            reasons.append(
                f"energy: the epochs took {whole[1] - whole[0]:.2g} s, less than {LEAST_PERIODS} times the "
                f"{meter.period(whole):.2g} s between two readings"
            )
        reasons += _unread(meter, epochs.windows, stretches)
    return {**energy, "missing": reasons} | ({"no_counter": list(no_counter)} if no_counter else {})


def _unread(meter: _Meter, windows: Mapping[int, Window], stretches: Mapping[str, Sequence[int]]) -> list[str]:
    """The reason why a stretch is not measurable, or a single epoch, if the counters were not read in all of it.

    Only the first is given: the others have the same cause.
    """
    names = {"epochs": "the epochs", "steady": "the epochs after the warm-up", "target": "the epochs until the target"}
    candidates = [
        (names[name], _span(windows[number] for number in numbers)) for name, numbers in stretches.items() if numbers
    ]
    candidates += [(f"epoch {number}", window) for number, window in sorted(windows.items())]
    for name, window in candidates:
        if not meter.is_short(window) and not meter.is_covered(window):
            return [
                f"energy: the counters were read in {meter.covered_s(window):.3g} of the {window[1] - window[0]:.3g} s "
                f"of {name}"
            ]
    return []


def _span(windows: Iterable[Window]) -> Window:
    begins, ends = zip(*windows, strict=True)
    return min(begins), max(ends)


class _Meter:
    """Joules in parts of a trial's time.

    The times of the samples are parsed once, and those of a window are found by bisection, because a trial may have
    many thousands of epochs and samples.
    """

    def __init__(self, samples: Sequence[Sample], period_s: float, parts: Mapping[str, Sequence[str]]) -> None:
        self._samples, self._period_s, self._parts = samples, period_s, parts
        self._lengths = [float(sample["seconds"]) for sample in samples]
        self._ends = [moment(sample["t"]) for sample in samples]
        self._begins = [end - length for end, length in zip(self._ends, self._lengths, strict=True)]

    def measure(self, window: Window) -> dict[str, float] | None:
        """The joules of each part; None if the window is too short or nothing was measured in all of it."""
        if self.is_short(window) or not self.is_covered(window):
            return None
        counters = self.counters(window)
        sums = {
            name: round(sum(joules), 3)
            for name, words in self._parts.items()
            if (joules := [value for counter, value in counters.items() if counter.split()[0] in words])
        }
        # A counter that stands still, as in some virtual machines, has measured nothing.
        sums = {name: joules for name, joules in sums.items() if joules > 0}
        return {"seconds": round(window[1] - window[0], 3), **sums} if sums else None

    def is_short(self, window: Window) -> bool:
        """Whether the window is too short to divide samples at its ends in proportion."""
        return window[1] - window[0] < LEAST_PERIODS * self.period(window)

    def is_covered(self, window: Window) -> bool:
        """Whether the samples cover the window once, except for a small part."""
        length = window[1] - window[0]
        return abs(self.covered_s(window) - length) <= MOST_UNREAD * length

    def covered_s(self, window: Window) -> float:
        """The seconds of the window in which there are samples."""
        return float(sum(part * sample["seconds"] for sample, part in self._within(window)))

    def counters(self, window: Window) -> dict[str, float]:
        """The joules of each counter that every sample of the window has."""
        weighted = list(self._within(window))
        readings = [sample.get("energy_j", {}).keys() for sample, _ in weighted]
        names = set(readings[0]).intersection(*readings[1:]) if readings else set()
        to_whole = (window[1] - window[0]) / self.covered_s(window) if weighted else 1.0
        return {
            name: round(to_whole * sum(sample["energy_j"][name] * part for sample, part in weighted), 3)
            for name in sorted(names)
        }

    def period(self, window: Window) -> float:
        """Seconds between two readings at the window's ends."""
        lengths = [
            length
            for end in window
            for length in self._lengths[bisect_left(self._ends, end) : bisect_right(self._begins, end)]
        ]
        return max([self._period_s, *lengths])

    def others(self, window: Window) -> dict[str, float]:
        """The share of other processes in the busy time of the CPU's sockets; empty if it is not known."""
        own = busy = 0.0
        for sample, part in self._within(window):
            if "socket_busy_s" in sample and "own_cpu_s" in sample:
                own, busy = own + part * sample["own_cpu_s"], busy + part * sample["socket_busy_s"]
        return {"others_share": round(max(0.0, 1 - own / busy), 4)} if busy > 0 else {}

    def _within(self, window: Window) -> Iterator[tuple[Sample, float]]:
        """The samples that overlap the window, each with the fraction of it that does."""
        for number in range(bisect_right(self._ends, window[0]), bisect_left(self._begins, window[1])):
            overlap = min(self._ends[number], window[1]) - max(self._begins[number], window[0])
            if overlap > 0:
                yield self._samples[number], overlap / self._lengths[number]
