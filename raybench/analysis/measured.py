"""The numbers of the runs of each configuration, in one unit of work."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import median
from typing import Any

from raybench.analysis.answer import Unit
from raybench.analysis.intervals import REPEATED_LOOKS, UNTIL_NARROW, Candidates, Sample, Stopping, rounding
from raybench.analysis.pace import Rates, changing_rates
from raybench.analysis.work import (
    choose_unit,
    clock_of,
    comparable,
    job_of,
    joules_per_unit,
    seconds_per_unit,
    whole_pace,
)
from raybench.core.cell import VERSION_AXIS
from raybench.core.groups import grouped
from raybench.core.job import Target, is_accuracy
from raybench.core.settings import MISSING
from raybench.core.status import KILLED, TrialStatus
from raybench.devices import hardware_key
from raybench.results.grid_request import GridRequest, PlannedCell
from raybench.results.metrics import PERCENT, percent_scale
from raybench.results.output_clock import OutputClock
from raybench.results.run_table import Run, latest, training_s

MINUTE, HOUR = 60, 3600

DIGITS = 100  # least number of steps in a time that was given in minutes or hours

TIME, ENERGY = "time per unit", "energy per unit"
TIME_TO_TARGET, ENERGY_TO_TARGET = "time to target", "energy to target"
"""Quantities by which configurations are compared, besides metrics: logs, of a unit of work or to the target."""

NO_SOFTWARE = {"python", "raybench", "ray", "commit", "name", "machine_id", "boot", "pid"}
"""What is recorded with the versions of a run and its host, and does not change the speed of its device."""

FLOAT32_DIGITS = 6  # decimal digits that every 32-bit number keeps


@dataclass(frozen=True, slots=True)
class Try:
    """A run toward the target.

    Attributes:
        seconds: training time to the target or, if it was not reached, of the run; and that of all the epochs that it
            was given, which a miss takes.
        joules: the same of the energy; None if not measured.
        rounding: variance of its log time due to the epochs, at whose ends alone the target can be reached.
    """

    sample: Sample
    reached: bool
    seconds: tuple[float, float]
    joules: tuple[float | None, float | None] = (None, None)
    rounding: float = 0.0

    def cost(self, quantity: str) -> tuple[float | None, float | None]:
        """Return the seconds or the joules."""
        return self.seconds if quantity == TIME_TO_TARGET else self.joules


@dataclass(frozen=True)
class Measured:
    """A configuration with one number per completed run for each quantity.

    Attributes:
        index: its position in the grid.
        job: its workload, data and kind; different jobs are never compared.
        kind: the values that change the work of a command's epoch, if this is not counted.
        times, energies: logs of the steady seconds and joules per unit of work; without runs of unknown work.
        untimed: the times of a command whose epochs are too short for its clock, which are not compared.
        rates: logs of what is counted per second, such as tokens; without runs that did not count it.
        qualities: metrics after training, by name.
        alike: those that are the same to the last digit in all repeats, which are then one run, not many.
        tries: runs toward the target.
        price_per_hour: price of its device.
        roundings: variance of a log time (`TIME`) due to the rounding of its source, and of each metric due to rounding
            to whole examples, or digits.
        misses: whether the mean of its runs does not reach a target that it has to reach.
        stops: whether its runs stop at the target, so that their quality only confirms it.
        lengths: the numbers of epochs of its runs; empty if a target or a budget ends them.
        scales: 100 for each accuracy that was in percent, and 1 for others.
        changing: seconds per unit of work early and late in training, if these differ.
        is_changing: whether they differ in any configuration of the job, so that times are means over all epochs.
        attempts, completed: its attempts, one per repeat and machine, and those that completed.
        killed: its attempts, also those that were tried again, whose process was killed, as it can do itself.
        candidates: those of which the best is chosen, by quantity (`samples`).
        machines: those of the grid; None if an interval is about the very machines of the runs, and not their models.
    """

    index: int
    axes: Mapping[str, Any]
    job: str = ""
    kind: str = ""
    times: tuple[Sample, ...] = ()
    untimed: tuple[Sample, ...] = ()
    energies: tuple[Sample, ...] = ()
    rates: tuple[Sample, ...] = ()
    qualities: Mapping[str, tuple[Sample, ...]] = field(default_factory=dict)
    alike: frozenset[str] = frozenset()
    tries: tuple[Try, ...] = ()
    price_per_hour: float | None = None
    roundings: Mapping[str, float] = field(default_factory=dict)
    misses: bool = False
    stops: bool = False
    lengths: frozenset[int] = frozenset()
    scales: Mapping[str, float] = field(default_factory=dict)
    changing: Rates | None = None
    is_changing: bool = False
    attempts: tuple[Run, ...] = ()
    completed: tuple[Run, ...] = ()
    killed: tuple[Run, ...] = ()
    candidates: Mapping[str, Candidates] = field(default_factory=dict)
    machines: Machines | None = field(default=None, compare=False, repr=False)

    @cached_property
    def model(self) -> str:
        """The model of its device, or the device's name if that is not known; the same for all counts and threads."""
        run = next(iter(self.completed or self.attempts), None)
        name = str(self.axes.get("device", ""))
        return hardware_key(run.cell.device) or run.profile or name if run else name

    @property
    def length_text(self) -> str:
        """The least and largest length of its runs, in what their clock counts: `8 epochs`, `200 to 400 iterations`."""
        return self.work_text(*sorted({min(self.lengths), max(self.lengths)}))

    def work_text(self, *epochs: float) -> str:
        """Return numbers of epochs in what the clock of its runs counts."""
        clocks = (run.output_clock for run in self.completed if run.output_clock)
        clock = next(clocks, OutputClock(label="epoch"))
        numbers = " to ".join(f"{clock.step * number:.6g}" for number in epochs)
        return f"{numbers} {replace(clock, step=2.0).unit.partition(' ')[2]}"

    @cached_property
    def software(self) -> Mapping[str, set[str]]:
        """Its framework, driver, kernel and code, by name; empty if they were not recorded."""
        values: dict[str, set[str]] = {}
        for run in self.completed:
            facts = {**run.versions, **run.host, "driver": run.hardware.get("driver"), "code": run.cell.workload.digest}
            for name, value in facts.items():
                if value and name not in NO_SOFTWARE:
                    values.setdefault(name, set()).add(str(value))
        return values if "kernel" in values else {}

    @property
    def has_one_software(self) -> bool:
        """Whether its software is known, and the same in all runs."""
        return bool(self.software) and all(len(values) == 1 for values in self.software.values())

    @property
    def ended(self) -> list[Run]:
        """The runs that have ended and are not run again."""
        return [run for run in self.attempts if (s := TrialStatus.parse(run.status)) and not s.is_rerun]

    def samples(self, quantity: str) -> tuple[Sample, ...]:
        """Return the numbers of `TIME`, `ENERGY`, `TIME_TO_TARGET`, `ENERGY_TO_TARGET` or a metric."""
        if quantity in (TIME, ENERGY):
            return self.times if quantity == TIME else self.energies
        if quantity not in (TIME_TO_TARGET, ENERGY_TO_TARGET):
            return self.qualities.get(quantity, ())
        costs = ((target_run, target_run.cost(quantity)[0]) for target_run in self.tries if target_run.reached)
        return tuple(replace(target_run.sample, value=math.log(cost)) for target_run, cost in costs if cost)

    def rounding(self, quantity: str) -> float:
        """Return the least variance of a number, due to rounding."""
        if quantity in (TIME_TO_TARGET, ENERGY_TO_TARGET):
            return max((target_run.rounding for target_run in self.tries), default=0.0)
        return self.roundings.get(quantity, 0.0)


class Machines:
    """The configurations of a grid whose answer is about models of device.

    Attributes:
        spreads: what the machines of each model differ by, as far as computed (`raybench.analysis.machines`).
    """

    def __init__(self, configurations: Sequence[Measured]) -> None:
        self.configurations = configurations
        self.spreads: dict[Any, Any] = {}


Pairs = Sequence[tuple[Measured, Measured]]  # configurations, each with the one that it is compared with


def by_job(configurations: Iterable[Measured]) -> dict[str, list[Measured]]:
    """Return the configurations that may be compared, by their job."""
    return grouped((cell.job, cell) for cell in configurations)


def with_candidates(configurations: Sequence[Measured]) -> list[Measured]:
    """Return configurations with the candidates of their job, by the quantities that a choice may follow."""
    metrics = {name for cell in configurations for name in cell.qualities}
    quantities = (TIME, ENERGY, TIME_TO_TARGET, ENERGY_TO_TARGET, *metrics)
    of_jobs = {
        job: {name: Candidates(cell.samples(name) for cell in of_job) for name in quantities}
        for job, of_job in by_job(configurations).items()
    }
    return [replace(cell, candidates=of_jobs[cell.job]) for cell in configurations]


def are_same(values: Sequence[Any]) -> bool:
    """Return whether values are known in all runs, and the same."""
    return len(values) > 1 and bool(values[0]) and all(value == values[0] for value in values)


def as_fractions(
    cells: Mapping[str, Sequence[Run]], has_target: bool = False
) -> dict[str, tuple[Sequence[Run], Mapping[str, float]]]:
    """Return the runs of a program by cell, with accuracies as fractions, and the scale of each metric.

    An accuracy is in percent if it is in any cell, as a program logs it in one way. Of other shares, such as `val/f1`,
    and if the program is not known, as in tables and logs, the scale is that of the cell's own values: sides in which
    it differs are not compared. With a target they are of one program: 1% of a run that learns nothing is not 100%.
    """
    scales: dict[str, dict[str, float]] = {}
    for cell_id, runs in cells.items():
        scales[cell_id] = {}
        for name in dict.fromkeys(name for run in runs for name in run.epochs.names("metrics")):
            values = (value for run in runs for value in run.epochs.column("metrics", name, math.nan))
            # Values that are only slightly above 1 are no fractions.
            scales[cell_id][name] = percent_scale(name, values) or PERCENT
    is_one_program = has_target or all(run.cell.workload.digest for runs in cells.values() for run in runs)
    fractions: dict[str, tuple[Sequence[Run], Mapping[str, float]]] = {}
    for cell_id, runs in cells.items():
        of_program = scales.values() if is_one_program else [scales[cell_id]]
        logged = ((name, scale) for of_cell in of_program for name, scale in of_cell.items())
        percent = {name for name, scale in logged if scale == PERCENT and is_accuracy(name)}
        if percent:
            runs = [replace(run, epochs=run.epochs.with_metrics_divided(percent, PERCENT)) for run in runs]
        fractions[cell_id] = (runs, scales[cell_id] | dict.fromkeys(percent, PERCENT))
    return fractions


def as_fraction(target: Target | None) -> Target | None:
    """Return a target on an accuracy in percent as one on a fraction."""
    if target is None or not target.in_percent:
        return target
    least, most = (None if bound is None else round(bound / PERCENT, 9) for bound in (target.at_least, target.at_most))
    return replace(target, at_least=least, at_most=most)


Source = tuple[Sequence[Run], GridRequest]  # the attempts of a grid, and its request


def as_one_grid(axis: str, sources: Iterable[tuple[str, Source]]) -> Source:
    """Return several results of one grid as one with a further axis, whose value each of them has with it."""
    attempts: list[Run] = []
    cells: list[PlannedCell] = []
    request = GridRequest("")
    for number, (value, (runs, request)) in enumerate(sources):
        attempts += [replace(run, trial=f"{number}-{run.trial}") for run in runs]
        cells += [replace(c, cell_id=f"{number}-{c.cell_id}", axes={**c.axes, axis: value}) for c in request.cells]
    return attempts, replace(request, cells=cells)


def measure_all(attempts: Iterable[Run], request: GridRequest) -> tuple[list[Measured], Unit]:
    """Return the numbers of each requested configuration, and their unit of work."""
    grid = _Measurement(attempts, request)
    measured = [grid.configuration(index, cell) for index, cell in enumerate(request.cells)]
    machines = None if request.these_machines else Machines(measured)
    return [replace(cell, machines=machines) for cell in with_candidates(measured)], grid.unit


class _Measurement:
    """What the runs of a grid have in common; it measures its configurations."""

    def __init__(self, attempts: Iterable[Run], request: GridRequest) -> None:
        versions = {cell.cell_id: cell.axes.get(VERSION_AXIS) for cell in request.cells}
        programs: dict[tuple[object, ...], dict[str, list[Run]]] = {}
        for run in (run for run in attempts if run.cell_id in versions):
            cell = run.cell
            program = job_of(cell), versions[run.cell_id], cell.framework, cell.workload.digest
            programs.setdefault(program, {}).setdefault(run.cell_id, []).append(run)
        self._by_cell: dict[str, Sequence[Run]] = {}
        self._scales: dict[str, Mapping[str, float]] = {}
        for cells in programs.values():
            for cell_id, (fractions, scales) in as_fractions(cells, bool(request.target)).items():
                self._by_cell[cell_id] = [*self._by_cell.get(cell_id, ()), *fractions]
                self._scales[cell_id] = scales
        runs = [run for runs_of_cell in self._by_cell.values() for run in runs_of_cell]
        self._has_one_clock = len({clock_of(run) for run in runs if run.status == TrialStatus.COMPLETED}) < 2
        self.unit = choose_unit(runs, request.unit)
        is_of_mean = request.target and request.target.mean_level
        self._target = None if is_of_mean else as_fraction(request.target)
        self._stopping = _stopping(request)
        self._is_bounded = bool(self._target or request.budget)
        completed = {cell_id: self._completed(runs_of_cell) for cell_id, runs_of_cell in self._by_cell.items()}
        self._changing = {cell_id: changing_rates(runs, self.unit) for cell_id, runs in completed.items()}
        # All of a job have means then, since a mean and a median are not the same number.
        changing = (cell_id for cell_id, rates in self._changing.items() if rates)
        self._changing_jobs = {job_of(completed[cell_id][0].cell) for cell_id in changing}
        values: dict[str, set[float]] = {}
        for run in runs:
            for name in run.last_metrics:
                column = run.epochs.column("metrics", name, math.nan)
                values.setdefault(name, set()).update(filter(math.isfinite, column))
        # The steps to which each version's source rounded seconds, and each metric.
        seconds = grouped((versions[run.cell_id], epoch_s) for run in runs for epoch_s in run.timed_s)
        self._seconds = {version: _second(epoch_times) for version, epoch_times in seconds.items()}
        self._steps = {name: _step(name, different) for name, different in values.items()}

    def configuration(self, index: int, cell: PlannedCell) -> Measured:
        """Return the numbers of a configuration's runs."""
        runs = [run for run in self._by_cell.get(cell.cell_id, ()) if run.repeat < cell.repeats]
        requested = latest(runs).values()
        counted = tuple(sorted(requested, key=lambda run: (run.repeat, run.machine_name)))
        completed = tuple(run for run in counted if run.status == TrialStatus.COMPLETED)
        job = job_of(next((run.cell for run in counted if run.cell), cell.content))

        def logs(number: Callable[[Run], float | None]) -> tuple[Sample, ...]:
            values = ((run, number(run)) for run in completed)
            return tuple(self._sample(run, math.log(value)) for run, value in values if value)

        qualities: dict[str, list[Sample]] = {}
        for run in completed:
            for name, value in run.last_metrics.items():
                if math.isfinite(value):
                    # Sums of 32-bit numbers differ by the order of their terms.
                    rounded = float(f"{value:.{FLOAT32_DIGITS}g}")
                    qualities.setdefault(name, []).append(self._quality(run, rounded))
        kind = comparable(cell, completed, self.unit, self._has_one_clock)
        is_changing = any(job_of(run.cell) in self._changing_jobs for run in completed)
        times = logs(lambda run: seconds_per_unit(run, self.unit, is_changing))
        constant = {
            name
            for name, samples in [*qualities.items(), (TIME, times)]
            if len(samples) > 1 and len({sample.value for sample in samples}) == 1
        }
        # Accuracies may be equal by chance, as they are shares of whole examples.
        if not are_same([run.distinct_metrics for run in completed]):
            constant = {name for name in constant if not name.endswith("accuracy")}
        is_timed = not any(run.is_too_short for run in completed)
        seconds = [epoch_s for run in completed for epoch_s in run.timed_s if epoch_s > 0]
        trained = [run for run in completed if run.epochs]
        # An accuracy is rounded to whole examples or, if their number is unknown, to digits.
        second = self._seconds[cell.axes.get(VERSION_AXIS)] if seconds else 0.0
        steps = {name: self._steps[name] for name in qualities}
        if examples := next((run.cell.data.examples.val for run in completed if run.cell.data.examples.val), None):
            steps["val/accuracy"] = 1 / examples
        return Measured(
            index=index,
            axes=cell.axes,
            job=f"{job} {kind}",
            kind=kind,
            times=times if is_timed else (),
            untimed=() if is_timed else times,
            energies=logs(lambda run: joules_per_unit(run, self.unit)),
            rates=logs(lambda run: self._rate(run, is_changing)),
            qualities={name: tuple(samples) for name, samples in qualities.items()},
            alike=frozenset(constant),
            tries=tuple(target_run for run in counted if (target_run := self._try(run))),
            price_per_hour=cell.price_per_hour,
            # The times of a run have one error of up to half a step in common.
            roundings={TIME: (second / 2 / median(seconds)) ** 2 if seconds else 0.0}
            | {name: step**2 / 12 for name, step in steps.items()},
            stops=any(run.stops for run in completed),
            lengths=frozenset() if self._is_bounded else frozenset(max(run.epochs.column("epoch")) for run in trained),
            scales=self._scales.get(cell.cell_id, {}),
            changing=self._changing.get(cell.cell_id),
            is_changing=is_changing,
            attempts=counted,
            completed=completed,
            killed=tuple(
                run for run in runs if run.status == TrialStatus.LOST and (run.error or {}).get("type") == KILLED
            ),
        )

    def _completed(self, runs: Iterable[Run]) -> list[Run]:
        return [run for run in latest(runs).values() if run.status == TrialStatus.COMPLETED]

    def _rate(self, run: Run, is_changing: bool) -> float | None:
        counted = self.unit.counted
        rate = run.rates.get(counted)
        return 1 / whole_pace(run, counted) if rate and is_changing else rate

    def _sample(self, run: Run, value: float = 0.0) -> Sample:
        """Return a number of a run with its repeat, machine and time."""
        return Sample(run.repeat, value, run.machine_name, *run.span, self._stopping)

    def _quality(self, run: Run, value: float) -> Sample:
        """Return the same of a metric.

        A quality has no drift that the repeats of two sides would share. Of a race, in which few are common, all count.
        """
        sample = self._sample(run, value)
        if self._stopping is None or not self._stopping.is_race:
            return sample
        return replace(sample, started=None, ended=None, stopping=replace(self._stopping, is_common=False))

    def _try(self, run: Run) -> Try | None:
        """Return a run's try to reach the target; None if it failed, which says nothing about it."""
        if self._target is None:
            return None
        seconds, trained = training_s(run.epochs_to(self._target)), run.epochs_s or 0.0
        reached, status = seconds is not None, TrialStatus.parse(run.status)
        if not (reached or (status and status.is_result)):
            return None
        whole_j = None if run.energy_j is None else _of_all_epochs(run, run.energy_j, run.steady_energy_j)
        return Try(
            self._sample(run),
            reached,
            (trained if seconds is None else seconds, _of_all_epochs(run, trained, run.steady_s)),
            (run.target_energy_j if reached else run.energy_j, whole_j),
            ((run.steady_s or 0.0) / seconds) ** 2 / 12 if seconds else 0.0,
        )


def _step(metric: str, values: Collection[float]) -> float:
    """Return the step to which the different values of a metric were rounded."""
    step = rounding(values)
    # Zeros at the end are not seen: one or two accuracies such as 0.9 are taken to be whole percents, or finer.
    return min(step, 1 / PERCENT) if metric.endswith("/accuracy") and len(values) < 3 else step


def _stopping(request: GridRequest) -> Stopping | None:
    """Return how the number of repeats of a grid was decided; None if it was fixed before the first run."""
    rule, first = request.rule, request.first_look
    if not rule and not first:
        return None
    alphas = REPEATED_LOOKS if first or not rule or rule.until is None else UNTIL_NARROW
    return Stopping.of(alphas, first or rule.at_least if rule else first, bool(rule), bool(rule and rule.is_race))


def _second(seconds: Iterable[float]) -> float:
    """Return the step to which times were rounded, in seconds, minutes or hours; 0 if that cannot be seen.

    They were in minutes or hours if that makes them numbers of three digits or more.
    """
    values = [*seconds]
    step_s, *converted = (rounding(value / unit for value in values) * unit for unit in (1, MINUTE, HOUR))
    return max([step_s, *(step for step in converted if step * DIGITS <= min(values, default=0.0))])


def _of_all_epochs(run: Run, taken: float, epoch: float | None) -> float:
    """Return the seconds or joules of all epochs of a run, also if it stopped early at the target."""
    planned = run.cell.settings.epochs
    if epoch is None or planned in (None, MISSING) or run.status not in (None, TrialStatus.COMPLETED):
        return taken
    return taken + max(0.0, planned - run.length) * epoch
