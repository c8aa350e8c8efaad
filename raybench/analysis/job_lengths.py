"""How a speed-up depends on the length of the job: a table of the report.

One pair of devices was published as 3.6 ×, 8.8 × and 159 × apart, by how many of its steps were counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from raybench.analysis.comparison import origins
from raybench.analysis.crossover import Process, crossover, speedup_at
from raybench.analysis.sections import Column, Record, Section
from raybench.analysis.sentences import times
from raybench.analysis.sides import Pair
from raybench.analysis.speedup import Speedup
from raybench.analysis.standing import Standing
from raybench.analysis.verdict import compared

EPOCHS = (1, 10, 100)
"""Lengths that are told, beside a single step and the long run."""


def job_lengths(standing: Standing, pairs: Sequence[Pair]) -> Section:
    """The speed-up of each comparison for jobs of several lengths, with what is paid once.

    An epoch has on each side as many steps as its batch needs, and is compared where it has as many examples. A single
    step, and the number of steps from which on the verdict holds, are told where a step is the same work on both.
    """
    records: list[Record] = []
    for cell, pair, origin in zip(standing.cells, pairs, origins(standing.cells, standing.compared_with), strict=True):
        if pair.baseline is None or origin is None or cell.again or pair.baseline.from_warmup or pair.other.from_warmup:
            continue
        sides = [
            (pair.baseline.processes, standing.steps(standing.cells[origin])),
            (pair.other.processes, standing.steps(cell)),
        ]
        baseline, other = (_in_epochs(processes, steps) for processes, steps in sides)
        if not baseline or not other:
            continue
        record: dict[str, Any] = {"cell": standing.label(cell)}
        if pair.even:
            record["long_run"] = _told(compared(pair))
            record |= {f"epochs_{number}": _told(speedup_at(baseline, other, number)) for number in EPOCHS}
        if pair.same_steps:
            record["step"] = _told(speedup_at(pair.baseline.processes, pair.other.processes, 1))
            found = crossover(pair.baseline.processes, pair.other.processes)
            if found and found.long_run.differs:
                record |= {"turns_at": found.turns_at, "sure_from": found.sure_from}
        if len(record) > 1:
            records.append(record)
    turn = " The last columns: from which optimiser step on the winner of the long run wins, and surely so."
    return Section(
        "lengths",
        "Times as fast, by the length of the job",
        "Loading the framework, data, start-up and compilation are counted, evaluation is not; 95 % intervals in "
        "brackets; the long run is the headline." + (turn if any("turns_at" in record for record in records) else ""),
        (
            Column("cell", "setting", right=False),
            Column("step", "one step", _shown),
            *(Column(f"epochs_{n}", "1 epoch" if n == 1 else f"{n} epochs", _shown) for n in EPOCHS),
            Column("long_run", "long run", _shown),
            Column("turns_at", "wins from step", "{:,}".format),
            Column("sure_from", "surely from step", "{:,}".format),
        ),
        records,
    )


def _in_epochs(processes: Sequence[Process], steps: int | None) -> list[Process]:
    """Processes that repeat epochs instead of optimiser steps; none where nobody told how many an epoch has."""
    return [replace(each, steady=each.steady * steps) for each in processes] if steps else []


def _told(found: Speedup | None) -> Record | None:
    return None if found is None else {"ratio": found.ratio, "low": found.low, "high": found.high}


def _shown(told: Record) -> str:
    return times(told["ratio"], told["low"], told["high"])
