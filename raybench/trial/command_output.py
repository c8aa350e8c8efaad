"""Epochs and metrics in the output of the user's own command."""

from __future__ import annotations

import codecs
import math
import re
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from raybench.trial.known_output import MAX_METRIC_CHARS, KnownOutput, metrics_in
from raybench.workloads.command import BEGIN, EPOCH, EPOCH_BEGINS, MARKS, Command, arithmetic

MAX_LINE_CHARS = 1 << 16
"""Length after which an unfinished line counts as one."""

MAX_QUOTED_CHARS = 100
"""Length of the part of the nearest line that is quoted."""

PREFIX = 3
"""Letters in which two words agree that are taken for the same, such as acc and accuracy."""

KEPT_LINES = 200
"""The last lines, of which one is quoted if a pattern matches none."""

_ENDS = re.compile(r"[\r\n\b]")
_COLORS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_ESCAPES = re.compile(r"\\.|\(\?P?<?\w*>?")


EPOCH_AGAIN = "epoch_again"
"""The mark of a further line with the number of the last epoch, in known output: the epoch ends with its last line."""


class OutputError(Exception):
    """The output is not what the patterns need."""


class Lines:
    """The lines of one stream. A carriage return and a backspace end one too, and invalid UTF-8 is replaced."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def feed(self, chunk: bytes, last: bool = False) -> list[str]:
        """The lines that a part of the stream completes."""
        *lines, rest = _ENDS.split(self._decoder.decode(chunk, last))
        if lines:
            lines[0], self._rest = self._rest + lines[0], rest
        else:
            self._rest += rest
        if last or len(self._rest) > MAX_LINE_CHARS:
            lines, self._rest = [*lines, self._rest], ""
        return [clean for line in lines if (clean := _COLORS.sub("", line))]


class Metrics:
    """The metrics of a command, from the lines of its output.

    Attributes:
        current: the metrics since the last epoch ended.
        number: the number of epochs that have ended.
        matched: by the name of a metric or a mark, the beginning of the first line that it matched.
    """

    def __init__(self, command: Command, values: Mapping[str, Any]) -> None:
        self._command, self._time = command, command.time
        patterns = {unit: text for unit, text in command.work.items() if arithmetic(text) is None}
        self._work = {
            unit: _number(unit, arithmetic(text, values), text)
            for unit, text in command.work.items()
            if unit not in patterns
        }
        self._units = tuple(command.work)
        self._wanted = {**command.metrics, **patterns}
        self._patterns = {name: re.compile(text) for name, text in self._wanted.items()}
        self._counts: Counter[str] = Counter()
        self._in_first: set[str] = set()
        self._first: dict[str, float] = {}
        self._last: dict[str, tuple[float, str]] = {}
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self.current: dict[str, float] = {}
        self.number = 0
        self.matched: dict[str, str] = {}
        self._is_known = False
        self._header = ""
        self._in_last_line: set[str] = set()

    def know(self, known: KnownOutput) -> Command:
        """Read epochs of known output, too; return the command with their patterns."""
        self._is_known = True
        patterns = {**known.marks, **self._command.metrics}
        self._patterns |= {name: re.compile(text) for name, text in patterns.items()}
        return replace(self._command, metrics=patterns)

    def read(self, line: str) -> list[str]:
        """Read a line; return the marks (`MARKS`) in it, in their order."""
        self._lines.append(line[:MAX_QUOTED_CHARS])
        values = self._values(line)
        self._counts.update(values.keys())
        self.matched = dict.fromkeys(values, line[:MAX_QUOTED_CHARS]) | self.matched
        before = self._last.get(EPOCH, (None,))[0]
        marks = [name for name in MARKS if name in values and self._is_next(name, values[name], line)]
        self.current |= {name: _number(name, value, line) for name, value in values.items() if name not in MARKS}
        is_again = self._is_known and EPOCH in values and EPOCH not in marks and float(values[EPOCH]) == before
        return [*marks, EPOCH_AGAIN] if is_again else marks

    def _is_next(self, mark: str, value: Any, line: str) -> bool:
        """Return whether a line is a mark: one without a number is, and one with a number higher than before."""
        if mark == BEGIN:
            return self._counts[mark] == 1
        try:
            number = float(value)
        except (TypeError, ValueError):
            return True
        before, earlier = self._last.get(mark, (-math.inf, ""))
        restarts = self._is_known and number < before and number == self._first[mark]  # such as the next fold's
        self._first.setdefault(mark, number)
        if number > before or restarts:
            self._last[mark] = number, line
        elif mark == EPOCH and not self._is_known:
            raise OutputError(
                f"epoch {value} ended after epoch {before:g}, by the lines {earlier!r:.100} and {line!r:.100}: `epoch` "
                "has to match one line per epoch, the last"
            )
        return number > before or restarts

    def end_epoch(self, partial: bool = False) -> tuple[dict[str, float], dict[str, float], float | None]:
        """End an epoch; return its metrics, its work by unit, and its seconds by the program's own clock.

        One that was left early may not have printed its seconds.
        """
        self.number += 1
        metrics, self.current = self.current, {}
        if self.number == 1:
            self._in_first = set(metrics)
        if self._time and self._time not in metrics and not partial:
            raise OutputError(f"epoch {self.number} has no {self._time}, the metric of `time`")
        for name in {self._time, *self._units} & metrics.keys():
            if not math.isfinite(metrics[name]):
                raise OutputError(f"{name} is {metrics[name]} in epoch {self.number}, and not an amount")
        seconds = metrics.pop(self._time, None)
        work = self._work | {unit: metrics.pop(unit) for unit in self._units if unit in metrics}
        return {name: metrics[name] for name in (*self._wanted, *metrics) if name in metrics}, work, seconds

    def _values(self, line: str) -> dict[str, Any]:
        """The marks, work and metrics in a line: by the patterns, and common metrics in what these leave."""
        values: dict[str, Any] = {}
        places = set()
        for name, pattern in self._patterns.items():
            match = pattern.search(line[:MAX_METRIC_CHARS] if self._is_known and name in MARKS else line)
            has_value = match and match.re.groups > len(match.re.groupindex)
            if match and (not has_value or match[1] is not None):
                values[name] = match[1] if has_value else None
                places.add(match.start(1) if has_value else None)
        common = {name: value for name, value, place in metrics_in(line, self._header) if place not in places}
        self._header = self._header if line[:1].isspace() else line
        if EPOCH in values:
            self._in_last_line |= common.keys()
        elif self.number:  # so what is printed within the next epoch, or after the last one, does not replace it
            common = {name: value for name, value in common.items() if name not in self._in_last_line}
        return {name: value for name, value in common.items() if name not in self._wanted} | values

    def missing(self, target: str) -> str | None:
        """The message if an epoch, the clock or the target's metric has not been printed as needed; None if it has."""
        for name in (EPOCH_BEGINS, EPOCH, self._time, target):
            if name in (*self._wanted, target) and name and not self._counts[name]:
                return self._unmatched(name)
        return self._late(target) if target in self.current else None

    def _unmatched(self, name: str) -> str:
        pattern = self._wanted.get(name, "")
        what = f"matches {name}: {pattern}" if pattern else f"has {name}; add its pattern, `metrics: {{{name}: …}}`"
        return f"no line of the output {what}{self._nearest(name, pattern)}"

    def _late(self, name: str) -> str | None:
        """The message if a metric is printed after the line that ends its epoch."""
        is_late = self.number > 1 and name not in self._in_first and self._counts[name] >= self.number
        if is_late and EPOCH_BEGINS not in self._patterns:  # with it, a metric counts until the next epoch begins
            return (
                f"{name} is printed after the line that ends its epoch, so it counts for the next one; let `epoch` "
                "match the last line of an epoch instead"
            )
        return None

    def _nearest(self, name: str, pattern: str) -> str:
        """Quote the line with most of the words of a metric's pattern and name; nothing if it has none of them."""
        wanted = {word[:PREFIX] for word in _words(f"{_ESCAPES.sub(' ', pattern)} {name}")}
        shared = {line: len(wanted & {word[:PREFIX] for word in _words(line)}) for line in self._lines}
        nearest = max(shared, key=shared.__getitem__, default="")
        return f"; the nearest is {nearest!r}" if shared.get(nearest) else ""

    def unmatched(self) -> list[str]:
        """A message for each pattern that matches no line."""
        return [self._unmatched(name) for name in self._wanted if not self._counts[name]]

    def warnings(self) -> Iterator[str]:
        """Yield warnings about metrics that were not printed as the patterns say."""
        yield from filter(None, map(self._late, self.current))


def _words(text: str) -> list[str]:
    return [word.lower() for word in re.findall(rf"[^\W\d_]{{{PREFIX},}}", text)]


def _number(name: str, value: Any, line: str) -> float:
    try:
        if isinstance(value, (str, int, float)) and not isinstance(value, bool):
            return float(value)
    except (ValueError, OverflowError):
        pass
    raise OutputError(f"{name}: {value!r:.60} is not a number, in the line {line!r:.200}")
