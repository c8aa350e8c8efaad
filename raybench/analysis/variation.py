"""How much times vary, where that comes from, and what it lets one see: a table of the report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from raybench.analysis.components import Part, components
from raybench.analysis.sections import Column, Record, Section
from raybench.analysis.sentences import MOST, digits, how_far, listed
from raybench.analysis.sides import Pair
from raybench.analysis.speedup import SURE_OF, repeats_to_be_sure
from raybench.analysis.standing import Standing
from raybench.analysis.verdict import compared
from raybench.analysis.welch import MOST_REPEATS

SURE = 100 * SURE_OF

LEVELS = {
    "machine": "from machine to machine",
    "process": "from process to process on one machine",
    "epoch": "from epoch to epoch of one process",
}

FINEST = 6
"""Digits after the point of a percentage: a part in 100 million of a time, less than any clock tells."""


def variation(standing: Standing, pairs: Sequence[Pair]) -> Section:
    """The spread of each cell's epoch times, by its sources, and the smallest difference that its runs could show."""
    records: list[Record] = []
    for cell, pair in zip(standing.cells, pairs, strict=True):
        side = pair.other
        if not side.times or cell.again:
            continue
        parts = components(side.epoch_times)
        record: dict[str, Any] = {"cell": standing.label(cell), "runs": len(side.times)}
        record |= {level: _told(part) for level in LEVELS if (part := getattr(parts, level))}
        found = compared(pair)
        if pair.baseline and found and found.detectable:
            record |= {"detectable": found.detectable, "paired": found.paired}
            if not found.paired:
                baseline, other = (list(each.times.values()) for each in (pair.baseline, side))
                record["repeats"] = repeats_to_be_sure(baseline, other) or f">{MOST_REPEATS}"
        records.append(record)
    told = [words for level, words in LEVELS.items() if any(level in record for record in records)]
    return Section(
        "variation",
        "How much the times vary",
        f"Standard deviations of an epoch's time, in percent, with 95 % intervals: {listed(told)}. Then the least "
        "difference from the baseline that as many runs would have shown four times in five, and how many runs each "
        f"would show {SURE:g} %.",
        (
            Column("cell", "setting", right=False),
            Column("runs", "runs"),
            *(Column(level, f"{level}, %", _shown) for level in LEVELS),
            Column("detectable", "could be shown", _least),
            Column("repeats", f"runs for {SURE:g} %"),
        ),
        records,
    )


def _told(part: Part) -> Record:
    """In percent; of epochs that were all alike nothing is left of what binary floats make of it."""
    ends = {"sd": part.sd, "low": part.low, "high": part.high}
    return {name: round(100 * value, FINEST) for name, value in ends.items()}


def _shown(told: Record) -> str:
    return f"{digits(told['sd'], 2)} ({digits(told['low'], 2)}–{digits(told['high'], 2)})"


def _least(ratio: float) -> str:
    return f"{'>' if ratio > MOST else ''}{how_far(ratio)}"
