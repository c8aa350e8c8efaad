"""Findings about the machine while a run was measured."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from raybench.analysis.findings.finding import Finding, OfRuns, detects
from raybench.analysis.intervals import NOISIER, quantile
from raybench.core.groups import grouped
from raybench.core.status import TrialStatus
from raybench.core.text import plural
from raybench.devices import hosted
from raybench.monitoring.summary import BUSY_CORES, BUSY_PART, LEAST_S, is_busy  # noqa: F401 — for docstrings
from raybench.results.parsing import mapping_in, number_in
from raybench.results.run_table import Run

SLOWED = frozenset({"thermal", "hardware_thermal", "hardware_slowdown", "power_brake"})
"""Reasons for a GPU to slow down by heat or low power (`raybench.monitoring.nvidia.REASONS`)."""

THROTTLED_TIME = 0.05  # largest fraction of the epochs' time with a throttled GPU: one sample in twenty

SLOWED_BY = 0.15
"""Fall of the cores' frequency from which they count as throttled; under the same load it varies by percents."""

AT_WORK = 0.5  # least utilization of a run's cores for an informative frequency: idle cores clock down
WAITS = 0.05  # processor time of a run, in cores, below which it only waits, such as for a different machine
STOLEN = 0.05  # largest fraction of a run's core time that a hypervisor may take
SHARED_ENERGY = 0.1  # largest fraction of the processor time that others may use on sockets whose energy is measured
STOPPED = 0.01  # largest fraction of the epochs' time in which a run may be stopped
OVERLAP = 0.01  # largest fraction of a run's time with other trials: the end of one overlaps the start of the next
MOST_TAKEN = 0.8  # largest fraction of the cores taken by others at which the cost can be estimated

MOST_LOST = 1 / (1 - MOST_TAKEN)
"""Cost from which it counts as unknown: a program that sleeps has little processor time whatever the others do."""

SLOW = 0.1  # least excess of slow runs over the others

GAP_OF_SPREADS = 3
"""Least gap between slow runs and the others, in spreads of the others: of normal runs with cv 5% few have it."""


NEARLY_FULL = 0.95  # share of a device's memory from which on its allocator may have to free and ask again


@detects("use a smaller batch, or `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`", caution=True)
def memory_full(run: Run) -> Iterator[Finding]:
    """The run used more than {NEARLY_FULL:.0%} of its device's memory, or the allocator ran out and tried again."""
    share, retries = run.memory_used or 0.0, max(run.epochs.column("alloc_retries"), key=lambda n: n or 0, default=0)
    if share > NEARLY_FULL or retries:
        again = f"; the allocator freed memory and tried again {retries} times" if retries else ""
        yield Finding(f"the run used {100 * share:.0f}% of its device's memory{again}", degree=share + (retries or 0))


@detects("remove `threads` and `cpus` from the grid to use all cores", caution=True, of_hardware=True, of_grid=True)
def few_threads(runs: Sequence[Run], axes: Collection[str]) -> Iterator[OfRuns]:
    """The host computes with fewer threads than it has cores, and the grid compares no numbers of them.

    Devices of one machine with different numbers compare them.
    """
    hosted_runs = [run for run in runs if _is_hosted(run)]
    numbers = grouped(((run.machine_name, run.cell.device.model), _threads(run)) for run in hosted_runs)
    comparing = {device for device, values in numbers.items() if len({*values}) > 1}
    for run in () if {"threads", "cpus", "count"} & {*axes} else hosted_runs:
        if (run.machine_name, run.cell.device.model) in comparing:
            continue
        threads, own_cores = _threads(run), number_in(run.cell.device.count) or 0.0
        cores = max(own_cores, number_in(run.machine.get("cores")) or 0.0)
        if threads and 0 < threads < cores:
            part = "" if own_cores == cores else f"{own_cores:.0f} of the machine's "
            text = f"the run used {plural(int(threads), 'thread')} on {part}{cores:.0f} cores"
            yield [run], Finding(text, cores / threads, too_long=cores / threads - 1)


@detects("run again with `--rerun` on a quiet machine", caution=True)
def busy_host(run: Run) -> Iterator[Finding]:
    """Other programs took {BUSY_PART:.0%} of the run's cores, or {BUSY_CORES} cores, during its epochs.

    If these took less than `LEAST_S`, it is during the whole run.

    A run that hardly uses a core itself has no caution. The cost is estimated as what they took and, if the host
    computes, as much again as they kept one core busy. Threads that spin can lose more. If the others took nearly
    all, the cost is not known. With one thread it is at most the time in which the run had no processor.
    """
    share, cores = core_share(run, "other_cpu_s"), audited(run, "host", "cores") or 0.0
    if not is_busy(share * cores, cores):
        return
    own_share = core_share(run, "own_cpu_s")
    if own_share and own_share * cores < WAITS:
        return  # it waits, whatever the others do
    text = f"other programs used {share * cores:.1f} of {cores:.0f} core{'s' if cores > 1 else ''} during the run"
    text += f", which itself used {own_share * cores:.1f}" if own_share else ""
    waiting = min(share * cores, 1.0) if _is_hosted(run) else share
    lost = _lost(share, waiting)
    # Others hardly change the processor time of one thread; more threads may spin.
    if own_share and _threads(run) == 1 and _is_hosted(run):
        lost = min(lost or math.inf, max(0.0, 1 / (own_share * cores) - 1))
    yield Finding(text, share, too_long=None if lost is None or lost > MOST_LOST else lost)


@detects("use a machine with dedicated cores, or more `repeats` at other times", caution=True)
def steal(run: Run) -> Iterator[Finding]:
    """A hypervisor gave {STOLEN:.0%} of the cores' time to others."""
    share = core_share(run, "steal_s")
    if share >= STOLEN:
        text = f"the hypervisor gave {share:.0%} of the run's cores to other machines"
        yield Finding(text, share, too_long=_lost(share, share))


@detects("run again with `--rerun`", caution=True)
def stopped(run: Run) -> Iterator[Finding]:
    """The run or its whole machine was stopped for {STOPPED:.0%} of the time of its epochs.

    The stop may be by SIGSTOP or by a paused virtual machine; the times contain it.
    """
    stopped_s, seconds = audited(run, "host", "stopped_s") or 0.0, audited(run, "seconds") or 0.0
    if stopped_s > STOPPED * seconds > 0:
        text = f"the run or its whole machine was stopped for {stopped_s:.0f} s"
        yield Finding(text, stopped_s, too_long=stopped_s / max(seconds - stopped_s, LEAST_S))


@detects("look for what slowed them; more `repeats` show how often it happens", caution=True, of_grid=True)
def slow_runs(runs: Sequence[Run], axes: Collection[str]) -> Iterator[OfRuns]:
    """Some runs took {SLOW:.0%} longer than others of their configuration, with none in between.

    One was disturbed, or the machine has two states. A device's runs are compared with the fastest of their
    configuration; the gap is at least `GAP_OF_SPREADS` times as wide as the spread of the larger group.
    """
    timed = [run for run in runs if run.status == TrialStatus.COMPLETED and run.steady_s]
    devices = grouped(((str(run.cell.leaves.get("device")), run.machine_name), run) for run in timed)
    for group in devices.values():
        seconds = grouped((run.cell_id, run.steady_s or 0.0) for run in group)
        df = len(group) - len(seconds) - 1
        if df < 1:
            continue
        fastest = {cell: min(values) for cell, values in seconds.items()}
        excesses = [(run, math.log((run.steady_s or 0.0) / fastest[run.cell_id])) for run in group]
        ordered = sorted(excesses, key=lambda entry: entry[1])
        values = np.array([excess for _, excess in ordered])
        split = int(np.diff(values).argmax()) + 1
        fast, slow = values[:split], values[split:]
        larger = max(fast, slow, key=lambda part: (len(part), np.ptp(part)))
        error = math.sqrt(max(larger.var(ddof=1), 1e-12) * (1 / len(fast) + 1 / len(slow)))
        is_apart = slow[0] - fast[-1] > max(math.log1p(SLOW), GAP_OF_SPREADS * np.ptp(larger))
        if is_apart and slow.mean() - fast.mean() > quantile(df, 1 - NOISIER) * error:
            for run, excess in ordered[split:]:
                text = f"the run took {math.exp(excess):.3g}x as long as the fastest of its configuration"
                yield [run], Finding(text, excess, too_long=math.expm1(excess))


@detects("remove `cpus` from the grid file", caution=True, of_hardware=True, of_grid=True)
def cores_shared(runs: Sequence[Run], axes: Collection[str]) -> Iterator[OfRuns]:
    """Other trials ran on the same machine during {OVERLAP:.0%} of the run's time.

    Trials run in a shuffled order, so the configurations of one device share it alike.
    """
    for group in grouped((run.host.get("name"), run) for run in runs).values():
        spans: dict[object, tuple[float, float]] = {}  # once for a run that is there twice, as in two versions
        for run in group:
            start, end = run.span
            if start and end and start < end:
                spans[run.run or id(run)] = start, end
        overlaps = dict(zip(spans, _overlaps(list(spans.values())), strict=True))
        for run in group:
            share, count = overlaps.get(run.run or id(run), (0.0, 0))
            if share > OVERLAP:
                text = f"the run shared its machine with {plural(count, 'other run')} during {share:.0%} of it"
                yield [run], Finding(text, share, too_long=share)


def _overlaps(spans: Sequence[tuple[float, float]]) -> list[tuple[float, int]]:
    """Return the fraction of each span that others overlap, at most 1, and how many of them do."""
    starts, ends = sorted(start for start, _ in spans), sorted(end for _, end in spans)
    sums = [list(accumulate((time_s - starts[0] for time_s in times), initial=0.0)) for times in (starts, ends)]

    def run_s(time: float) -> float:
        """Return the seconds of all spans before a time."""
        begun, over = bisect_left(starts, time), bisect_left(ends, time)
        return (begun - over) * (time - starts[0]) - sums[0][begun] + sums[1][over]

    return [
        (
            min((run_s(end) - run_s(start)) / (end - start) - 1, 1.0),
            bisect_left(starts, end) - bisect_right(ends, start) - 1,
        )
        for start, end in spans
    ]


@detects("improve cooling or power supply, and run again", caution=True)
def throttled(run: Run) -> Iterator[Finding]:
    """Heat or low power slowed a GPU down during {THROTTLED_TIME:.0%} of the epochs, or busy cores by {SLOWED_BY:.0%}.

    The cores are slowed if their last frequency is below the first. A throttled GPU is assumed to keep half its speed.
    """
    shares = [
        (number_in(share) or 0.0, reason)
        for gpu in (run.audit or {}).get("gpus") or []
        for reason, share in mapping_in(mapping_in(gpu).get("throttled")).items()
        if reason in SLOWED
    ]
    share, reason = max(shares, default=(0.0, ""))
    if share >= THROTTLED_TIME:
        text = f"the run's GPU was slowed down ({reason.replace('_', ' ')}) during {share:.0%} of the epochs"
        yield Finding(text, share, too_long=share)
        return
    first, last = audited(run, "host", "mhz", "first"), audited(run, "host", "mhz", "last")
    if first and last and last < (1 - SLOWED_BY) * first and core_share(run, "own_cpu_s") >= AT_WORK:
        text = f"the run's cores ended at {last:.0f} MHz, after {first:.0f} at the start"
        yield Finding(text, first / last, too_long=first / last - 1)


@detects("run trials one at a time on a quiet machine", caution=True, about="energy")
def energy_shared(run: Run) -> Iterator[Finding]:
    """The host computes, and others took {SHARED_ENERGY:.0%} of the processor time on the sockets that were metered."""
    others_share = number_in(run.energy.get("others_share"))
    if _is_hosted(run) and others_share is not None and others_share >= SHARED_ENERGY and run.energy_j is not None:
        text = (
            f"the energy includes that of other programs, which used {others_share:.0%} of the busy time of the sockets"
        )
        yield Finding(text, others_share)


def others_load(run: Run) -> list[Finding]:
    """Return findings that other programs made a run take longer."""
    return [*busy_host(run), *steal(run)]


def audited(run: Run, *path: str) -> float | None:
    """Return a number of the run's audit (`raybench.monitoring.summary`) by its path; None if not recorded."""
    value: Any = run.audit
    for name in path:
        value = value.get(name) if type(value) is dict else None
    return number_in(value)


def core_share(run: Run, name: str) -> float:
    """Return a total of the audit as a fraction of the run's core time; 0 if not known."""
    total, cores, seconds = audited(run, "host", name), audited(run, "host", "cores"), audited(run, "seconds")
    if total is None or not seconds or not cores or seconds < LEAST_S:
        return 0.0
    return total / (seconds * cores)


def _threads(run: Run) -> float | None:
    """Return the number of its threads, as they were or else as they were set; None if not known."""
    return number_in(run.runtime_conditions.get("threads")) or number_in(run.cell.device.threads)


def _is_hosted(run: Run) -> bool:
    return hosted(str(run.cell.device.kind))


def _lost(share: float, waiting: float) -> float | None:
    """Return the relative slowdown if others took a share of the cores, and that time was waited for; None if most."""
    return waiting / (1 - share) if share < MOST_TAKEN else None
