"""Cautions and notes about an answer, and whether they could change it."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, cycle
from statistics import fmean
from string import ascii_lowercase

from raybench.analysis.answer import (
    LARGE_DIFFERENCE,
    Answer,
    Best,
    Caution,
    Configuration,
    Criterion,
    Effect,
    Ratio,
    Trust,
    TrustLevel,
)
from raybench.analysis.changed_values import changed_values
from raybench.analysis.findings.finding import Finding, View, concerning, kinds
from raybench.analysis.machines import machine_cautions, session_cautions
from raybench.analysis.matching import Matching
from raybench.analysis.measured import Measured
from raybench.analysis.work import seconds_per_unit
from raybench.core.cell import VERSION_AXIS
from raybench.core.labels import configuration_label
from raybench.core.settings import PARAM
from raybench.core.text import join_words, names_text

LARGE_CHANGE = 1.1  # factor by which a ratio may be wrong without a mark

DECIDED_BY = {"quality": {Criterion.QUALITY, Criterion.FIRST_TO_TARGET}, "energy": {Criterion.LEAST_ENERGY}}
"""Criteria of the best that a caution about the quality or the energy could change."""

_FOLLOWS_DEVICE = re.compile(
    r"file .*|commit|python|raybench|ray|host\.name|workload\..*|engine\..*|device\.(?!replicas|threads).*"
)
"""Names of what a different device implies, or what does not affect a steady epoch."""


def trust_of_warnings(warnings: Iterable[str]) -> Trust:
    """Return warnings, such as of failed checks, as cautions."""
    cautions = tuple(Caution("warning", text.rstrip(".")) for text in warnings)
    return Trust(TrustLevel.CAUTIONS if cautions else TrustLevel.CLEAR, cautions)


def with_trust(view: View, warnings: Iterable[str]) -> Answer:
    """Return the answer with its cautions and notes, and the marks of the cautions at its parts."""
    answer, measured, matching = view.answer, view.measured, view.matching
    compares_devices = len({str(cell.axes.get("device")) for cell in measured if cell.completed}) > 1
    shifts = [_shifts(cell, view.findings, compares_devices) for cell in measured]
    statements, rows = list(_statements(answer, matching)), answer.configurations
    marked: list[tuple[Caution, set[int]]] = []  # with the ids of the parts of the answer that they mark
    notes: list[Caution] = []
    # A configuration that is compared with nothing has its time alone, which any caution could change.
    compared = [(cell.index, cell.reference) for cell in answer.configurations if cell.ratio]
    uncompared = {cell.index for cell in measured}.difference(*compared)
    for code in dict.fromkeys(code for shift in shifts for code in shift):
        concerned = [cell for cell in answer.configurations if code in shifts[cell.index]]
        doubts = [(statement, statement.doubt(code, shifts)) for statement in statements]
        changed = [statement.part for statement, doubt in doubts if doubt]
        caution = _caution(code, view)
        if not changed and uncompared.isdisjoint(caution.configurations):
            notes.append(caution)
            continue
        turns = any(doubt == 2 and isinstance(statement.part, Best) for statement, doubt in doubts)
        # A ratio to a reference is concerned by its cautions, too.
        marked.append((replace(caution, could_change_best=turns), {id(part) for part in (*concerned, *changed)}))
    further = trust_of_warnings(warnings).cautions
    criteria = {criterion for best in answer.best for criterion in best.ratios}
    words = {id(best): view.words(best.configuration, best.other) for best in answer.best if best.other is not None}
    for caution in (*further, *_of_grid(view), *view.cautions(), *_notes(view)):
        about, decides = _about(caution.code), bool(criteria & DECIDED_BY.get(_about(caution.code), set()))
        if about == "quality" or (about == "energy" and decides):
            turns = caution.could_change_best or (decides and caution.code in kinds())
            caution = replace(caution, could_change_best=turns)
        elif not caution.could_change_best and about != "machines":
            notes.append(caution)
            continue
        # What concerns both sides of a comparison alike needs no mark.
        parts = {
            id(statement.part)
            for statement in statements
            if any(statement.ratios)
            and any(
                None not in pair and _concerns(caution, [rows[index or 0] for index in pair])
                for pair in statement.pairs
            )
        }
        marked.append((caution, parts))
    cautions: list[Caution] = []
    marks: dict[int, tuple[str, ...]] = {}
    for (caution, parts), letter in zip(marked, cycle(ascii_lowercase), strict=False):
        cautions.append(replace(caution, mark=letter if parts else ""))
        marks |= {part: (*marks.get(part, ()), letter) for part in parts}
    level = TrustLevel.CAUTIONS if any(words.values()) else TrustLevel.CLEAR
    if cautions:
        is_open = any(best.is_open for best in answer.best if best.other is not None)
        concerns_times = any(_about(caution.code) == "times" for caution in cautions)
        is_doubtful = (is_open and concerns_times) or any(caution.could_change_best for caution in cautions)
        level = TrustLevel.DOUBTFUL if is_doubtful else TrustLevel.CAUTIONS
    return replace(
        answer,
        configurations=tuple(replace(cell, cautions=marks.get(id(cell), ())) for cell in answer.configurations),
        best=tuple(
            replace(best, cautions=marks.get(id(best), ()), words=words.get(id(best), ())) for best in answer.best
        ),
        effects=tuple(replace(effect, cautions=marks.get(id(effect), ())) for effect in answer.effects),
        trust=Trust(level, tuple(cautions), tuple(notes)),
    )


def _concerns(caution: Caution, pair: Sequence[Configuration]) -> bool:
    cell, reference = pair
    if caution.axes:
        return any(cell.axes.get(axis) != reference.axes.get(axis) for axis in caution.axes)
    return (cell.index in caution.configurations) != (reference.index in caution.configurations)


def _about(code: str) -> str:
    """Return what a caution may make wrong: times, those of machines alone, the quality or the energy."""
    if code in kinds():
        return kinds()[code].about
    if code in ("slow_machine", "sessions_differ"):
        return "machines"
    return "quality" if code in ("metric_missing", "metric_not_a_number") else "times"


_Shifts = Sequence[Mapping[str, float]]
"""By configuration and code: how much its log time may be too long; infinite if not known."""


def _shifts(cell: Measured, findings: Mapping[int, Sequence[Finding]], compares_devices: bool) -> Mapping[str, float]:
    """Return by how much cautions may have changed the mean log time of a configuration."""
    shifts: dict[str, float] = {}
    for finding in (finding for run in cell.completed for finding in findings[id(run)]):
        kind = kinds()[finding.code]
        if kind.caution and kind.about == "times" and (compares_devices or not kind.of_hardware):
            long = math.inf if finding.too_long is None else math.log1p(finding.too_long) / len(cell.completed)
            shifts[finding.code] = shifts.get(finding.code, 0.0) + long
    return shifts


@dataclass(frozen=True)
class _Statement:
    """A part of an answer, with its ratios over matched pairs of configurations."""

    part: Configuration | Best | Effect
    ratios: Sequence[Ratio | None]
    pairs: Sequence[tuple[int, int | None]]

    def doubt(self, code: str, shifts: _Shifts) -> int:
        """Return 2 if a caution could change the verdict on a ratio, 1 if its size by `LARGE_CHANGE`, else 0."""
        sides = zip(*self.pairs, strict=True)
        of_sides = [[0.0 if index is None else shifts[index].get(code, 0.0) for index in side] for side in sides]
        # Its estimates for each side alone: those of both may not be wrong alike.
        errors = [sign * fmean(side) for sign, side in zip((1, -1), of_sides, strict=False)]
        ratios = [ratio for ratio in self.ratios if ratio]
        if any(_verdict(ratio, error) != _verdict(ratio) for ratio in ratios for error in errors):
            return 2
        return int(bool(ratios) and max(map(abs, errors), default=0.0) > math.log(LARGE_CHANGE))


def _statements(answer: Answer, matching: Matching) -> Iterator[_Statement]:
    for cell in answer.configurations:
        yield _Statement(cell, [cell.ratio], [(cell.index, cell.reference)])
    for best in answer.best:
        # By how much a different speed changes the quality at a budget is not known: any large change could.
        ratios = [Ratio(1.0)] if Criterion.QUALITY in best.ratios else list(best.ratios.values())
        yield _Statement(best, ratios, [(best.configuration, best.other)])
    for effect in answer.effects:
        ratio = effect.speed
        if ratio is None and effect.least and effect.most:  # the range of an effect without a mean
            ratio = Ratio(math.sqrt(effect.least * effect.most), effect.least, effect.most)
        yield _Statement(effect, [ratio], matching.sets(effect.axis, effect.value, effect.other))


def _verdict(ratio: Ratio, shift: float = 0.0) -> int:
    """Return 1 if a ratio is above 1, −1 if below, and 0 if that is not known, after a shift of its log."""
    if math.isinf(shift):
        return 2
    factor = math.exp(shift)
    low, high = ratio.low, ratio.high
    if low is None or high is None:
        low, high = ratio.value / LARGE_DIFFERENCE, ratio.value * LARGE_DIFFERENCE
    return int(low * factor > 1) - int(high * factor < 1)


def _caution(code: str, view: View) -> Caution:
    """Return a kind of finding, described by its worst run."""
    by_run = [[finding for finding in view.findings[id(run)] if finding.code == code] for _, run in view.runs]
    concerned = [index for (index, _), findings in zip(view.runs, by_run, strict=True) if findings]
    worst = max(chain.from_iterable(by_run), key=lambda finding: finding.degree)
    text = worst.text.replace("the run", "the worst run", 1) if len(concerned) > 1 else worst.text
    indices = tuple(dict.fromkeys(concerned))
    return Caution(code, text, worst.remedy, "", len(concerned), len(view.runs), indices, too_long=worst.too_long)


def _notes(view: View) -> Iterator[Caution]:
    """Yield findings that change no time, warnings of runs, and reasons why energy was not measured."""
    runs = [run for _, run in view.runs]
    for code in dict.fromkeys(finding.code for run in runs for finding in view.findings[id(run)]):
        if not kinds()[code].caution or kinds()[code].about != "times":
            yield _caution(code, view)
    attempts = [run for cell in view.measured for run in cell.attempts]
    missing = [("metric_missing", text) for run in attempts for text in run.unmatched]
    warnings = Counter([*missing, *(("warning", text) for run in attempts for text in run.warnings)])
    for (code, text), count in warnings.items():
        yield Caution(code, text.rstrip("."), runs=count, of_runs=len(attempts))
    without = [run for run in runs if run.energy_j is None]
    if without and any(cell.energies for cell in view.measured):
        reasons = [reason for run in without for reason in run.unmetered]
        why = f": {max(set(reasons), key=reasons.count)}" if reasons else ""
        yield Caution("energy_missing", f"energy was not measured{why}", runs=len(without), of_runs=len(runs))


def _of_grid(view: View) -> Iterator[Caution]:
    """Yield cautions and notes that follow from several configurations."""
    answer, measured, matching = view.answer, view.measured, view.matching
    rows, unit, timed, runs = view.rows, answer.unit, view.timed, view.runs
    single = [cell.index for cell in timed if len(cell.times) == 1]
    if single and len(timed) > 1:
        every = "one run each" if len(single) == len(timed) else f"one run of {view.names(single)}"
        is_asked = all(rows[index].planned > 1 for index in single)
        remedy = "run what is missing" if is_asked else "run each at least three times (`repeats: 3`)"
        yield concerning(single, f"comparisons with {every} have no interval and may be chance", remedy, code="one_run")
    if matching.replaced:
        names = [configuration_label(values, values) for values in (matching.replaced, matching.baseline)]
        yield Caution(
            "baseline_replaced", f"the baseline {names[0]} has no time that can be compared; {names[1]} replaces it"
        )
    untimed = [(index, run) for index, run in runs if timed and run.epochs and not seconds_per_unit(run, unit)]
    unknown = "the work of their epochs is unknown, and that of others known"
    for why, remedy in (
        (unknown, f"count `{unit.counted or 'examples'}` in every run"),
        ("no time above 0 s is known of them", ""),
    ):
        if indices := [index for index, run in untimed if bool(run.steady_s) == (why is unknown)]:
            text = f"runs of {view.names(indices)} are not compared, since {why}"
            yield replace(concerning(indices, text, remedy, code="not_compared"), runs=len(indices), of_runs=len(runs))
    if warm := [index for index, run in runs if run.is_timed_by_warmup]:
        text = "the times are of warm-up epochs, because there is no later one"
        remedy = "train for longer, so that epochs follow the warm-up"
        yield concerning(warm, text, remedy, len(timed) > 1, "only_warmup")
    ends = ((index, name, value) for index, run in runs for name, value in run.last_metrics.items())
    if lost := [(index, name) for index, name, value in ends if not math.isfinite(value)]:
        metrics = join_words(sorted({name for _, name in lost}))
        text = f"the last {metrics} of a run is not a number, and does not count"
        decides = any(Criterion.QUALITY in best.ratios for best in answer.best)
        yield concerning((index for index, _ in lost), text, "", decides, "metric_not_a_number")
    equal = [q for best in answer.best if (q := best.quality) and q.is_equal and not q.is_significant]
    if few := min((min(difference.runs, difference.other_runs) for difference in equal), default=0):
        # Of a larger fraction of runs, at least one would have been seen in 95% of cases.
        unseen = f"up to {100 * (1 - 0.05 ** (1 / few)):.0f}% of runs"
        text = f"{few} runs each are too few to see rare failures of training: they could be {unseen}"
        yield Caution("few_runs", text)
    yield from _other_conditions(rows, measured)
    yield from machine_cautions(answer.machine_speeds)
    yield from session_cautions(measured)


def _other_conditions(rows: Sequence[Configuration], measured: Sequence[Measured]) -> Iterator[Caution]:
    """Yield settings, software, machines and data in which a configuration differs from its reference."""
    differences: dict[tuple[str, ...], list[int]] = {}
    settings: set[str] = set()
    for row in (row for row in rows if row.reference is not None and not row.is_reference):
        texts = []
        for change in changed_values(measured[row.reference or 0].completed, measured[row.index].completed):
            is_varied = row.axes.keys() & {change.name, *change.name.split(".")}
            if change.base and change.new and not is_varied and not _FOLLOWS_DEVICE.fullmatch(change.name):
                name = change.name if change.name.isupper() else change.name.rpartition(".")[2].replace("_", " ")
                texts.append(f"{name} {', '.join(change.new)} instead of {', '.join(change.base)}")
                if change.name.startswith(("settings.", PARAM)):
                    settings.add(texts[-1])
        if texts:
            differences.setdefault(tuple(texts), []).append(row.index)
    for changes, indices in differences.items():
        one = len(indices) == 1
        who = (
            f"configuration {rows[indices[0]].label} also differs"
            if one
            else f"{len(indices)} configurations also differ"
        )
        text = f"{who} from {'its reference' if one else 'their references'} in {names_text(changes)}"
        # Settings of training, and this variable, can change a time by a multiple.
        decides = any(text in settings or text.startswith("OMP_WAIT_POLICY") for text in changes)
        is_change = VERSION_AXIS in rows[indices[0]].axes  # of two versions it is part of what is compared
        remedy = "run all with one value" if decides and not is_change else ""
        yield concerning(indices, text, remedy, decides, "other_conditions")
