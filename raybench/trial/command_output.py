"""Epochs and metrics in the output of the user's own command."""

from __future__ import annotations

import codecs
import json
import math
import re
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from typing import Any

from raybench.workloads.command import EPOCH, Command

MAX_LINE_CHARS = 1 << 16
"""Length after which an unfinished line counts as one."""

MAX_QUOTED_CHARS = 100
"""Length of the part of the nearest line that is quoted."""

PREFIX = 3
"""Letters in which two words agree that are taken for the same, such as acc and accuracy."""

KEPT_LINES = 200
"""The last lines, of which one is quoted if a pattern matches none."""

_ENDS = re.compile(r"[\r\n]")
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_ESCAPES = re.compile(r"\\.|\(\?P?<?\w*>?")


class OutputError(Exception):
    """The output is not what the patterns need."""


class Lines:
    """The lines of one stream. A carriage return ends one too, and invalid UTF-8 is replaced."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def feed(self, chunk: bytes, last: bool = False) -> list[str]:
        """The lines that a part of the stream completes.

        Args:
            chunk: the part.
            last: whether it is the last one, so that the rest is a line too.
        """
        *lines, rest = _ENDS.split(self._decoder.decode(chunk, last))
        if lines:
            lines[0], self._rest = self._rest + lines[0], rest
        else:
            self._rest += rest
        if last or len(self._rest) > MAX_LINE_CHARS:
            lines, self._rest = [*lines, self._rest], ""
        return [clean for line in lines if (clean := _COLOURS.sub("", line))]


class Metrics:
    """The metrics of a command, from the lines of its output.

    Attributes:
        current: the metrics since the last epoch ended.
        epochs: how many have ended.
    """

    def __init__(self, command: Command) -> None:
        self._patterns = {name: re.compile(text) for name, text in command.metrics.items()}
        self._keys = command.json_lines
        self._wanted = {**command.metrics, **(command.json_lines if isinstance(command.json_lines, Mapping) else {})}
        self._counts: Counter[str] = Counter()
        self._in_first: set[str] = set()
        self._number = -math.inf
        self._number_line = ""
        self._unnamed: set[str] = set()
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self.current: dict[str, float] = {}
        self.epochs = 0

    def read(self, line: str) -> dict[str, float] | None:
        """Read a line.

        Returns:
            The metrics of the epoch that it ends; None if it ends none.

        Raises:
            OutputError: a value is no number, or an epoch ends twice.
        """
        self._lines.append(line[:MAX_QUOTED_CHARS])
        values = dict(self._values(line))
        self._counts.update(values.keys())
        epoch = values.pop(EPOCH, None)
        for name, value in values.items():
            self.current[name] = _number(name, value, line)
        if epoch is None:
            return None
        self._check_number(epoch, line)
        self.epochs += 1
        metrics, self.current = self.current, {}
        if self.epochs == 1:
            self._in_first = set(metrics)
        return metrics

    def _values(self, line: str) -> Iterator[tuple[str, Any]]:
        for name, pattern in self._patterns.items():
            match = pattern.search(line)
            if match and match[1] is not None:
                yield name, match[1]
        if not self._keys or not line.lstrip().startswith("{"):
            return
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            return
        if isinstance(self._keys, Mapping):
            yield from ((name, value) for name, key in self._keys.items() if (value := _at(entry, key)) is not None)
            return
        for name, value in entry.items():
            if value is None:
                continue
            if name == EPOCH or "/" in name:
                yield name, value
            elif isinstance(value, (int, float)):
                self._unnamed.add(name)

    def _check_number(self, text: Any, line: str) -> None:
        """Check that the epoch's number, if it is one, is higher than that before."""
        try:
            number = float(text)
        except (TypeError, ValueError):
            return
        if number <= self._number:
            raise OutputError(
                f"epoch {text} ended after epoch {self._number:g}, by the lines {self._number_line!r:.100} and "
                f"{line!r:.100}: the pattern of `epoch` has to match one line per epoch, the last"
            )
        self._number, self._number_line = number, line

    @property
    def names(self) -> list[str]:
        """The names of all metrics so far."""
        return [name for name in self._counts if name != EPOCH]

    def missing(self) -> str | None:
        """The message if a pattern matched no line, or matched in another epoch than its own; None if all is well."""
        for name, text in self._wanted.items():
            if not self._counts[name]:
                return f"no line of the output matches {name}: {text}{self._nearest(name, text)}"
        if self._keys is True and not self._counts:
            return "no line of the output is a JSON object with `epoch` or a metric such as `val/accuracy`"
        for name in self.current:
            if self.epochs > 1 and name not in self._in_first and self._counts[name] >= self.epochs:
                return (
                    f"{name} is printed after the line that ends its epoch; let `epoch` match the last line of an "
                    "epoch instead"
                )
        return None

    def _nearest(self, name: str, pattern: str) -> str:
        """Quote the line with most of the words of a metric's pattern and name; nothing if it has none of them."""
        wanted = {word[:PREFIX] for word in _words(f"{_ESCAPES.sub(' ', pattern)} {name}")}
        shared = {line: len(wanted & {word[:PREFIX] for word in _words(line)}) for line in self._lines}
        nearest = max(shared, key=shared.__getitem__, default="")
        return f"; the nearest is {nearest!r}" if shared.get(nearest) else ""

    def warnings(self) -> Iterator[str]:
        """Yield warnings about the output."""
        for name in sorted(self._unnamed):
            yield f"{name} was left out: name its data, such as `json_lines: {{epoch: epoch, train/{name}: {name}}}`"


def _words(text: str) -> list[str]:
    return [word.lower() for word in re.findall(rf"[^\W\d_]{{{PREFIX},}}", text)]


def _number(name: str, value: Any, line: str) -> float:
    try:
        if isinstance(value, (str, int, float)) and not isinstance(value, bool):
            return float(value)
    except (ValueError, OverflowError):
        pass
    raise OutputError(f"{name}: {value!r:.60} is no number, in the line {line!r:.200}")


def _at(entry: Mapping[str, Any], key: str) -> Any:
    """The value of a key of a JSON object, whose parts may be separated by dots."""
    if key in entry:
        return entry[key]
    value: Any = entry
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value
