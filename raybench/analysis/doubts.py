"""What the runs of a new version leave open: load, clocks, copies, missing runs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from statistics import fmean, median

from raybench.analysis.analyze import error_text
from raybench.analysis.findings.conditions import others_load, slow_runs
from raybench.analysis.intervals import Sample, difference
from raybench.analysis.measured import Measured
from raybench.analysis.versions import Change, Verdict, version_of
from raybench.analysis.work import SAME_WORK, clock_of
from raybench.core.ledger import training_s
from raybench.core.status import TrialStatus
from raybench.core.text import join_words, plural
from raybench.results.run_table import DISTINCT, Run, price_of

UNEVEN = 0.05  # least difference of the share of the cores that other programs took during the runs of each version
UNKNOWN_LOAD = 1.0
"""By how much a run is taken to be too long if other programs used so much that this cannot be estimated."""
LEAST_GAP_S = 0.05
"""Seconds that may pass between the dates of a run beyond those of its own clock, which a system corrects in steps."""
MORE_CORES = 1.2  # how many times as many cores as threads a version may keep busy; another thread may log or wait

_SAME_JOB = {
    "hardware": ("device.kind", "device.model", "device.count", "device.threads", "device.devices", "device.nodes"),
    "data set": ("data.name", "data.digest"),
}
"""Fields of a cell that are no change of a version; a faster device or easier data would hide a slower one."""


def different_work(base: Measured, new: Measured, is_same_length: bool) -> str:
    """Return why epochs of both versions are not the same work; empty if they may be."""
    sides = base.completed, new.completed
    for what, leaves in _SAME_JOB.items():
        values = [{_values(run, leaves) for run in side} for side in sides]
        if values[0] != values[1]:
            texts = [join_words(sorted(text or "not known" for text in texts_of_side)) for texts_of_side in values]
            return f"{what} of base: {texts[0]}; of new: {texts[1]}"
    hosts = [{run.machine_name for run in side} - {""} for side in sides]
    if all(hosts) and not hosts[0] & hosts[1] and not any(run.cell.device.model for side in sides for run in side):
        texts = [join_words(sorted(names)) for names in hosts]
        return f"runs of base are from {texts[0]}, those of new from {texts[1]}, of which no hardware is known"
    for name in base.scales.keys() & new.scales.keys():
        if base.scales[name] != new.scales[name]:
            percent, fraction = ("base", "new") if base.scales[name] > new.scales[name] else ("new", "base")
            return f"{name} of {percent} is read as percent, and that of {fraction} as a fraction"
    if copied := next((side for side in (base, new) if _has_copies(side)), None):
        return f"runs of {version_of(copied.axes)} have exactly the same times, so that they are copies of one"
    clocks = [{(run.clock, clock_of(run)) for run in side} for side in sides]
    if clocks[0] != clocks[1]:
        texts = [join_words(sorted(lines or clock or "an unknown clock" for clock, lines in side)) for side in clocks]
        return f"epochs of base are timed by {texts[0]}, those of new by {texts[1]}"
    if not is_same_length:
        return ""
    remedy = "versions of different length are compared only with a target or a budget"
    epochs = [{run.length for run in side} for side in sides]
    if epochs[0] != epochs[1]:
        texts = [join_words([str(count) for count in sorted(counts)]) for counts in epochs]
        texts = [f"{text} epoch{'s' * (text != '1')}" for text in texts]
        return f"runs of base have {texts[0]}, those of new {texts[1]}; {remedy}"
    units = set.union(*({*run.epochs.counted} for side in sides for run in side)) or {"steps"}
    for unit in units:
        counts = [median(sum(_counts(run, unit)) for run in side) for side in sides]
        if max(counts) > SAME_WORK * min(counts):
            return f"runs of base count {counts[0]:g} {unit}, those of new {counts[1]:g}; {remedy}"
    return ""


def different_training(base: Measured, new: Measured, name: str, is_same_length: bool) -> str:
    """Return why values of a metric of both versions are not of the same training; empty if they are."""
    logged, runs = (len(new.qualities[name]), len(base.qualities[name])), (len(new.completed), len(base.completed))
    if logged[0] * runs[1] < logged[1] * runs[0]:
        return f"{runs[0] - logged[0]} of {plural(runs[0], 'run')} of new did not log {name}"
    last = [{_last_epoch(run, name) for run in side.completed} for side in (base, new)]
    if is_same_length and last[0] != last[1]:
        texts = [join_words([str(number) for number in sorted(epochs)]) for epochs in last]
        return f"{name} of new is that of epoch {texts[1]}, that of base of epoch {texts[0]}"
    return ""


def are_same_runs(base: Measured, new: Measured) -> bool:
    """Return whether both versions name one measurement; without a start, by all times of all runs."""
    dates = [{(run.started, run.repeat, run.steady_s) for run in side.completed if run.started} for side in (base, new)]
    times = [[tuple(run.timed_s) for run in side.completed] for side in (base, new)]
    if all(dates):
        return bool(dates[0] & dates[1])
    return len({*chain(*times[0])}) >= DISTINCT and times[0] == times[1]


def _values(run: Run, leaves: Sequence[str]) -> str:
    values = ((leaf.rpartition(".")[2], run.cell.leaves.get(leaf)) for leaf in leaves)
    return ", ".join(f"{name} {value}" for name, value in values if value is not None)


def _counts(run: Run, unit: str) -> Sequence[float]:
    return run.epochs.column("steps", missing=0) if unit == "steps" else run.epochs.counts(unit)


def _has_copies(measured: Measured) -> bool:
    """Return whether a run has the times of a different one, in epochs enough that it is no coincidence."""
    times = [tuple(training_s(epoch.ledger) for epoch in run.epochs) for run in measured.completed]
    return any(count > 1 and len({*times_of_run}) >= DISTINCT for times_of_run, count in Counter(times).items())


def _has_walls(measured: Measured) -> bool:
    return all(run.wall for run in measured.completed)


def _cores(measured: Measured) -> float:
    """Return the cores that the median run kept busy in its steady epochs; 0 if that is not known."""
    cpu_and_wall = [(run.steady_cpu_s, run.steady_s) for run in measured.completed]
    return median([cpu_s / seconds if cpu_s and seconds else 0.0 for cpu_s, seconds in cpu_and_wall] or [0.0])


def _is_cut(run: Run) -> bool:
    """Return whether a run's own clock counts less time than passed between the dates of its start and its end."""
    start, end = run.span
    return bool(run.wall and start and end and end - start > SAME_WORK * run.wall + LEAST_GAP_S)


def _epochs_s(run: Run) -> float:
    """Return the seconds of all epochs, with evaluation and compilation."""
    return sum(sum(ledger.values()) for epoch in run.epochs if (ledger := epoch.ledger))


def whole_runs(new: Measured, base: Measured) -> tuple[tuple[Sample, ...], tuple[Sample, ...]]:
    """Return logs of the seconds of whole processes or, if a side lacks them, of all epochs, of runs with a time."""
    are_walls = _has_walls(new) and _has_walls(base)

    def logs(side: Measured) -> tuple[Sample, ...]:
        samples = {(sample.repeat, sample.host): sample for sample in side.times}
        runs = ((samples.get((run.repeat, run.machine_name)), run) for run in side.completed)
        times = ((sample, run.wall if are_walls else _epochs_s(run)) for sample, run in runs)
        return tuple(replace(sample, value=math.log(time_s)) for sample, time_s in times if sample and time_s)

    return logs(new), logs(base)


def growth(base: Measured, new: Measured, limit: float, limit_of_price: float) -> dict[str, float]:
    """Return how many times as much new takes of what decides nothing, where that is more than the limit."""
    grown = {}
    for name, most in {"peak memory": limit, "energy": limit, "price": limit_of_price}.items():
        amounts = [[_amount(run, name, side.price_per_hour) for run in side.completed] for side in (base, new)]
        if all(map(all, amounts)) and (ratio := fmean(amounts[1]) / fmean(amounts[0])) > 1 + most:
            grown[name] = ratio
    return grown


def _amount(run: Run, name: str, price_per_hour: float | None) -> float:
    """Return the peak memory, the energy or the price of a run; 0 if it is not known."""
    amounts = {
        "peak memory": run.peak_bytes,
        "energy": run.energy_j,
        "price": price_of(run.total_s, price_per_hour or run.price_per_hour),
    }
    return float(amounts[name] or 0)


def _last_epoch(run: Run, metric: str) -> int:
    """Return the last epoch after which a run logged a metric; 0 if there is none."""
    numbers, values = run.epochs.column("epoch"), run.epochs.column("metrics", metric)
    return max((number for number, value in zip(numbers, values, strict=True) if value is not None), default=0)


def uneven_load(new: Measured, base: Measured) -> float:
    """Return the log of how many times as long other programs made new than base; 0 if they disturbed both alike.

    Load that comes and goes is in the spread of the runs. What one version had more of could be the difference.
    """
    shares: list[list[Sample]] = []
    logs = []
    for side in (new, base):
        loads = [(run, others_load(run)) for run in side.completed]
        shares.append(
            [Sample(run.repeat, sum(f.degree for f in findings), run.machine_name) for run, findings in loads]
        )
        lost = (UNKNOWN_LOAD if f.too_long is None else f.too_long for _, findings in loads for f in findings)
        logs.append(sum(map(math.log1p, lost)) / max(1, len(loads)))
    uneven = difference(shares[0], shares[1])
    ends = uneven.interval() if uneven else None
    is_alike = uneven is None or abs(uneven.value) < UNEVEN or (ends is not None and ends[0] <= 0 <= ends[1])
    return 0.0 if is_alike else logs[0] - logs[1]


def doubt(base: Measured, new: Measured) -> str:
    """Return what is missing or impossible in the runs of new, so that they do not show all of it; empty if nothing."""
    if _has_walls(base) and not _has_walls(new):
        return "no time of the whole run of new is known, unlike those of base"
    if any(run.wall and _epochs_s(run) > SAME_WORK * run.wall for run in new.completed):
        return "a run of new took less time as a whole than its epochs"
    if any(map(_is_cut, new.completed)) and not any(map(_is_cut, base.completed)):
        return "the own clock of a run of new counts less time than passed between its start and its end"
    cores, threads = [_cores(side) for side in (base, new)], base.completed[0].cell.device.threads
    if isinstance(threads, int) and cores[0] <= threads * MORE_CORES < cores[1]:
        return f"new computed on {cores[1]:.1f} cores, with {plural(threads, 'thread')}"
    slow = [[run.repeat for runs, _ in slow_runs(side.completed, ()) for run in runs] for side in (base, new)]
    if slow[1] == [0] and slow[0] != [0]:
        return "the first run of new was slower than all others, which may have used what it left, such as a cache"
    repeats = [{run.repeat for run in side.attempts} for side in (base, new)]
    gaps = sorted(repeat + 1 for repeat in repeats[0] - repeats[1] if repeat < max(repeats[1]))
    return f"repeat {join_words(list(map(str, gaps)))} of new is missing, which base has" if gaps else ""


def by_misses(change: Change, base: Measured, new: Measured) -> Change:
    """Return a change, undecided if runs of new end without a result more often."""
    (base_misses, base_runs), (misses, runs) = _misses(base), _misses(new)
    if misses * base_runs <= base_misses * runs:
        return change
    what = f"complete ({ending_of(new)})" if len(new.completed) < runs else "reach the target"
    return replace(change, verdict=Verdict.UNDECIDED, reason=f"{misses} of {plural(runs, 'run')} of new did not {what}")


def _misses(measured: Measured) -> tuple[int, int]:
    """Return the number of runs that did not complete or reach the target, and that of all."""
    missed = {(run.sample.repeat, run.sample.host) for run in measured.tries if not run.reached}
    ended = [*measured.ended, *measured.killed]
    failed = (run.status != TrialStatus.COMPLETED or (run.repeat, run.machine_name) in missed for run in ended)
    return sum(failed), len(ended)


def ending_of(new: Measured | None) -> str:
    """Return why a run of a configuration of the new version did not complete."""
    if new is None:
        return "new has no such configuration"
    runs = (run for run in (*new.attempts, *new.killed) if run.status != TrialStatus.COMPLETED)
    if (ended := next(runs, None)) is None:
        return "none of its runs was started"
    return ": ".join(filter(None, (str(ended.status or "unfinished"), error_text(ended))))
