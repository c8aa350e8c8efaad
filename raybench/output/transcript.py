"""The output of a program as stamped lines, sorted into kinds: lines that are alike except for their numbers.

Reading has to be cheap, since it may share a core with the program: a line costs a look-up of its shape. All else is
done once per kind, or when epochs are decided.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

from raybench.workloads.command import MARKS

MAX_LINE_BYTES, LINE_BYTES, MAX_BYTES = 1 << 16, 120, 64 << 20
"""Length of a line, memory that it needs besides its text, and size of all; above it, every other line is dropped."""

BURST_LINES = 300  # lines in one read of which only the last of each shape is kept, since all have the same time

MAX_KINDS, MAX_SHAPES, LINES_BEFORE = 2_000, 50_000, 16
"""Kinds and shapes that are told apart, and lines before a kind that may be the header of its table or section."""

COLORS, LINE_ENDS = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]"), bytes.maketrans(b"\r\b", b"\n\n")
"""Escape sequences of a terminal, and what ends a line, too."""

NUMBER, TIME, BAR = "\0", "\1", "\2"
"""What stands for a number, for a date or time of day, and for a progress bar in the template of a kind."""

_DATE = r"\d{4}[-/]\d\d?[-/]\d\d?(?:[T ]\d\d?:\d\d(?::\d\d)?(?:[.,]\d+)?)?|\d\d?/\d\d?/\d\d(?:\d\d)?\b"
_TIME = r"(?:\d+ days?, *)?\d{1,3}:\d\d(?::\d\d)?(?!\d)(?:[.,]\d+)?(?: ?[AP]M\b)?"
_DIGITS = r"(?:\d{1,3}(?:,\d{3})+(?![\d,])(?:\.\d+)?|\d+\.?\d*(?:e[-+]?\d+)?|\.\d+|(?:nan|inf)(?![a-z_]))"
_GLUED = "|".join(rf"(?<={word})" for word in ("epoch", "ep", r"\be", "iter", "iteration", "step", "round"))
NUMBERS = re.compile(
    rf"(?<![\w.@])(?:{_DATE}|{_TIME})|((?:(?<![\w.)\]])[-+])?(?:(?<![a-z_\d.@])|{_GLUED}){_DIGITS})", re.IGNORECASE
)
"""Numbers of a line, as its group 1; dates and times of day are none."""

_BARS = re.compile(r"\|[ █▏▎▍▌▋▊▉#]*\||\[[^\w\[\]]{4,}\]|[━█╸╺─]+|[=#>.]{4,}")
_SHAPES = bytes.maketrans(b"123456789\t", b"000000000 ")


class Slot(NamedTuple):
    """A metric in the lines of a kind: its name, the positions of its number and of a divisor, and a factor."""

    name: str
    number: int
    divisor: int | None = None
    factor: float = 1.0


@dataclass(slots=True, eq=False)
class Kind:
    """Lines that are alike except for their numbers.

    Attributes:
        template: the line with `NUMBER` for each number, `TIME` for each date or time, and single spaces.
        before: lines in front of its first one.
        at, places, texts: of each line its time of reading in nanoseconds, its position in the output, and its text.
        slots, parts: the metrics in it, and the parts of the data that they are of, once they have been looked for.
    """

    template: str
    before: Sequence[str] = ()
    at: list[int] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    texts: list[bytes] = field(default_factory=list)
    slots: tuple[Slot, ...] | None = None
    parts: Collection[str] = ()

    @property
    def is_evaluation(self) -> bool:
        """Whether its lines are about validation or test data alone."""
        return "train" not in self.parts

    def text(self, row: int) -> str:
        """One of its lines."""
        return self.texts[row].decode("utf-8", "replace")

    def add(self, place: int, at_ns: int, text: bytes) -> None:
        """Add a line."""
        self.places.append(place)
        self.at.append(at_ns)
        self.texts.append(text)


def numbers_in(text: str) -> list[str]:
    """The numbers of a line, as text."""
    return list(filter(None, NUMBERS.findall(text)))


def number_of(text: str) -> float:
    """The value of a number; nan if a text is none."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return math.nan


class Transcript:
    """The lines of both streams of a program.

    Args:
        patterns: regular expressions of the user by name, whose first group may be a number.

    Attributes:
        matched: by name, the lines that a pattern matches, with the number as text; `before` is the first of them.
    """

    def __init__(self, patterns: Mapping[str, str]) -> None:
        self.patterns = {name: re.compile(text) for name, text in patterns.items()}
        self.matched = {
            name: Kind(name, slots=() if name in MARKS else (Slot(name, 0),), parts={name.partition("/")[0]})
            for name in patterns
        }
        self._rest = [b"", b""]
        self._shapes: dict[bytes, Kind | None] = {}
        self._kinds: dict[str, Kind] = {}
        self._places, self._bytes = count(), 0
        self._last: list[bytes] = []

    @property
    def kinds(self) -> list[Kind]:
        """All kinds, in the order of their first lines."""
        return list(self._kinds.values())

    def add(self, stream: int, chunk: bytes, at_ns: int) -> bool:
        """Add a part of a stream, empty at its end; return whether it completes a line."""
        data = COLORS.sub(b"", self._rest[stream] + chunk).translate(LINE_ENDS)
        *lines, rest = data.split(b"\n")
        if not chunk or len(rest) > MAX_LINE_BYTES:
            lines, rest = [*lines, rest], b""
        self._rest[stream] = rest
        if not lines:
            return False
        shapes = data.translate(_SHAPES).split(b"\n")
        rows: Sequence[int] = range(len(lines))
        if len(lines) > BURST_LINES and not self.patterns:
            rows = sorted(dict(zip(shapes, rows, strict=False)).values())
        for row in rows:
            place, shape = next(self._places), shapes[row]
            kind = self._shapes[shape] if shape in self._shapes else self._kind_of(shape, lines, row)
            if kind:
                kind.add(place, at_ns, lines[row])
            for name, pattern in self.patterns.items():
                if match := pattern.search(text := lines[row].decode("utf-8", "replace")):
                    value = match[1] if pattern.groups else ""
                    self.matched[name].before = self.matched[name].before or [text]
                    if value is not None:
                        self.matched[name].add(place, at_ns, value.encode())
        self._last = [*self._last, *lines[-LINES_BEFORE:]][-LINES_BEFORE:]
        self._bytes += (len(data) // len(lines) + LINE_BYTES) * len(rows)
        while self._bytes > MAX_BYTES:
            largest = max(self._kinds.values(), key=lambda kind: len(kind.texts))
            self._bytes -= (sum(map(len, largest.texts)) + LINE_BYTES * len(largest.texts)) // 2
            for values in (largest.at, largest.places, largest.texts):
                del values[-2::-2]  # never the last line
        return True

    def _kind_of(self, shape: bytes, lines: Sequence[bytes], row: int) -> Kind | None:
        text = _BARS.sub(BAR, lines[row][:MAX_LINE_BYTES].decode("utf-8", "replace"))
        template = " ".join(NUMBERS.sub(lambda match: NUMBER if match[1] else TIME, text).split())
        kind = self._kinds.get(template)
        if kind is None and template and len(self._kinds) < MAX_KINDS:
            before = [*self._last, *lines[:row]][-LINES_BEFORE:]
            kind = self._kinds[template] = Kind(template, [line.decode("utf-8", "replace") for line in before])
        if len(self._shapes) < MAX_SHAPES:
            self._shapes[shape] = kind
        return kind
