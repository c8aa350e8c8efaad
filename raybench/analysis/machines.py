"""Differences over several machines: within machines, or between models of device, of which machines are samples.

Machines of one model differ in speed by far more than the runs on one of them. So an interval between two models allows
for the machine, with a moderated variance (Smyth, 2004): what public results of equal machines vary by, and what those
of this grid do. On the same device of the same machines the machine cancels, and runs are compared within each.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple

from raybench.analysis import intervals
from raybench.analysis.answer import Caution, Machine, Ratio
from raybench.analysis.intervals import ALPHA, EffectEstimate, Estimate, Sample, at_every_look, f_probability
from raybench.analysis.measured import ENERGY, ENERGY_TO_TARGET, TIME, TIME_TO_TARGET, Measured, Pairs
from raybench.core.cell import VERSION_AXIS
from raybench.core.groups import grouped
from raybench.core.labels import configuration_label
from raybench.core.settings import PARAM


class Prior(NamedTuple):
    """Standard deviation of the log speeds of machines of one model, and its degrees of freedom."""

    sd: float
    df: float


SAME_SOFTWARE, ANY_SOFTWARE = Prior(0.009, 7), Prior(0.023, 23)
"""Of machines with the same software, and with that of different owners (MLPerf Training v5.0 and v5.1)."""

NO_MACHINE = Prior(0.0, math.inf)  # if the machine cancels, or does not matter, as for quality
LEVEL = 0.10  # level of the test that the machines of a grid differ more than the prior knows


PAUSE_S = 1800.0  # seconds without a run on a machine after which a new session begins
LEAST_CHANGE = 0.02  # difference between sessions that is worth a caution: machines of one model differ by as much


class Spread(NamedTuple):
    """Sum of squares of the means of machines around that of their model, and its degrees of freedom."""

    squares: float = 0.0
    df: int = 0


def _spread_of_grid(pairs: Pairs, quantity: str) -> Spread:
    """Return the spread of the models of the grid that are not compared; over several sets, that of means over them."""
    first = pairs[0][0]
    if first.machines is None:
        return Spread()
    key, spreads = (first.job, quantity, len(pairs) > 1), first.machines.spreads
    if key not in spreads:
        sides = [side for side in first.machines.configurations if side.job == first.job and side.samples(quantity)]
        by_model = grouped((side.model, side.samples(quantity)) for side in sides)
        spreads[key] = {model: _pooled(of_model, len(pairs) > 1) for model, of_model in by_model.items()}
    compared = {side.model for pair in pairs for side in pair}
    return _sum(spread for model, spread in spreads[key].items() if model not in compared)


def _sum(spreads: Iterable[Spread]) -> Spread:
    squares, df = zip(Spread(), *spreads, strict=True)
    return Spread(sum(squares), sum(df))


def _pooled(configurations: Sequence[Sequence[Sample]], are_averaged: bool) -> Spread:
    """Return the spread of the machines of a model: of means over its configurations, or the mean of their spreads."""
    if are_averaged:
        return _Side.of(configurations).spread
    spreads = [spread for samples in configurations if (spread := _Side.of([samples]).spread).df]
    df = min((spread.df for spread in spreads), default=0)
    return Spread(df * fmean(spread.squares / spread.df for spread in spreads), df) if spreads else Spread()


@dataclass(frozen=True)
class _Side:
    """The mean over sets of configurations, each a mean over machines.

    Attributes:
        weight: sum of the squared weights of its machines: 1 ÷ their number if each ran all sets.
        variance: that of runs on one machine, and its degrees of freedom, which are 0 if it is not known.
        scale: variance of the mean due to runs ÷ that of runs.
        spread: that of the machines with the same sets.
    """

    value: float
    weight: float
    variance: float
    scale: float
    noise_df: float
    spread: Spread

    @property
    def noise(self) -> float:
        """Variance of the mean due to runs."""
        return self.scale * self.variance

    @classmethod
    def of(cls, sets: Sequence[Sequence[Sample]], floor: float = 0.0) -> _Side:
        """Return the side of the runs of each set; `floor` is the least variance of one run."""
        by_host: dict[str, dict[int, list[float]]] = {}
        for number, samples in enumerate(sets):
            for run in sorted(samples, key=lambda run: run.repeat):
                by_host.setdefault(run.host, {}).setdefault(number, []).append(run.value)
        hosts = [set(by_set) for by_set in by_host.values()]
        counts = [sum(number in numbers for numbers in hosts) for number in range(len(sets))]
        weights = [sum(1 / counts[number] for number in numbers) / len(sets) for numbers in hosts]
        # Sets share what happens in a repeat, so a repeat gives one number: the mean over the sets of a machine.
        repeats = [list(map(fmean, zip(*by_set.values(), strict=False))) for by_set in by_host.values()]
        parts = [
            (intervals.variance(values) * (len(values) - 1), len(values) - 1) for values in repeats if len(values) > 1
        ]
        df = sum(df_of_host for _, df_of_host in parts)
        variance = max(sum(squares for squares, _ in parts) / df, floor) if df else 0.0
        scale = sum(weight**2 / len(values) for weight, values in zip(weights, repeats, strict=True))
        alike = grouped(zip(map(frozenset, hosts), map(fmean, repeats), strict=True))
        groups = [values for values in alike.values() if len(values) > 1]
        squares = sum(intervals.variance(values) * (len(values) - 1) for values in groups)
        spread = Spread(squares, sum(len(values) - 1 for values in groups))
        means = [
            fmean(fmean(by_set[number]) for by_set in by_host.values() if number in by_set)
            for number in range(len(sets))
        ]
        return cls(fmean(means), sum(weight**2 for weight in weights), variance, scale, df, spread)


def effect(quantity: str, pairs: Pairs, floor: float | None = None) -> EffectEstimate | None:
    """Return a quantity of configurations minus that of the others, over matched sets; None without a set of runs.

    `floor` is the least variance of one run, by default that of rounding.
    """
    complete = [pair for pair in pairs if all(side.samples(quantity) for side in pair)]
    sets = [(pair, result) for pair in complete if (result := _effect(quantity, [pair], floor))]
    if len(sets) < 2:
        return sets[0][1] if sets else None
    return _effect(quantity, [pair for pair, _ in sets], floor, tuple(result.mean for _, result in sets))


def _effect(quantity: str, pairs: Pairs, floor: float | None, sets: tuple[Estimate, ...] = ()) -> EffectEstimate | None:
    """Return the effect of one pair, or over several, whose own estimates are `sets`."""
    are_models = any(_differs(cell, reference, quantity) for cell, reference in pairs)
    sides = [(cell.samples(quantity), reference.samples(quantity)) for cell, reference in pairs]
    if not are_models:
        sides = [tuple(_on(_hosts(*pair), samples) for samples in pair) for pair in sides]  # type: ignore[misc]
    hosts = [{run.host for pair in sides for run in pair[number]} for number in range(2)]
    candidates, stopping = pairs[0][0].candidates.get(quantity), sides[0][0][0].stopping
    if floor is None:
        floor = max(side.rounding(quantity) for pair in pairs for side in pair)
    if len(hosts[0]) == len(hosts[1]) == 1:
        table = intervals.table_of_repeats(sides, 2 * floor) if sets else None
        if table:
            mean = at_every_look(table.mean, stopping)
        elif sets:
            mean = Estimate(fmean(estimate.value for estimate in sets))
        elif (difference := intervals.difference(*sides[0], floor, candidates)) is None:
            return None
        else:
            mean = difference
        if are_models:
            mean = _moderated(mean, 2.0, _prior(quantity, pairs), _spread_of_grid(pairs, quantity))
            mean = replace(mean, machines=len(hosts[0] | hosts[1]))
        return EffectEstimate(mean, sets or (mean,), table)
    if are_models:
        cell, reference = (_Side.of([pair[number] for pair in sides], floor / len(sides)) for number in range(2))
        base = _between(cell, reference)
        spread = _sum([cell.spread, reference.spread, _spread_of_grid(pairs, quantity)])
        weight, prior = cell.weight + reference.weight, _prior(quantity, pairs)
    else:
        change = _Side.of([_differences(*pair) for pair in sides], 2 * floor / len(sides))
        error = math.sqrt(change.noise) if change.noise_df else None
        base = Estimate(change.value, error, change.noise_df, paired=True)
        spread, weight, prior = change.spread, change.weight, NO_MACHINE
    if len(pairs) == 1 and candidates:
        base = replace(base, alpha=ALPHA / candidates.comparisons)
    base = replace(at_every_look(base, stopping), machines=len(hosts[0] | hosts[1]))
    mean = _moderated(base, weight, prior, spread)
    return EffectEstimate(mean, sets or (mean,))


def _between(side: _Side, reference: _Side) -> Estimate:
    """Return a side minus another on other machines, with the error due to runs."""
    noises = [(side.noise, side.noise_df), (reference.noise, reference.noise_df)]
    least = min(df for _, df in noises)
    df = min(satterthwaite(noises), 2.0 * least) if least else 0.0
    return Estimate(side.value - reference.value, math.sqrt(side.noise + reference.noise) if least else None, df)


def _moderated(base: Estimate, weight: float, prior: Prior | None, spread: Spread) -> Estimate:
    """Return an estimate with the variance of machines; that of these machines alone without a prior.

    Args:
        base: with the error due to runs.
        weight: variance of the value ÷ that of a machine.
    """
    if prior is None:
        return base
    noise = 0.0 if base.error is None else base.error**2 / weight
    expected = prior.sd**2 + noise
    expected_df = min(satterthwaite([(prior.sd**2, prior.df), (noise, base.df)]), prior.df)
    between = spread.squares / spread.df if spread.df else 0.0
    total = expected_df + spread.df
    variance, df = (expected_df * expected + spread.squares) / total if math.isfinite(total) else expected, total
    if base.error is None:
        # The noise of a single run on each machine is in what machines differ by.
        variance, df = max(between, variance), float(spread.df)
    elif between > variance and f_probability(between, expected, spread.df, expected_df) < LEVEL:
        variance, df = between, float(spread.df)
    if not df:
        return base
    moderated = replace(base, error=math.sqrt(variance * weight), df=df)
    if prior is NO_MACHINE:
        return moderated
    return replace(moderated, alone=base, machine_sd=math.sqrt(max(0.0, variance - noise)))


def allowance(cell: Measured, reference: Measured, quantity: str) -> float:
    """Return the half-width for machines of an interval of logs; 0 on the same device of the same machines."""
    result = effect(quantity, [(cell, reference)])
    prior = _prior(quantity, [(cell, reference)])
    if not prior or not result or not _differs(cell, reference, quantity):
        return 0.0
    estimate = result.mean
    if estimate.alone and estimate.half and estimate.alone.half is not None:
        return math.sqrt(max(0.0, estimate.half**2 - estimate.alone.half**2))
    return intervals.quantile(prior.df, 1 - estimate.alpha / 2) * prior.sd * math.sqrt(2)


def satterthwaite(parts: Sequence[tuple[float, float]]) -> float:
    """Return the degrees of freedom of a sum of variances, each with its own."""
    divisor = sum(variance**2 / df for variance, df in parts if variance)
    return sum(variance for variance, _ in parts) ** 2 / divisor if divisor else math.inf


def _prior(quantity: str, pairs: Pairs) -> Prior | None:
    """Return what is known of machines of one model; None if these machines alone are compared."""
    if quantity not in (TIME, ENERGY, TIME_TO_TARGET, ENERGY_TO_TARGET):
        return NO_MACHINE
    if any(side.machines is None for pair in pairs for side in pair):
        return None
    is_same = all(has_same_software(cell, reference) for cell, reference in pairs)
    return SAME_SOFTWARE if is_same else ANY_SOFTWARE


def has_same_software(cell: Measured, reference: Measured) -> bool:
    """Return whether both have the same framework, kernel and code, and driver, if both have one; false if unknown."""
    first, second = cell.software, reference.software
    names = {*first, *second} - {"driver"} | (first.keys() & second.keys())
    if cell.axes.get(VERSION_AXIS) != reference.axes.get(VERSION_AXIS):  # other code is what is compared
        names &= {"driver", "kernel"}
    return bool(first and second) and all(first.get(name) == second.get(name) for name in names)


def _differs(cell: Measured, reference: Measured, quantity: str) -> bool:
    """Return whether two configurations ran on different models of device, or on no common machine."""
    return cell.model != reference.model or not _hosts(cell.samples(quantity), reference.samples(quantity))


def _hosts(*sides: Sequence[Sample]) -> set[str]:
    return set.intersection(*({run.host for run in side} for side in sides))


def _on(hosts: set[str], samples: Sequence[Sample]) -> tuple[Sample, ...]:
    return tuple(run for run in samples if run.host in hosts)


def _differences(samples: Sequence[Sample], references: Sequence[Sample]) -> list[Sample]:
    """Return the differences of the first, second, … runs of both on each machine: repeats are numbered over all."""
    sides = [sorted(side, key=lambda run: run.repeat) for side in (samples, references)]
    return [
        replace(first, repeat=number, value=first.value - second.value)
        for host in sorted(_hosts(samples, references))
        for number, (first, second) in enumerate(zip(*(_on({host}, side) for side in sides), strict=False))
    ]


def machine_speeds(configurations: Sequence[Measured]) -> list[Machine]:
    """Return the machines, each with its speed relative to the others of its model, the slowest first."""
    hosts = {run.machine_name for cell in configurations for run in cell.completed}
    names = Counter(host.partition(" ")[0] for host in hosts)
    machines = []
    for same_model in grouped((cell.model, cell) for cell in configurations if cell.completed).values():
        named = [
            (str(cell.axes.get("device") or cell.model or cell.axes.get(f"{PARAM}gpu", "")), cell)
            for cell in same_model
        ]
        devices = grouped((run.machine_name, device) for device, cell in named for run in cell.completed)
        for host, of_runs in devices.items():
            name, _, identity = host.partition(" ")
            name += f" ({identity:.6})" if names[name] > 1 else ""
            if name:
                machine = Machine(name, ", ".join(dict.fromkeys(of_runs)), len(of_runs))
                machines.append(_relative(machine, host, same_model, len(devices)))
    return sorted(machines, key=lambda machine: machine.speed.value if machine.speed else math.inf)


def _relative(machine: Machine, host: str, configurations: Sequence[Measured], count: int) -> Machine:
    """Return a machine with its speed relative to the others of its model, over the configurations of both."""
    sets = [({host} & _hosts(cell.times), cell) for cell in configurations if len(_hosts(cell.times)) > 1]
    common = [cell for hosts, cell in sets if hosts]
    if not common:
        return machine
    this, others_of_model = (
        _Side.of([[run for run in cell.times if (run.host == host) is is_own] for cell in common])
        for is_own in (True, False)
    )
    runs = _Side.of([cell.times for cell in common])  # each machine alone has too few for its noise
    error = math.sqrt(runs.variance * (this.scale + others_of_model.scale)) if runs.noise_df else None
    base = Estimate(
        others_of_model.value - this.value, error, runs.noise_df, ALPHA / count
    )  # as the slowest is looked for
    is_same = all(cell.software == common[0].software for cell in common) and common[0].has_one_software
    prior = SAME_SOFTWARE if is_same else ANY_SOFTWARE
    bounds = _moderated(base, this.weight + others_of_model.weight, prior, others_of_model.spread).interval()
    ends = replace(base, alpha=ALPHA).interval()
    low, high = map(math.exp, ends) if ends else (None, None)
    other_hosts = {run.host for cell in common for run in cell.times} - {host}
    speed = Ratio(math.exp(base.value), low, high, machine.runs)
    return replace(machine, others=len(other_hosts), speed=speed, is_slow=bounds is not None and bounds[1] < 0)


def machine_cautions(machines: Sequence[Machine]) -> Iterator[Caution]:
    """Yield a caution for each machine that is slower than those of one model usually are."""
    for machine in machines:
        if machine.is_slow and machine.speed:
            low, high = (None if end is None else 100 * (1 - end) for end in (machine.speed.high, machine.speed.low))
            interval = "" if low is None or high is None else f" (95% CI {low:.1f}–{high:.1f}%)"
            rest = f"{machine.others} others" if machine.others > 1 else "the other one"
            text = f"{machine.name} is {100 * (1 - machine.speed.value):.1f}% slower than {rest} of its model{interval}"
            has_models = len({machine_of_grid.device for machine_of_grid in machines}) > 1
            remedy = "check its clocks, its temperature and what else runs there"
            yield Caution("slow_machine", text, remedy, could_change_best=has_models)


def session_cautions(measured: Sequence[Measured]) -> Iterator[Caution]:
    """Yield a caution for each machine on which a configuration had another speed in a later session."""
    runs_of_all = [(cell.index, run) for cell in measured for run in cell.times]
    dated = [(index, run) for index, run in runs_of_all if run.started is not None and run.ended is not None]
    for host, runs in grouped((run.host, (index, run)) for index, run in dated).items():
        sessions = _sessions(runs)
        pairs = [
            (index, first[index], second[index])
            for first, second in pairwise(sessions)
            for index in first.keys() & second.keys()
            if min(len(first[index]), len(second[index])) > 1
        ]
        changes = []
        for index, first, second in pairs:
            estimate = intervals.difference(second, first)
            ends = replace(estimate, alpha=ALPHA / len(pairs)).interval() if estimate else None
            if estimate and ends and ends[0] * ends[1] > 0 and abs(estimate.value) > LEAST_CHANGE:
                changes.append((estimate, index, second))
        if changes:
            estimate, index, second = max(changes, key=lambda change: abs(change[0].value))
            ends = estimate.interval()
            assert ends
            low, value, high = map(math.exp, (ends[0], estimate.value, ends[1]))
            label = configuration_label(measured[index].axes, measured[index].axes)
            began = datetime.fromtimestamp(min(run.started or 0.0 for run in second), UTC)
            text = (
                f"{host.partition(' ')[0] or 'the machine'}: {label} took {value:.2f}x as long in the session of "
                f"{began:%Y-%m-%d %H:%M} UTC as in the one before (95% CI {low:.2f}–{high:.2f})"
            )
            mixed = len({frozenset(n for n, session in enumerate(sessions) if i in session) for i, _ in runs}) > 1
            could = mixed or len({cell.model for cell in measured}) > 1
            yield Caution("sessions_differ", text, "run all again in one session (`--rerun`)", could_change_best=could)


def _sessions(runs: Sequence[tuple[int, Sample]]) -> list[dict[int, list[Sample]]]:
    sessions: list[dict[int, list[Sample]]] = []
    end = -math.inf
    for index, run in sorted(runs, key=lambda entry: entry[1].started or 0.0):
        if (run.started or 0.0) - end > PAUSE_S:
            sessions.append({})
        sessions[-1].setdefault(index, []).append(run)
        end = max(end, run.ended or 0.0)
    return sessions
