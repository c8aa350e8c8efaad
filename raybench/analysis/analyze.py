"""The answer to the question of a grid, from its attempts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from statistics import fmean, geometric_mean, median
from typing import Any

from raybench.analysis.answer import Answer, Configuration, Curve, Ending, Mfu, RunResult, Status, Summary, ToTarget
from raybench.analysis.best import Scale, best, best_of_devices, ranking, scales
from raybench.analysis.effects import effects
from raybench.analysis.findings.conditions import others_load
from raybench.analysis.findings.finding import View, findings
from raybench.analysis.intervals import Sample
from raybench.analysis.machines import machine_speeds
from raybench.analysis.matching import Matching
from raybench.analysis.measured import ENERGY_TO_TARGET, TIME, Measured, as_fraction, measure_all
from raybench.analysis.race import race_of
from raybench.analysis.ratios import cost_ratio, cost_summary, priced, quality_difference, quality_summary
from raybench.analysis.scaling import scalings
from raybench.analysis.targets import expected, means, target_ratio
from raybench.analysis.trade_off import trade_offs
from raybench.analysis.trust import trust_of_warnings, with_trust
from raybench.analysis.until import more_repeats, notes, with_needed_repeats
from raybench.analysis.work import clock_text, seconds_per_unit
from raybench.analysis.workloads import over_workloads
from raybench.core.groups import grouped
from raybench.core.identity import SYNTHETIC, is_smoke
from raybench.core.labels import configuration_label
from raybench.core.ledger import TRAINING
from raybench.core.status import TrialStatus
from raybench.core.text import error_line
from raybench.datasets import is_synthetic
from raybench.devices import hardware_text
from raybench.results.grid_request import GridRequest, PlannedCell
from raybench.results.metrics import main_metric
from raybench.results.run_table import REPORTED, Run, price_of, seconds_in, training_s

NOT_RUN, UNFINISHED = "not run", "unfinished"
"""Endings of runs without an end: they were not started, or still run or were interrupted."""


class Grid:
    """The runs of a grid in one unit of work, and which of them are compared: the source of all statements about it.

    Args:
        runs: all attempts at its trials; those of other configurations are ignored.
        request: its configurations, baseline and target (`raybench.results.grid_request.request_of_runs` if only the
            runs are known).
        baseline: axes and values to compare with, instead of the request's.
    """

    def __init__(self, runs: Iterable[Run], request: GridRequest, baseline: Mapping[str, Any] | None = None) -> None:
        runs = list(runs)
        self._race = race_of(runs, request) if request.rule and request.rule.is_race else None
        self.request = with_needed_repeats(runs, request)
        self.measured, self.unit = measure_all(runs, self.request)
        self.target = as_fraction(request.target)
        self.means = tuple(means(self.measured, self.target))
        missing = {mean.configuration for mean in self.means if not mean.is_reached}
        self.measured = [replace(cell, misses=cell.index in missing) for cell in self.measured]
        names = dict.fromkeys(name for cell in self.measured for name in cell.qualities)
        self.metric = main_metric(names, request.metric)
        metrics = self.metric, self.target.metric if self.target else ""
        self.metrics = [name for name in dict.fromkeys(metrics) if name in names]
        self._sign = -request.direction(self.metric).sign
        self.is_timed = any(training_s(run.epochs) for cell in self.measured for run in cell.completed)
        self._quality_sign = self._sign if self.metric and (request.budget or not self.is_timed) else None
        # The numbers of a smoke run show that everything runs; as results they would mislead.
        self.is_result = not is_smoke(request.name)
        self._order = ranking(self.measured, self.metric, self._quality_sign) if self.is_result else []
        self.matching = Matching(self.measured, request.baseline if baseline is None else baseline, self._order)
        self.judged = self.measured if self.is_result else []
        self.findings = findings([run for cell in self.judged for run in cell.attempts], self.matching.axes)
        used = [run.utilization for cell in self.measured for run in cell.completed if run.utilization]
        # A run that exceeds its peak puts every share of this peak in doubt.
        self._doubted = {
            utilization.basis.peak: utilization.problem
            for utilization in used
            if utilization.flops_per_s and utilization.problem
        }

    def scale(self, configurations: Sequence[Measured]) -> Scale | None:
        """Return the criterion that decides between configurations; None if nothing shows which is better."""
        return next(iter(scales(configurations, self.metric, self._quality_sign)), None)

    def answer(self, warnings: Iterable[str] = (), weights: Mapping[str, float] | None = None) -> Answer:
        """Return the answer to its question, with what else the user should know, such as results of checks.

        Args:
            weights: of workloads in a mean over several.
        """
        request, measured, matching, metric = self.request, self.measured, self.matching, self.metric
        configurations = [self._configuration(cell) for cell in measured]
        ranks = Counter[str]()
        for index in self._order:
            ranks[measured[index].job] += 1
            configurations[index] = replace(configurations[index], rank=ranks[measured[index].job])
        workloads, jobs = dict.fromkeys(cell.workload for cell in configurations if cell.workload), {}
        for cell in measured:
            names = configurations[cell.index].workload, str(cell.axes.get("data_set") or ""), cell.kind
            jobs[cell.job] = ", ".join(filter(None, names))
        kept = self._sign, request.max_quality_loss
        named = jobs if len(jobs) > 1 else {}
        bests = best(self.judged, matching, metric, named, self._quality_sign, kept)
        table = effects(measured, matching, self.metrics, self._quality_sign is not None) if self.is_result else []
        data = (str(cell.content.data.name) for cell in request.cells)
        answer = Answer(
            grid=request.name,
            workload=", ".join(workloads) or request.workload,
            baseline=matching.baseline,
            axes=matching.axes,
            unit=self.unit,
            configurations=tuple(configurations),
            ranking=tuple(self._order),
            best=tuple(bests),
            of_devices=tuple(best_of_devices(self.judged, metric, self._quality_sign)),
            over_workloads=tuple(over_workloads(self.judged, named, metric, weights or {})),
            weights=weights or {},
            trade_offs=tuple(trade_offs(self.judged, metric, named)) if self._quality_sign is None else (),
            effects=tuple(table),
            scalings=tuple(scalings(measured, matching, table)),
            more_repeats=more_repeats(bests[0], configurations, measured) if bests and not request.rule else None,
            machine_speeds=tuple(machine_speeds(self.judged)),
            these_machines=request.these_machines,
            status=_status(configurations, request.part, notes(measured, matching, request, self._race)),
            compared=matching.compared[0] if matching.compares_best and matching.compared else "",
            metric=metric,
            synthetic_data=next((name.removesuffix(SYNTHETIC) for name in data if is_synthetic(name)), ""),
            target=self.target,
            means=self.means,
            budget=request.budget,
            excludes_compilation=any((cell.content.budget or {}).get("compile") is False for cell in request.cells),
            description=request.description,
            clock=clock_text(run for cell in measured for run in cell.completed)
            or ("" if self.is_timed or not metric else "No times are known, so the quality alone decides."),
            currency=request.currency,
            max_quality_loss=request.max_quality_loss,
        )
        if not self.is_result:
            return replace(answer, trust=trust_of_warnings(warnings))
        return with_trust(View(answer, measured, matching, request, self.findings), warnings)

    def _configuration(self, measured: Measured) -> Configuration:
        """Return a configuration without its rank and cautions."""
        cell = self.request.cells[measured.index]
        reference = self.matching.references[measured.index]
        reference_runs = None if reference in (None, measured.index) else self.measured[reference or 0]
        quality = measured.qualities.get(self.metric, ())
        summary = quality_summary(quality, measured.rounding(self.metric))
        runs, seconds = measured.completed, cost_summary(measured.times or measured.untimed, measured.rounding(TIME))
        summary, seconds = (
            replace(number, low=None, high=None) if number and name in measured.alike else number
            for name, number in ((self.metric, summary), (TIME, seconds))
        )
        total_s = _median(map(_whole_s, runs))
        used = [run.utilization for run in runs if run.utilization]
        problems = (self._doubted.get(utilization.basis.peak) or utilization.problem for utilization in used)
        problem = next(filter(None, problems), "")
        content = next((run.cell for run in measured.attempts if run.cell), cell.content)
        workload = str(content.workload.name or self.request.workload)
        sections = list(map(_sections, runs))
        parts = dict.fromkeys(name for of_run in sections for name in of_run)
        are_skipped = bool(measured.attempts) and all(run.status == TrialStatus.SKIPPED for run in measured.attempts)
        identity = Configuration(
            index=measured.index,
            cell_id=cell.cell_id,
            label=configuration_label(cell.axes, self.matching.axes) or workload,
            axes=cell.axes,
            workload=workload,
            reference=reference,
            planned=cell.repeats,
            completed=len(runs),
            endings=_endings(cell, measured.attempts),
            skip=cell.skip or (error_text(measured.attempts[0]) or "skipped" if are_skipped else None),
            hardware=hardware_text(content.device),
        )
        if not self.is_result:
            return identity
        return replace(
            identity,
            runs=tuple(self._run(run, measured) for run in runs),
            seconds=seconds,
            rate=cost_summary(measured.rates, measured.rounding(TIME)),
            run_parts_s={name: fmean(of_run.get(name, 0.0) for of_run in sections) for name in parts},
            total_s=total_s,
            total_is_training=bool(runs) and all(run.total_s is None for run in runs),
            quality=summary,
            metrics={name: fmean(sample.value for sample in samples) for name, samples in measured.qualities.items()},
            machines=len({run.machine_name for run in runs} - {""}),
            price_per_hour=cell.price_per_hour,
            price_source=cell.price_source,
            total_price=price_of(total_s, cell.price_per_hour),
            price=priced(seconds, cell.price_per_hour),
            energy_j=joules.value if (joules := cost_summary(measured.energies)) else None,
            communication=_median(run.communication for run in runs),
            medians={
                column.name: value for column in REPORTED if (value := _median(map(column.value, runs))) is not None
            },
            **(_mfu(runs) | self._limit(runs) if not problem else {"mfu_problem": problem}),
            ratio=cost_ratio(measured, reference_runs) if reference_runs else None,
            quality_difference=quality_difference(measured, reference_runs, self.metric) if reference_runs else None,
            to_target=self._to_target(measured, reference_runs) if self.target and not self.means else None,
        )

    def _to_target(self, cell: Measured, reference: Measured | None) -> ToTarget:
        seconds, joules = expected(cell.tries), expected(cell.tries, ENERGY_TO_TARGET)
        total = Summary(seconds.value, seconds.low, seconds.high, seconds.runs) if seconds else None
        return ToTarget(
            reached=sum(target_run.reached for target_run in cell.tries),
            tried=len(cell.tries),
            success_s=seconds.success if seconds else None,
            expected=total,
            price=priced(total, cell.price_per_hour),
            energy_j=joules.value if joules else None,
            ratio=target_ratio(cell, reference) if reference else None,
        )

    def _limit(self, runs: Sequence[Run]) -> dict[str, Any]:
        """Return what limits most runs; withheld if other programs kept the host busy."""
        limits = [run.limit for run in runs if run.limit]
        if not limits or any(map(others_load, runs)):
            return {}
        (cause, _), *_ = Counter(limit.bottleneck for limit in limits).most_common(1)
        share = median(limit.share for limit in limits if limit.bottleneck == cause)
        return {"limited_by": cause, "limited_share": share} if cause else {}

    def _run(self, run: Run, cell: Measured) -> RunResult:
        to_target_s = training_s(run.epochs_to(self.target))
        seconds = seconds_per_unit(run, self.unit, cell.is_changing)
        return RunResult(run.trial, seconds, to_target_s, _whole_s(run), partial(_curve, run))


def _sections(run: Run) -> Mapping[str, float]:
    """Return the seconds of each section of a run's process or, if that is not known, of its epochs."""
    names = run.epochs.names("ledger")
    of_epochs = {name: sum(run.epochs.column("ledger", name, 0.0)) for name in names} if len(names) > 1 else {}
    return run.ledger or of_epochs


def _whole_s(run: Run) -> float | None:
    """Return the wall time of a run, or that of its training if that is all that is known; None if no time is."""
    return (run.epochs_s if run.total_s is None else run.total_s) or None


def _curve(run: Run, metric: str) -> Curve:
    seconds = accumulate(seconds_in(run.epochs, TRAINING))
    numbers, values = run.epochs.column("epoch"), run.epochs.column("metrics", metric, math.nan)
    return tuple(
        (float(number), at, value)
        for number, at, value in zip(numbers, seconds, values, strict=True)
        if math.isfinite(value)
    )


def _endings(cell: PlannedCell, attempts: Sequence[Run]) -> tuple[Ending, ...]:
    ended = [run for run in attempts if run.status != TrialStatus.COMPLETED]
    groups = grouped((run.status or UNFINISHED, error_text(run)) for run in ended)
    missing = cell.repeats - len({run.repeat for run in attempts})
    endings = [Ending(status, len(messages), messages[0]) for status, messages in sorted(groups.items())]
    if missing > 0 and not cell.skip:
        endings.append(Ending(NOT_RUN, missing))
    return tuple(ending for ending in endings if not (cell.skip and ending.status == TrialStatus.SKIPPED))


def error_text(run: Run) -> str:
    """Return the error of a run in one line, such as `KeyError: 'x' (train.py:12)`; empty without one."""
    return error_line({**(run.error or {}), **({"type": None} if run.status == TrialStatus.SKIPPED else {})})


def _status(configurations: Sequence[Configuration], part: str, repeats: Iterable[str]) -> Status:
    endings: Counter[str] = Counter()
    runnable = [cell for cell in configurations if not cell.skip or cell.completed]
    for cell in runnable:
        endings.update({ending.status: ending.runs for ending in cell.endings})
    completed = sum(cell.completed for cell in runnable)
    return Status(completed + endings.total(), completed, dict(endings), part, tuple(repeats))


def _mfu(runs: Sequence[Run]) -> dict[str, Any]:
    used = [(run, run.utilization) for run in runs if run.utilization]
    share = cost_summary(tuple(Sample(run.repeat, math.log(use.mfu)) for run, use in used if use.mfu))
    if share is None or share.runs < len(runs):
        return {}
    least = min((utilization.basis for _, utilization in used), key=lambda basis: basis.peak)
    of_datasheet = [use.datasheet_mfu for _, use in used if use.datasheet_mfu]
    return {"mfu": Mfu(share, least, geometric_mean(of_datasheet) if len(of_datasheet) == len(used) else None)}


def _median(values: Iterable[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return median(present) if present else None
