"""The log of a program, read as the output of a command that raybench runs is, by the times in its lines.

Its own clock of training counts first (`train_time:1230ms`), then the times of its steps (`dt: 90.1ms`), a total in
minutes, the times of the progress bars of Keras and tqdm, the date and time at the beginning of lines, the
`train_runtime` of Transformers, and a time that is printed once for the whole training. Without any of them only its
metrics are known.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import accumulate, pairwise
from pathlib import Path
from statistics import median
from typing import Any

from raybench.core.ledger import NANO
from raybench.core.status import TrialStatus
from raybench.core.text import cut
from raybench.errors import Problem
from raybench.output.epochs import Course, Output, State
from raybench.output.transcript import Transcript
from raybench.results.epoch import UNITS
from raybench.results.output_clock import OutputClock
from raybench.sources.durations import AMOUNTS, NUMBER, UNITS_S, are_elapsed, duration_s
from raybench.sources.rows import NoLog, Table, part_taken

_AMOUNT = rf"(?P<amount>(?:\d:)?\d?\d:\d\d(?![\d:])|{AMOUNTS})"
_SECONDS_ALONE = rf"(?P<bare>{NUMBER})(?![\w.:/%]| ?[um]?s\b| ?[mh]\w*)"
_NAMES = (
    r"(?:train(?:ing)?_time|total[ _](?:training[ _])?time|(?:time_)?elapsed(?:[ _]time)?|\btotal(?=: *\d\S* ?[a-z]))"
    r"[:=\s|]+"
)
_TOTAL = re.compile(rf"{_NAMES}(?:(?P<amount>{NUMBER} ?(?:ms|s|sec|seconds))(?![\w.])|{_SECONDS_ALONE})", re.IGNORECASE)
_COARSE = re.compile(rf"{_NAMES}{_AMOUNT}|{_AMOUNT.replace('amount', 'before')}elapsed", re.IGNORECASE)
_STEP = re.compile(
    rf"(?:(?:\bdt|(?:step|iter|epoch)[ _]time|\btime)[:=\s]+|\|\s*(?={NUMBER} ?m?s(?![\w.]))){_AMOUNT}", re.IGNORECASE
)
_TOOK = re.compile(
    rf"(?:\bepoch\b|^\W*\d+/\d+\b).*?"
    rf"(?:\bduration[:=] ?{_SECONDS_ALONE}|(?:\b(?:took|in|duration)[:= ]+|\(){_AMOUNT}(?![\w.:%/]))",
    re.IGNORECASE,
)
"""Of an epoch, in the line that ends it: `took 12.3s`, `(12.3 s)`, `done in 12.3 seconds`, `duration=12.3`."""
_MEGATRON = re.compile(rf"elapsed time per iteration \((?P<unit>ms|s)\): *(?P<bare>{NUMBER})")
# Of detectron2 and of PyTorch's ImageNet example, in seconds.
_BARE = re.compile(r"(?<![\w-])time:? +(?P<bare>\d+\.\d+)(?![\w.]| ?(?:ms|s|m|h)\w*\b)", re.IGNORECASE)
_TABLE = re.compile(r"^\s*\d+(?:\s+(?:\d+\.\d+|#na#|nan|None))+\s+(?P<amount>(?:\d+:)?\d\d:\d\d)\s*$")  # of fastai
_HEADER = re.compile(r"^\s*epoch\s.*\stime\s*$")
_ITERATIONS = re.compile(rf"(?P<per_s>{NUMBER}) ?(?:it|iters?|iterations?|steps?|batch(?:es)?)/s", re.IGNORECASE)
_ONCE = re.compile(
    rf"(?:\btraining (?:time|complete\w*|took|finished)|\bepochs? completed|^real)\W*(?:in )?\s*{_AMOUNT}",
    re.IGNORECASE,
)
_LIKE_A_TIME = re.compile(r"(?=.*(?:time|elapsed|took|duration|second|/s\b)).*\d", re.IGNORECASE)
_KERAS = re.compile(r"(?<!\d)(\d+)/\1\b.*?(?:\b(\d+)s\b.*?)?(?<![\d.])(\d+(?:\.\d+)?) ?(us|ms|s)/step")
_BAR = re.compile(r"epoch\D{0,3}(\d+).*?(?<!\d)(\d+)/\2 \[(?:(\d+):)?(\d+):(\d+)<", re.IGNORECASE)  # tqdm's, at its end
_ANY_BAR = re.compile(r"\| *(\d+)/(\d+) \[(?:(\d+):)?(\d+):(\d+)<")
_OF_EPOCH = re.compile(r"epoch\D{0,3}\d+\W+total time: (?P<amount>(?:\d+:)?\d+:\d\d)", re.IGNORECASE)  # torchvision's
_RUNTIME = re.compile(r"train_runtime['\"]?: ?['\"]?(\d+(?:\.\d+)?)")
_HEAD = re.compile(r"^\s*Epoch \d+/\d+")  # Keras's line before the progress bar
_PASSES = re.compile(r"['\"]epoch['\"]: ?['\"]?(\d+(?:\.\d+)?)")
_OF_EPOCHS = (_BAR, _ANY_BAR, _OF_EPOCH, _KERAS, _TOOK, _TABLE)  # by which also the first epoch begins at 0
_WITH_EVALUATION = {
    _KERAS: "Times are those of Keras's progress bars, which include validation",
    _BAR: "Times are those of progress bars, which include validation",
    _ANY_BAR: "Times are those of progress bars, which include validation",
    _ONCE: "Times are that of the whole training, spread evenly over its epochs",
    _RUNTIME: "Times are `train_runtime`, spread evenly over the epochs; it includes evaluations",
}
"""Sentences on clocks whose times include evaluation."""

_DATE = re.compile(r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)(?:[.,](\d+))?")
_COUNTS = (
    re.compile(r"(?:^|\W)(?:step|iter(?:ation)?)\W*(\d+)(?: */ *(\d+))?", re.IGNORECASE),
    re.compile(r"\[ *(\d+)/ *(\d+)"),  # of timm
)
"""How lines count their steps, and those of an epoch; the first that a line has."""
_EVALUATION = re.compile(r"(?:^|[^\w/.-])(?:val|valid|validation|test|eval|evaluation)(?![\w/-])", re.IGNORECASE)
"""In front of the counter of a line that counts the steps of an evaluation."""
_LLM_C = re.compile(r"^s:(\d+) (tel|trl|eval):")
_RATE = re.compile(r"speed/(\w+)_per_s")  # the name of a rate in the output of a program
_TRACEBACK = re.compile(r"^\S{0,12} ?Traceback \(most recent call last\):")
_COUNTED = re.compile(r"^\S{0,3}(?:epoch|step|iter)", re.IGNORECASE)  # not the indented code of a traceback
_BATCH = re.compile(r"global[_ ]batch[_ ]size\W{1,5}(\d+)", re.IGNORECASE)  # the examples of a step
OF_A_DEVICE = re.compile(r"\btps\b|/s(?:ec)?(?:ond)?/(?:gpu|device|chip|rank)", re.IGNORECASE)
"""Rates of one of several devices; torchtitan's `tps` is one."""
UNUSUAL = 3.0  # how many times as long as others a step is that holds something else
_LLM_C_NAMES = {"tel": "val loss", "trl": "train loss", "eval": "accuracy"}


def read(path: Path, clock: OutputClock | None = None) -> Table:
    """Read the log of one run.

    Args:
        clock: the lines that count the work in another log of the same program.

    Raises:
        NoLog: no line of it counts epochs or steps.
    """
    text = path.read_text(encoding="utf-8", errors="replace")
    lines = [
        _LLM_C.sub(lambda match: f"step: {match[1]} {_LLM_C_NAMES[match[2]]}: ", line)
        for line in re.split(r"\r\n|\r|\n", text)
    ]
    kind, times = _stamps(lines)
    first = {_RUNTIME: _PASSES, _KERAS: _HEAD, _BAR: _ANY_BAR, _TABLE: _HEADER}.get(kind, kind) if kind else None
    transcript, begin = Transcript({}), next((row for row, line in enumerate(lines) if first and first.search(line)), 0)
    for line, at_s in zip(lines[begin:], times[begin:], strict=True):  # what is before may be the program's own text
        transcript.add(1, f"{line}\n".encode(), round(at_s / NANO))
    ended = round(times[-1] / NANO) + 1
    output = Output(transcript, clock, ended)
    if clock and not output.course(0, ended).epochs[1:]:
        output = Output(transcript, None, ended)  # it is of another program
    course = output.course(0, ended)
    if course.is_whole and len(course.epochs) < 2:
        raise NoLog([Problem(str(path), len(lines), 1, "", "no line counts epochs or steps")])
    rest = output.rest(course)
    course.epochs += [rest] if rest else []
    names = dict.fromkeys(name for epoch in course.epochs for name in epoch.metrics)
    columns = {
        name: [epoch.metrics.get(name) for epoch in course.epochs] for name in names if not name.startswith("speed")
    }
    columns["epoch"] = list(range(1, len(course.epochs) + 1))
    if rest:
        columns["partial"] = [epoch is rest for epoch in course.epochs]
    # Other clocks leave evaluations out, or have them in the times of epochs.
    states = [State.TRAINING] if kind in (_DATE, _BARE) else [*State]
    seconds = list(_seconds(course, *states, begin=0 if kind in _OF_EPOCHS else None)) if kind else []
    if kind is not None:
        columns["train_s"] = [*seconds]
    if kind is _DATE:
        columns["evaluate_s"] = [*_seconds(course, State.EVALUATION)]
    amounts: dict[str, list[float]] = {}
    for name in names if kind else ():
        rates = [epoch.metrics.get(name, 0.0) for epoch in course.epochs]
        if (match := _RATE.fullmatch(name)) and all(rates):
            amounts[f"{UNITS}{match[1]}"] = [rate * s for rate, s in zip(rates, seconds, strict=True)]
    batches = {*_BATCH.findall(text)}
    if kind and len(batches) == 1 and output.clock.label in ("step", "iter", "iteration"):
        amounts["examples"] = [int(batches.pop()) * output.clock.step] * len(course.epochs)
    values: dict[str, Any] = {"status": TrialStatus.FAILED} if _is_crashed(lines, kind) else {}
    if kind is _DATE:
        values["wall_s"] = round(times[-1], 6)
    total = next(filter(None, map(_ONCE.search, reversed(lines))), None) if kind is None and not rest else None
    if total:
        kind, columns["train_s"] = _ONCE, [_value(total) / len(course.epochs)] * len(course.epochs)
    said = [_WITH_EVALUATION[kind]] if kind in _WITH_EVALUATION else []
    if kind is None and (unread := next(filter(_LIKE_A_TIME.match, lines), "")):
        said = [f"No times were read from lines such as `{cut(re.sub(NUMBER, 'N', unread.strip()))}`"]
    warning = ". ".join([*said, *(note for name in columns for note in part_taken(name, text, columns))])
    clock = output.clock if output.clock.pattern else None
    return Table(path, columns, text, values, output_clock=clock, warning=warning, amounts=amounts)


def _is_crashed(lines: Sequence[str], kind: re.Pattern[str] | None) -> bool:
    """Return whether an exception ended the program: after its traceback no line of training follows."""
    for row in range(len(lines) - 1, -1, -1):
        if (kind or _COUNTED).search(lines[row]):
            return False
        if _TRACEBACK.search(lines[row]):
            return not (row and lines[row - 1].startswith("Exception ignored"))
    return False


Matches = Sequence[re.Match[str] | None]  # of one clock in each line


def _value(match: re.Match[str]) -> float:
    """The seconds in a match of a clock."""
    groups = {name: text for name, text in match.groupdict().items() if text}
    if "per_s" in groups:
        return 1 / (float(groups["per_s"]) or math.inf)
    if "bare" in groups:
        return float(groups["bare"]) * UNITS_S[groups.get("unit", "s")]
    return duration_s(groups.get("amount") or groups["before"]) or 0.0


def _totals(lines: Sequence[str], matches: Matches) -> Iterator[float]:
    """Yield the time at each line, by times since training began; those of a name that fall are of an epoch each."""
    values = [_value(match) for match in matches if match]
    growth = [after - before for before, after in pairwise(values) if after != before]
    if 4 * sum(change < 0 for change in growth) >= len(growth):
        return _steps(lines, matches)
    return accumulate((_value(match) if match else 0.0 for match in matches), max)


def _steps(lines: Sequence[str], matches: Matches) -> Iterator[float]:
    """Yield the time at each line, by the time of one of the steps since the line before.

    An evaluation, or the first compilation, is in the time of one step alone. The steps of an epoch after its last
    logged one took as long as this one.
    """
    timed: list[tuple[int, float, int | None, int | None]] = []  # place, seconds, count, and counts of an epoch
    for place, (line, match) in enumerate(zip(lines, matches, strict=True)):
        counter = match and next(filter(None, (pattern.search(line) for pattern in _COUNTS)), None)
        number, total = (int(text) if text else None for text in (counter.groups() if counter else (None, None)))
        is_of_a_different_process = counter and counter.re is _COUNTS[0] and timed and number == timed[-1][2]
        if match and not (counter and (is_of_a_different_process or _EVALUATION.search(line[: counter.start(1)]))):
            timed.append((place, _value(match), number, total))
    if are_elapsed([value for _, value, *_ in timed]):
        yield from _totals(lines, matches)
        return
    usual_s, added = median(value for _, value, *_ in timed), [0.0] * (len(lines) + 1)
    counts = [number for *_, number, _ in timed if number is not None]
    has_epochs, is_from_zero = any(after < before for before, after in pairwise(counts)), 0 in counts
    before: tuple[int, float, int | None, int | None] = (-1, 0.0, None, None)
    for place, value, number, total in [*timed, (len(lines), usual_s, -1, None)]:
        last, count, of_epoch = before[0], before[2], before[3]
        is_next_epoch = has_epochs and number is not None and (count is None or number < count)
        if is_next_epoch and count is not None and of_epoch:
            added[last + 1] += max(0, of_epoch - is_from_zero - count) * before[1]
        steps = (number or 0) - count if number is not None and count is not None else 1
        steps = max(1, (number or 0) + is_from_zero if is_next_epoch else steps)
        added[place] += value + (steps - 1) * (usual_s if value > UNUSUAL * usual_s else value)
        before = place, value, number, total
    yield from accumulate(added[: len(lines)])


def _keras(lines: Sequence[str], matches: Matches) -> Iterator[float]:
    """Yield the time at each line, by that of each epoch: of steps or in all, of which both are rounded.

    The last bar of an epoch counts: a complete one is printed before its validation, too.
    """
    at_s, began_s, has_heads = 0.0, 0.0, any(map(_HEAD.match, lines))
    for line, match in zip(lines, matches, strict=True):
        if match:
            is_total = match[4] == "s" and match[2] and int(match[2]) > float(match[3])
            seconds = int(match[2]) if is_total else int(match[1]) * float(match[3]) * UNITS_S[match[4]]
            at_s = began_s + seconds
        if (match and not has_heads) or _HEAD.match(line):
            began_s = at_s
        yield at_s


def _bars(lines: Sequence[str], matches: Matches) -> Iterator[float]:
    """Yield the time at each line, by that since an epoch, or a bar, began."""
    at_s, began_s, before = 0.0, 0.0, ("", "", 0)
    for match in matches:
        if match:
            seconds = 3600 * int(match[3] or 0) + 60 * int(match[4]) + int(match[5])
            count, total, before_s = before
            is_next = match[1] != count
            if match.re is _ANY_BAR:  # its count grows, and it may be shown twice when it is complete
                is_again = match[1] == count == total and seconds != before_s
                is_next = match[2] != total or int(match[1]) < int(count) or is_again
            began_s, before = at_s if is_next else began_s, (match[1], match[2], seconds)
            at_s = max(at_s, began_s + seconds)
        yield at_s


def _dates(lines: Sequence[str], matches: Matches) -> Iterator[float]:
    """Yield the time at each line, since the first one with a date."""
    at_s, begin = 0.0, math.nan
    for match in matches:
        if match:
            moment = datetime.fromisoformat(match[1]).timestamp() + float(f"0.{match[2] or 0}")
            begin = moment if math.isnan(begin) else begin
            at_s = moment - begin
        yield at_s


Times = Callable[[Sequence[str], Matches], Iterator[float]]
_CLOCKS: Mapping[re.Pattern[str], Times] = {
    _TOTAL: _totals,
    _OF_EPOCH: _steps,
    _STEP: _steps,
    _TOOK: _steps,
    _MEGATRON: _steps,
    _COARSE: _totals,
    _KERAS: _keras,
    _BAR: _bars,
    _DATE: _dates,
    _BARE: _steps,
    _TABLE: _steps,
}
"""How times are computed from the lines of each clock, in order of preference."""


def _stamps(lines: list[str]) -> tuple[re.Pattern[str] | None, list[float]]:
    """Return what the times of lines are from, and those of all lines; without any, a line takes a second."""
    if clock := _clock(lines, _CLOCKS):
        return clock
    passes = [float(match[1]) if (match := _PASSES.search(line)) else 0.0 for line in lines]
    if (total := next(filter(None, map(_RUNTIME.search, lines)), None)) and max(passes) > 0:
        first, second = [*sorted({number for number in passes if number > 0}), math.inf][:2]
        begin = max(0.0, 2 * first - second)  # of a run that was resumed
        parts = (max(0.0, reached - begin) / (max(passes) - begin) for reached in accumulate(passes, max))
        return _RUNTIME, [float(total[1]) * part for part in parts]
    return _clock(lines, {_ANY_BAR: _bars, _ITERATIONS: _steps}) or (
        None,
        [float(number) for number in range(len(lines))],
    )


def _clock(lines: Sequence[str], clocks: Mapping[re.Pattern[str], Times]) -> tuple[re.Pattern[str], list[float]] | None:
    """Return the first clock that two lines have, with the times of all lines."""
    for kind, times_of in clocks.items():
        matches = [kind.search(line) for line in lines]
        if sum(map(bool, matches)) > 1 and (times := list(times_of(lines, matches)))[-1] > 0:
            return kind, times
    return None


def _seconds(course: Course, *states: State, begin: int | None = None) -> Iterator[float]:
    """Yield the seconds that the program was in some states in each epoch, the first of which may have a begin."""
    began = next(at for at, state in course.moments if state is State.TRAINING) if begin is None else begin
    ends = [began, *(epoch.end for epoch in course.epochs)]
    moments = [*course.moments, (ends[-1], State.OTHER)]
    for start, end in pairwise(ends):
        parts = (
            min(end, until) - max(start, at)
            for (at, state), (until, _) in pairwise(moments)
            if state in states and at < end and until > start
        )
        yield round(sum(parts) * NANO, 6)
