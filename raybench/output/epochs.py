"""The epochs of a program, decided from its stamped lines and the clock in them.

    start-up | training … line N | evaluation … its last line | training … line N + 1 | … | the program's end

A line of the clock ends an epoch, or begins one. Lines about validation or test data that follow are the evaluation of
this epoch. Whether metrics are printed before or after the line of their epoch is seen at the first and the last one.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import groupby, pairwise
from math import floor, inf
from statistics import median
from typing import NamedTuple

from raybench.output.clock import Line, infer, line_of, lines_matched, lines_of, typical_step
from raybench.output.metrics import find_slots, header_in, values_at
from raybench.output.transcript import NUMBER, Kind, Transcript, numbers_in
from raybench.results.output_clock import OutputClock
from raybench.workloads.command import BEGIN, EPOCH, MARKS

NEAR_END, EXACT = 0.05, 0.1
"""Part of an epoch that may be left after its last line, and by which a counter may miss its end, as it is rounded."""

EVALUATED = frozenset({"val", "test"})  # parts of the data that are not trained on

_STEPS, _PERCENT = re.compile(r"(\d+)\s*/\s*(\d+)(?![\d/])"), re.compile(r"(\d+(?:\.\d+)?) ?(%)")


class State(StrEnum):
    """What a program does; the value is the section of its time."""

    SETUP = "setup"
    STARTUP = "startup"
    TRAINING = "train"
    EVALUATION = "evaluate"
    OTHER = "other"


@dataclass
class Printed:
    """An epoch: its end in nanoseconds, with evaluation, its metrics, and how many ended with the same reading."""

    end: int
    metrics: dict[str, float]
    together: int = 1


@dataclass
class Course:
    """The course of a run.

    Attributes:
        moments: from when on, in nanoseconds, the program does what.
        epochs: those that have ended.
        is_whole: whether the run is the only epoch, since no time of training is known.
        holds_evaluation: whether the time of epochs includes evaluations.
    """

    moments: list[tuple[int, State]]
    epochs: list[Printed] = field(default_factory=list)
    is_whole: bool = False
    holds_evaluation: bool = False


@dataclass
class _Unit:
    """Lines with one value of the counter, a position in epochs; when training has ended, and when evaluation has."""

    position: float
    lines: list[Line]
    trained: int = 0
    end: int = 0

    @property
    def first(self) -> Line:
        return self.lines[0]

    @property
    def last(self) -> Line:
        return self.lines[-1]


class _Progress(NamedTuple):
    """How many of the steps of an epoch a line says are done."""

    done: float
    total: float
    line: Line


class Output:
    """What a program has printed.

    Args:
        transcript: its lines; those that match the user's `EPOCH` end an epoch, with those that match `BEGIN` the
            training, or each epoch, begins.
        clock: of an earlier run; None to find it.
        ended: when the program ended; 0 if it runs.
    """

    def __init__(self, transcript: Transcript, clock: OutputClock | None = None, ended: int = 0) -> None:
        kinds = transcript.kinds
        headers = [names for kind in kinds if NUMBER not in kind.template and (names := header_in(kind.text(0)))][::-1]
        for kind in kinds:
            find_slots(kind, headers, transcript.patterns)
        users = [kind for name, kind in transcript.matched.items() if name not in MARKS and kind.at]
        self._begins = lines_matched(transcript.matched.get(BEGIN))
        is_listed, lines = EPOCH in transcript.matched, lines_matched(transcript.matched.get(EPOCH))
        if len(self._begins) > 1 and not is_listed:
            is_listed, lines, self._begins, clock = True, self._begins, [], OutputClock(BEGIN, begins=True)
        elif not is_listed and clock and clock.pattern:
            lines = lines_of(clock.pattern, kinds)
        is_new = not is_listed and not lines and (clock is None or (bool(clock.pattern) and ended > 0))
        self.clock = infer(kinds, headers) if is_new else clock or OutputClock()
        if is_new and self.clock.pattern:
            lines = lines_of(self.clock.pattern, kinds)
        groups = [[*group] for _, group in groupby(lines, lambda line: line.value)]
        self._stamped = list(dict.fromkeys(line.kind for line in lines))
        self._before, self._after = list[Kind](), list[Kind]()
        for kind in [*kinds, *users]:
            self._sort(kind, groups, kind in users)
        if is_new and groups:
            self.clock = replace(self.clock, begins=self._begin_epochs(groups, ended))
        size = 1.0 if is_listed else self.clock.step / typical_step([group[0].value for group in groups])
        is_listed = is_listed or self.clock.begins
        positions = [(n + 1) / size for n in range(len(groups))] if is_listed else _positions(groups, self.clock.step)
        self._units = [_Unit(position, group) for position, group in zip(positions, groups, strict=True)]

    def _sort(self, kind: Kind, groups: Sequence[Sequence[Line]], is_users: bool) -> None:
        """Find whether lines come before or after the line of their epoch; neither is known of a start-up's."""
        before = bisect_left(kind.places, groups[0][0].place) if groups else 0
        end = bisect_right(kind.places, groups[-1][-1].place) if groups else 0
        is_early, is_late = before > 0, end < len(kind.places)
        if kind in self._stamped or (end == before and not is_late and len(groups) > 1 and not is_users):
            return
        comes_after = is_late if is_early != is_late else kind.is_evaluation
        if is_early == is_late and not comes_after:
            ends, parts = [group[-1].place for group in groups], []
            for row in range(before, end):  # is the line of the clock before it nearer in time, or that after it?
                number = bisect_left(ends, kind.places[row])
                if 0 < number < len(groups) and kind.places[row] < groups[number][0].place:
                    length = groups[number][0].at - groups[number - 1][-1].at
                    parts.append((kind.at[row] - groups[number - 1][-1].at) / length if length > 0 else 1.0)
            comes_after = bool(parts) and median(parts) < 1 / 2
        (self._after if comes_after else self._before).append(kind)

    def _begin_epochs(self, groups: Sequence[Sequence[Line]], ended: int) -> bool:
        """Return whether lines of the clock begin epochs: they have no results, and what follows lasts until the next.

        If nothing follows, time for one more epoch is left after the last line.
        """
        rows = [numbers_in(group[0].text) for group in groups]
        if sum(len({*column}) > 1 for column in zip(*rows, strict=False)) > 1:
            return False
        if any(kind.slots for kind in self._stamped + self._before):
            return False
        steps = [kind for kind in self._before if kind.places[-1] < groups[-1][0].place]  # that do not follow the last
        parts, lengths = list[float](), list[int]()
        for group, following in pairwise(groups):
            bounds, length = (group[-1].place, following[0].place), max(1, following[0].at - group[-1].at)
            if any(following[0].at - line.at > NEAR_END * length for line in _between(steps, *bounds)):
                return False
            lengths.append(length)
            if lines := _between(self._after, *bounds):
                parts.append((lines[-1].at - group[-1].at) / length)
        rest = (ended - groups[-1][-1].at) / median(lengths or [1])
        return median(parts) > 1 / 2 if parts else 0.7 < rest < 1.5

    def course(self, started: int, ended: int, is_over: bool = True) -> Course:
        """The course of the run.

        Args:
            started, ended: when the program started, and when it ended or what it has printed is looked at.
            is_over: whether it has ended.
        """
        marks = [line.at for line in self._begins]
        if not self._units:
            moments = [(started, State.STARTUP), (marks[0] if marks else started, State.TRAINING)]
            return Course(moments, [Printed(ended, self._metrics(-1, -1))] if is_over else [], is_whole=not marks)
        holds = self._end_units(ended)
        begin = self._begin(started, marks)
        moments = [(started, State.STARTUP), (started if begin is None else begin, State.TRAINING)]
        course = Course(moments, is_whole=begin is None, holds_evaluation=holds)
        previous, taken = _Unit(0.0, [], moments[1][0], moments[1][0]), -1
        for number, unit in enumerate(self._units[: -1 if self.clock.begins and not is_over else None]):
            if unit.position <= EXACT:  # printed before the training
                previous, taken = unit, number
                continue
            since = next((at for at in marks if previous.end <= at < unit.trained), previous.end)
            course.moments += [(previous.end, State.OTHER), (since, State.TRAINING)]
            for boundary in range(floor(previous.position + EXACT) + 1, floor(unit.position + EXACT) + 1):
                is_exact = boundary >= unit.position - EXACT
                part = (boundary - previous.position) / (unit.position - previous.position)
                end = unit.end if is_exact else since + round(part * (unit.trained - since))
                latest = number if is_exact else number - 1
                together = course.epochs[-1].together + 1 if course.epochs and course.epochs[-1].end == end else 1
                course.epochs.append(Printed(end, self._metrics(taken, latest), together))
                taken = latest
            course.moments += [(unit.trained, State.EVALUATION), (unit.end, State.TRAINING)]
            previous = unit
        return course

    def rest(self, course: Course) -> Printed | None:
        """What the program has printed after its last whole epoch, with its end; None if nothing."""
        ended = course.epochs[-1].end if course.epochs else 0
        first = next((number for number, unit in enumerate(self._units) if unit.end > ended), None)
        return None if first is None else Printed(self._units[-1].end, self._metrics(first - 1, len(self._units) - 1))

    def _begin(self, started: int, marks: Sequence[int]) -> int | None:
        """When the training began; None if it is not known."""
        first = self._units[0]
        if early := [at for at in marks if at <= first.first.at]:
            return early[0]
        if self.clock.begins or first.position <= EXACT:
            return first.first.at if self.clock.begins else first.end
        leads = [(b.first.at - a.end) / (b.position - a.position) for a, b in pairwise(self._units)]
        return max(started, first.first.at - round(median(leads) * first.position)) if leads else None

    def _end_units(self, ended: int) -> bool:
        """Decide when the training of each unit ended, and its evaluation; return whether most cannot be told apart."""
        begins, units, held, rests = self.clock.begins, self._units, 0, list[int]()
        began: int | None = None
        chosen = [
            kind
            for kind in self._after
            if (begins or kind.is_evaluation or (kind.slots and len(kind.at) <= len(units) + 1))
            and (len(units) == 1 or kind.places[0] < units[-1].last.place)  # not after all epochs
        ]
        for unit, after in zip(units, [*units[1:], None], strict=True):
            lines = unit.lines + _between(chosen, unit.first.place, after.first.place if after else inf)
            lines.sort(key=lambda line: line.place)
            unit.end = lines[-1].at
            if begins and after:
                rests.append(after.first.at - unit.end)
                unit.end = after.first.at
            elif begins:
                unit.end = min(ended, unit.end + round(median(rests))) if rests else ended
            trained = _training_end(lines, began)
            held += trained is None and any(not EVALUATED.isdisjoint(line.kind.parts) for line in lines)
            unit.trained = unit.end if trained is None else trained
            began = unit.end
        return 2 * held > len(units)

    def _metrics(self, before: int, latest: int) -> dict[str, float]:
        """The metrics of the units after one and up to another one; without units, of all lines."""
        units, begin, first, end, until = self._units, -1, -1, inf, inf
        if units:
            begin, first = units[before].last.place if before >= 0 else -1, units[before + 1].first.place
            end, until = units[latest].last.place, units[latest + 1].first.place if latest + 1 < len(units) else inf
        ranges = [(self._stamped, begin + 1, end + 1), (self._before, begin + 1, end + 1), (self._after, first, until)]
        lines = []
        for kinds, low, high in ranges:
            low, high = (first, until) if self.clock.begins else (low, high)
            for kind in (kind for kind in kinds if kind.slots):
                row, lowest = bisect_left(kind.places, high) - 1, bisect_left(kind.places, low)
                usual = _STEPS.search(kind.text(0)) if until == inf and lowest > 0 else None
                while usual and row >= lowest and (steps := _STEPS.search(kind.text(row))) and steps[2] != usual[2]:
                    row -= 1  # after the training a test of other data prints the same
                lines += [line_of(kind, row)] if row >= lowest else []
        metrics = dict[str, float]()
        for line in sorted(lines, key=lambda line: line.place):
            metrics |= values_at(line.kind.slots or (), line.text)
        return metrics


def _between(kinds: Iterable[Kind], begin: float, end: float) -> list[Line]:
    rows = ((kind, range(bisect_right(kind.places, begin), bisect_left(kind.places, end))) for kind in kinds)
    return sorted((line_of(kind, row) for kind, rows_ in rows for row in rows_), key=lambda line: line.place)


def _training_end(lines: Sequence[Line], began: int | None) -> int | None:
    """When the last step was done: by the progress in lines of an epoch, or by the last line before an evaluation.

    Args:
        lines: of an epoch and its evaluation.
        began: when it began; None if that is not known.
    """
    evaluates = any(not EVALUATED.isdisjoint(line.kind.parts) for line in lines)
    steps, is_midway = [line for line in lines if not line.kind.is_evaluation], False
    matches = ((_STEPS.search(_after_counter(line)), line) for line in steps if len(lines) > 1)
    progress = [_Progress(float(match[1]), float(match[2]), line) for match, line in matches if match]
    if progress:
        latest = progress[-1]
        alike = [entry for entry in progress if entry.total == latest.total]
        most = latest.total - (alike[0].done == 0)
        if complete := next((entry for entry in alike if entry.done >= most), None):
            return complete.line.at
        is_last = latest.line is steps[-1]
        # What is left after the last line depends on how often steps are logged, so it is counted at their pace.
        first, first_at = alike[0].done, alike[0].line.at
        if first == latest.done:
            first, first_at = 0.0, began or 0
        is_known = first > 0 or alike[0].done == 0 or (began is not None and 2 * latest.done > latest.total)
        following = next((line for line in lines if line.place > latest.line.place), None)
        if evaluates and is_last and following and is_known and latest.done > first:
            pace = (latest.line.at - first_at) / (latest.done - first)
            return min(following.at, latest.line.at + round((most - latest.done) * pace))
        if latest.done >= (1 - NEAR_END) * latest.total:
            return latest.line.at
        is_midway = is_last and latest.line.start >= 0
    for line in steps if len(lines) > 1 else ():  # a percentage may be an accuracy
        if (percent := _PERCENT.search(_after_counter(line))) and float(percent[1]) >= 100 * (1 - NEAR_END):
            return line.at
    last = steps[-1] if steps else lines[-1]
    is_single = Counter(line.kind for line in steps)[last.kind] == 1 and not is_midway
    is_before = evaluates and is_single and EVALUATED.isdisjoint(last.kind.parts) and last is not lines[-1]
    return last.at if is_before else None


def _after_counter(line: Line) -> str:
    return line.text if line.start < 0 else line.text[line.start :].lstrip("0123456789 /")


def _positions(groups: Sequence[Sequence[Line]], size: float) -> list[float]:
    """The values of a counter in epochs of a size since the training began."""
    values = [group[0].value for group in groups[:1]]
    for (before, *_), (after, *_) in pairwise(groups):
        values.append(values[-1] + (after.value - before.value if after.value > before.value else size))
    if not values:
        return []
    line, step, first = groups[0][0], typical_step(values), values[0]
    base = first - step
    is_other = len(groups) > 1 and groups[1][-1].kind is not line.kind
    is_start = is_other and numbers_in(line.text[line.start :])[1:2] == [f"{values[-1]:g}"]  # from 0/5 to 5/5
    if first < step / 2 and (step != 1 or is_start):  # the line came before the first steps
        base = first - (first - Counter(value % step for value in values).most_common(1)[0][0]) % step
    return [(value - base) / size for value in values]
