"""An entry of DAWNBench: a JSON file that says what was run on what, and beside it a TSV of epochs.

The TSV's columns are `epoch`, `hours` since the start of training, and `top1Accuracy` and `top5Accuracy` in percent or
`f1Score`; an epoch 0 is an evaluation before training. By DAWNBench's instructions the result is the first epoch that
reaches 94 % (CIFAR-10), 93 % of the top five (ImageNet) or an F1 score of 0.73 (SQuAD), and the cost is its hours times
`costPerHour`, in US dollars.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from raybench.analysis import rules
from raybench.analysis.results import Attempt, Epoch
from raybench.analysis.tables import Record
from raybench.errors import FileError, Problem, UsageError, nearest
from raybench.trial import events
from raybench.trial.job import Target

METRICS = {"top1Accuracy": ("val/accuracy", 100), "top5Accuracy": ("val/top5_accuracy", 100), "f1Score": ("val/f1", 1)}
"""From a column to the metric and what it is divided by."""

TARGETS = {"f1Score": 0.73, "top5Accuracy": 0.93, "top1Accuracy": 0.94}
"""The first of these columns that is there is the one that counts, and what it has to reach."""

RULE = "dawnbench"


def of_entry(path: Path) -> list[Record]:
    """The one row of an entry.

    Args:
        path: either of its two files; the other has the same name with the other ending.

    Raises:
        UsageError: one of them is missing, or is not as DAWNBench has it; the message says which line.
        OSError: one of them cannot be read.
    """
    about, log = path.with_suffix(".json"), path.with_suffix(".tsv")
    for file in (about, log):
        if not file.is_file():
            raise UsageError(f"{path}: an entry of DAWNBench is a JSON and a TSV of the same name; there is no {file}")
    told = _about(about)
    columns, lines = _lines(log)
    name = next(column for column in TARGETS if column in columns)
    target = Target(METRICS[name][0], at_least=TARGETS[name])
    before = lines.pop(0)["hours"] * 3600 if lines and lines[0]["epoch"] == 0 else 0.0
    hours = [before / 3600, *(line["hours"] for line in lines)]
    attempt = Attempt(
        path.stem,
        1,
        cell={"workload": {"name": told.get("model")}, "framework": told.get("framework")}
        | {"device": {"model": told.get("hardware")}},
        label=f"{told.get('model')}, {told.get('hardware')}",
        grid=path.parent.name or None,
        profile=told.get("hardware"),
        target=target,
        status=events.COMPLETED,
        ledger={"data": before},
        _epochs={
            int(line["epoch"]): Epoch(
                epoch=int(line["epoch"]),
                t=None,
                steps=0,
                examples=0,
                ledger={"train": (after - start) * 3600},
                cpu_s=None,
                metrics={METRICS[column][0]: line[column] / METRICS[column][1] for column in columns[2:]},
                memory_peak_bytes=None,
                recompiles=None,
            )
            for line, (start, after) in zip(lines, pairwise(hours), strict=True)
        },
    )
    seconds = rules.time_to_target(attempt, target)
    seconds = None if seconds is None else round(seconds + before, 6)
    known: dict[str, Any] = {"time_to_target_s": seconds, "reported_s": seconds, "reported_rule": RULE}
    price = told.get("costPerHour")
    if isinstance(price, (int, float)):
        known |= {"price_per_hour": price, "total_price": None if seconds is None else price * seconds / 3600}
    if [line["epoch"] for line in lines] != list(range(1, len(lines) + 1)):
        # A line that stands for several epochs is no time of one.
        known |= dict.fromkeys(("steady_s", "mean_steady_s", "first_s"))
    return [Record(attempt, None, known)]


def _about(file: Path) -> dict[str, Any]:
    try:
        told = json.loads(file.read_text(encoding="utf-8-sig"))
    except ValueError as error:
        line, column = getattr(error, "lineno", 0), getattr(error, "colno", 0)
        raise FileError([Problem(str(file), line, column, "", "is no JSON")]) from None
    for name in ("model", "hardware"):
        if not isinstance(told, dict) or not isinstance(told.get(name), str):
            raise FileError([Problem(str(file), 1, 1, name, "missing; an entry of DAWNBench says it in words")])
    return dict(told)


def _lines(file: Path) -> tuple[Sequence[str], list[dict[str, float]]]:
    """The TSV's columns, and its lines as numbers.

    Raises:
        FileError: with everything that is wrong with it.
    """
    text = file.read_text(encoding="utf-8-sig").splitlines()
    columns = text[0].split() if text else []
    problems = [
        Problem(str(file), 1, number, name, f"no column of DAWNBench; {nearest(name, METRICS)}")
        for number, name in enumerate(columns[2:], 3)
        if name not in METRICS
    ]
    if columns[:2] != ["epoch", "hours"] or len(columns) < 3:
        problems = [Problem(str(file), 1, 1, "", "wanted the columns epoch, hours, top1Accuracy")]
    if problems:
        raise FileError(problems)
    lines: list[dict[str, float]] = []
    for number, line in enumerate(text[1:], 2):
        values = line.split()
        if not values:
            continue
        found: dict[str, float] = {}
        if len(values) != len(columns):
            problems.append(Problem(str(file), number, 1, "", f"{len(values)} values for {len(columns)} columns"))
        for column, (name, value) in enumerate(zip(columns, values, strict=False), 1):
            try:
                found[name] = float(value)
            except ValueError:
                found[name] = math.nan
            if not math.isfinite(found[name]):
                problems.append(Problem(str(file), number, column, name, f"{value[:60]!r} is no number"))
        if lines and not problems and (found["epoch"] <= lines[-1]["epoch"] or found["hours"] < lines[-1]["hours"]):
            problems.append(Problem(str(file), number, 1, "", "epochs and hours have to grow from line to line"))
        lines.append(found)
    if not lines:
        problems.append(Problem(str(file), 1, 1, "", "no epoch in it"))
    if problems:
        raise FileError(problems)
    return columns, lines
