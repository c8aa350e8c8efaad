"""The clock of a program that one does not know: lines with a number that grows steadily, a counter.

Of several counters the outermost is the clock, that is the epochs and not the steps in them, if it has three values.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from statistics import median
from typing import NamedTuple

from raybench.core.ledger import NANO
from raybench.output.metrics import COUNTERS, columns_of, slots_in
from raybench.output.transcript import BAR, NUMBER, NUMBERS, TIME, Kind, number_of
from raybench.results.output_clock import OutputClock

PASSES, STEPS, UNNAMED, OTHER, PERCENT = range(5)
"""What a number may count, by its name, from what is most likely to be the epochs."""

MIN_COUNTS = 3
"""Fewest values of a counter; of one that the program calls an epoch or a step, two do if there is no better one."""

MAX_LINES, MAX_NUMBERS = 4_000, 24  # lines of a kind in which a counter is looked for, and numbers of a line

OUTER, REGULAR, PARTS = 1.5, 0.6, 10
"""Times as many values as the outer one that an inner counter has; part of the growth of a regular counter that is in
steps of one size; epochs into which an irregular one is divided."""

SHORT_S, GROUP_S, MIN_GROUPS = 0.05, 0.25, 8
"""Seconds that are too short for when lines arrive, those that several epochs take together, and fewest of these."""

MAX_SHOWN = 48  # characters of a line that are shown

_NOT_COUNTED = re.compile(
    r"time|elapsed|eta|duration|secs?|seconds?|minutes?|remaining|left|lr|learning_rate|rate|\w*mem(?:ory)?|gpu\w*|rank"
    r"|pid|port|seed|fps|wps|ups|sps|speed|throughput|layers?|param\w*|shape|loss|acc\w*|best|saved|version|step_time|dt",
    re.IGNORECASE,
)
"""Names of numbers that may grow and count no work."""

_QUANTITY = re.compile(r"(?:ms|s|sec\w*|m|min|h|[KMG]i?B?|it/s|s/it|x)\b")
_AFTER = re.compile(r"(?:st|nd|rd|th)?[- ]?([a-z]+)\b(?!/)", re.IGNORECASE)
_ANY = {NUMBER: r"[-+\d.,einfaINFA]+", TIME: r"\S+(?: \S+)?", BAR: r"(?:\|[^|]*\||\[[^]]*\]|[^\s\w]+)"}
_COUNT = r"(\d{1,3}(?:,\d{3})+(?!\d)|\d+(?:\.\d+)?(?:e[-+]?\d+)?)"


class Line(NamedTuple):
    """A line: position in the output, time of reading, kind and row there; the value of a counter, and where it is."""

    place: int
    at: int
    kind: Kind
    row: int
    value: float = 0.0
    start: int = -1

    @property
    def text(self) -> str:
        """Its text."""
        return self.kind.text(self.row)


def line_of(kind: Kind, row: int, value: float = 0.0, start: int = -1) -> Line:
    """A line of a kind."""
    return Line(kind.places[row], kind.at[row], kind, row, value, start)


class Candidate(NamedTuple):
    """A number that may be the clock: its place in a kind, its name, how unlikely it counts epochs, and its lines."""

    kind: Kind
    number: int
    label: str
    rank: int
    lines: list[Line]

    @property
    def restarts(self) -> bool:
        """Whether it starts again, so that it counts inside of something."""
        return _falls(self.lines)

    @property
    def span(self) -> int:
        """Nanoseconds from its first value to its last."""
        return self.lines[-1].at - self.lines[0].at


def infer(kinds: Sequence[Kind], headers: Sequence[Sequence[str]]) -> OutputClock:
    """Return the clock that lines have, with the headers of tables in them; it has no pattern if they have none."""
    candidates = [candidate for kind in kinds if len(kind.at) > 1 for candidate in _candidates(kind, headers)]
    if not candidates:
        return OutputClock()
    longest = max(candidate.span for candidate in candidates)

    def order(candidate: Candidate) -> tuple[int, ...]:
        few, is_short = len({line.at for line in candidate.lines}) < MIN_COUNTS, 2 * candidate.span < longest
        return few, candidate.restarts, candidate.rank > STEPS, is_short, candidate.rank

    first = min(map(order, candidates))
    alike = [candidate for candidate in candidates if order(candidate) == first]
    most = OUTER * min(len(candidate.lines) for candidate in alike)
    best = min((c for c in alike if len(c.lines) <= most), key=lambda c: (c.lines[0].place, c.number))
    wide, narrow = (_pattern(best.kind.template, best.number, is_narrow) for is_narrow in (False, True))
    pattern = narrow if _falls(lines_of(wide, kinds)) and not best.restarts else wide
    lines = _distinct(lines_of(pattern, kinds))
    step = _grouped(typical_step([line.value for line in lines]), lines)
    label = "%" if best.rank == PERCENT else best.label
    shown = _shown(best.kind.template, best.number, columns_of(best.kind, headers))
    return OutputClock(pattern, shown, label, step, best.rank == PASSES)


def lines_of(pattern: str, kinds: Sequence[Kind]) -> list[Line]:
    """The lines with a counter, of one process if several print them, in the order of the output."""
    regex = re.compile(pattern)
    chosen = [kind for kind in kinds if regex.search(kind.text(0))]
    matches = ((kind, row, regex.search(kind.text(row))) for kind in chosen for row in range(len(kind.at)))
    lines = [line_of(kind, row, number_of(match[1]), match.start(1)) for kind, row, match in matches if match]
    return _of_one_process(sorted(lines, key=lambda line: line.place))


def lines_matched(kind: Kind | None) -> list[Line]:
    """The lines that a pattern of the user matches; each counts if they have no number."""
    counts = [number_of(kind.text(row)) for row in range(len(kind.at))] if kind else []
    return [line_of(kind, row, row if math.isnan(count) else count) for row, count in enumerate(counts)] if kind else []


def _distinct(lines: Sequence[Line]) -> list[Line]:
    return [next(group) for _, group in groupby(lines, lambda line: line.value)]


def _falls(lines: Sequence[Line]) -> bool:
    return any(after.value < before.value for before, after in pairwise(lines))


def _of_one_process(lines: list[Line]) -> list[Line]:
    """Leave out what other processes have printed, if their lines and those of the first one are out of order."""
    if not _falls(lines):
        return lines
    prefix = lines[0].text[: lines[0].start]
    same_process = [line for line in lines if line.text[: line.start] == prefix]
    span = same_process[-1].at - same_process[0].at
    is_long = 2 * span > lines[-1].at - lines[0].at  # unlike the lines of one epoch
    return same_process if is_long and len(same_process) >= MIN_COUNTS and not _falls(same_process) else lines


def typical_step(values: Sequence[float]) -> float:
    """The difference by which a counter grows for the most part, or a tenth of its growth if it is irregular."""
    grown = [after - before for before, after in pairwise(values) if after > before]
    alike = Counter(f"{growth:.2g}" for growth in grown)
    digits = max(alike, key=lambda digits: alike[digits] * float(digits), default="")
    same = [growth for growth in grown if f"{growth:.2g}" == digits]
    if sum(same) >= REGULAR * sum(grown):
        return float(f"{median(same):.6g}") if same else 1.0
    power: float = 10 ** math.floor(math.log10(sum(grown) / PARTS))
    return max(1.0, sum(grown) / PARTS // power * power)


def _grouped(step: float, lines: Sequence[Line]) -> float:
    """A step, or as many together as take a time that can be read."""
    counts = sum(max(0.0, after.value - before.value) for before, after in pairwise(lines)) / step
    seconds = (lines[-1].at - lines[0].at) * NANO / (counts or 1)
    factors: list[float] = [
        factor * 10**power for power in range(9) for factor in (1, 2, 5) if factor * 10**power * MIN_GROUPS <= counts
    ]
    if seconds >= SHORT_S or not factors:
        return step
    return step * next((factor for factor in factors if factor * seconds >= GROUP_S), factors[-1])


def _candidates(kind: Kind, headers: Sequence[Sequence[str]]) -> Iterator[Candidate]:
    """Yield the counters in the lines of a kind."""
    pieces = kind.template.split(NUMBER)
    rows = range(0, len(kind.at), -(-len(kind.at) // MAX_LINES))
    numbers = [[match for match in NUMBERS.finditer(kind.text(row)) if match[1]] for row in rows]
    columns = columns_of(kind, headers)
    metrics = {slot.number for slot in slots_in(kind.text(0), columns=columns)}
    for number in {*range(min([len(pieces) - 1, MAX_NUMBERS, *map(len, numbers)]))} - metrics:
        label = columns.get(number, "").lower() if columns else _label(pieces, number)
        rank = _rank(label, pieces, number)
        lines = [
            line_of(kind, row, number_of(m[number][1]), m[number].start()) for row, m in zip(rows, numbers, strict=True)
        ]
        lines = _distinct(_of_one_process(lines))
        counts, reads = [line.value for line in lines], len({line.at for line in lines})
        is_named = rank in (PASSES, STEPS)
        grown = [after - before for before, after in pairwise(counts) if after > before]
        if rank is None or len(grown) < (1 if is_named else MIN_COUNTS - 1) or min(counts) < 0:
            continue
        totals = {m[number + 1][1] for m in numbers} if re.match(r"\s*/\s*$", pieces[number + 1]) else set()
        is_regular = max(Counter(f"{growth:.2g}" for growth in grown).values()) >= REGULAR * len(grown)
        is_sound = is_named or len(totals) == 1 or (len(grown) == len(lines) - 1 and (is_regular or rank == PERCENT))
        is_whole = rank in (PASSES, PERCENT) or all(count == int(count) for count in counts)
        is_spread = reads >= min(MIN_COUNTS, len(lines)) or rank == PASSES
        if is_sound and is_whole and is_spread and 2 * len(grown) > len(lines) - 1:
            yield Candidate(kind, number, label, rank, lines)


def _label(pieces: Sequence[str], number: int) -> str:
    """The word before a number, or after it, that names a counter, or else any before it."""
    words = re.findall(r"[A-Za-z_]\w*", pieces[number]) or re.findall("#", pieces[number])
    near = next((word for word in reversed(words[-2:]) if COUNTERS.fullmatch(word)), "")
    after = _AFTER.match(pieces[number + 1])
    if not near and after and COUNTERS.fullmatch(after[1]):
        return after[1].lower()
    return (near or (words[-1] if words else "")).lower()


def _rank(label: str, pieces: Sequence[str], number: int) -> int | None:
    """How unlikely a number is to count epochs; None if it cannot."""
    if pieces[number + 1].startswith("%"):
        return PERCENT
    if name := COUNTERS.fullmatch(label):
        return PASSES if name["passes"] else STEPS
    if _NOT_COUNTED.fullmatch(label) or _QUANTITY.match(pieces[number + 1]):
        return None
    return UNNAMED if not label or number == 0 else OTHER


def _pattern(template: str, number: int, is_narrow: bool) -> str:
    """A pattern of the lines of a counter: from the words before it on or, without any, with what follows."""
    parts = re.split(f"([{NUMBER}{TIME}{BAR}])", template)
    place = [at for at, part in enumerate(parts) if part == NUMBER][number]
    has_words = [bool(re.search(r"[A-Za-z]{2}|#", "".join(parts[at:place]))) for at in range(0, place, 2)]
    begin = 2 * max((at for at, has in enumerate(has_words) if has and not is_narrow), default=0)
    end = place + (8 if is_narrow else 1 if any(has_words) else 6)

    def text(part: str) -> str:
        return _ANY.get(part) or r"\s*".join(map(re.escape, part.split(" ")))

    before, after = "".join(map(text, parts[begin:place])), "".join(map(text, parts[place + 1 : end]))
    return ("" if begin else r"^\s*") + before + _COUNT + after


def _shown(template: str, number: int, columns: Mapping[int, str]) -> str:
    """A line as people read it, with `N` for the counter; of a table, with the names of its columns."""
    pieces = re.sub(f"[{TIME}{BAR}]", "…", template).split(NUMBER)
    if columns:
        pieces = [f" {columns.get(at, '')} " for at in range(len(pieces) - 1)] + [""]
    text = "".join(f"{piece}{'N' if at == number else '…'}" for at, piece in enumerate(pieces[:-1])) + pieces[-1]
    text = " ".join(text.split())
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN].rstrip()} …"
