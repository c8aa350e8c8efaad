"""The log of a program: a row is a line with a metric of validation data or, without any, each line that counts steps.

Its times are the first of these that its lines have: its own clock of training (`train_time:1230ms`), those of its
steps (`dt: 90.1ms`), a total in minutes, and the date and time at the beginning of lines. Without any of them only its
metrics are known.
"""

from __future__ import annotations

import re
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from raybench.errors import Problem
from raybench.output.metrics import slots_in, values_at
from raybench.output.transcript import NUMBERS, Slot
from raybench.sources.rows import NoLog, Table

_NAMES = r"(?:train(?:ing)?_time|total[ _](?:training[ _])?time|(?:time_)?elapsed(?:[ _]time)?)[:=\s]+"
_NUMBER, _END = r"(\d+(?:\.\d+)?) ?", r"(?![\w.])"
_TOTAL = re.compile(f"{_NAMES}{_NUMBER}(ms|s|sec)?{_END}", re.IGNORECASE)
_MINUTES = re.compile(f"{_NAMES}{_NUMBER}(m|min){_END}", re.IGNORECASE)
_STEP = re.compile(rf"(?:(?:\bdt|(?:step|iter)[ _]time|\btime)[:=\s]+|\|\s*){_NUMBER}(ms|s){_END}", re.IGNORECASE)
_DATE = re.compile(r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)(?:[.,](\d+))?")
_COUNT = re.compile(
    r"^\s*(?=\d+/\d+\D*[:=])(\d+)/|(?:^|[^\w.])(?:step|iter(?:ation)?)\W{0,3}(\d+)(?![\w.])", re.IGNORECASE
)
"""Counted steps: `step: 250`, `iter 250`, or `250/20000` at the beginning of a line."""
_LLM_C = re.compile(r"^s:(\d+) (tel|trl|eval):")
_LLM_C_NAMES = {"tel": "val loss", "trl": "train loss", "eval": "val accuracy"}
_SECONDS = {"ms": 1e-3, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "": 1.0}


def read(path: Path) -> Table:
    """Read the log of one run.

    Raises:
        NoLog: fewer than two lines count epochs or steps and have a metric.
    """
    text = path.read_text(encoding="utf-8", errors="replace")
    lines = [_LLM_C.sub(lambda m: f"step: {m[1]} {_LLM_C_NAMES[m[2]]}:", line) for line in text.split("\n")]
    clock = next(
        (kind for kind in (_TOTAL, _STEP, _MINUTES, _DATE) if sum(map(bool, map(kind.search, lines))) > 1), None
    )
    slots: dict[str, list[Slot]] = {}
    rows: list[tuple[int, int, float, dict[str, float]]] = []
    at_s, step, timed = 0.0, -1, -1
    start: datetime | None = None
    for number, line in enumerate(lines, 1):
        match, count = clock.search(line) if clock else None, _COUNT.search(line)
        if not rows and not count:
            continue
        if (kind := NUMBERS.sub("0", line)) not in slots:
            slots[kind] = [slot for slot in slots_in(line) if not slot.name.startswith("speed/")]
        metrics = values_at(slots[kind], line)
        if not count:
            metrics = {name: value for name, value in metrics.items() if not name.startswith("train/")}
        if not rows and not (count and (metrics or match)):
            continue  # before its first step a log may hold the text of its program
        step = int(count[1] or count[2]) if count else step
        if match and clock is _DATE:
            moment = datetime.fromisoformat(match[1])
            start = start or moment
            at_s = (moment - start).total_seconds()
        elif match:
            value = float(match[1]) * _SECONDS[(match[2] or "").lower()]
            at_s = at_s + max(1, step - timed) * value if clock is _STEP else max(at_s, value)
            timed = step
        if metrics or (match and count):
            rows.append((number, step, at_s, metrics))
    return _table(path, rows, clock is not None, text)


def _table(path: Path, rows: list[tuple[int, int, float, dict[str, float]]], is_timed: bool, text: str) -> Table:
    """Join the lines of each evaluation, or of each step, to a row."""
    is_evaluated = any(not name.startswith("train/") for *_, metrics in rows for name in metrics)
    joined: list[tuple[int, int, float, dict[str, float]]] = []
    pending: dict[str, float] = {}
    for number, step, at_s, metrics in rows:
        pending |= metrics
        is_row = not is_evaluated or any(not name.startswith("train/") for name in metrics)
        if joined and step == joined[-1][1] and is_row:
            joined[-1] = (number, step, at_s, {**joined[-1][3], **pending})
        elif is_row:
            joined.append((number, step, at_s, pending))
        pending = {} if is_row else pending
    if is_evaluated and rows[-1][1] > joined[-1][1]:
        joined.append((*rows[-1][:3], pending))
    if joined and joined[0][1] <= 0 and len(joined) > 1:  # an evaluation before the first step
        joined = joined[1:]
    if len(joined) < 2 and not (joined and is_evaluated):
        raise NoLog([Problem(str(path), text.count("\n") + 1, 1, "", "no line counts epochs or steps")])
    names = dict.fromkeys(name for *_, metrics in joined for name in metrics)
    columns: dict[str, list[Any]] = {name: [metrics.get(name) for *_, metrics in joined] for name in names}
    columns["epoch"] = [*range(1, len(joined) + 1)]
    columns["units/steps"] = [
        max(0, after - before) for before, after in pairwise([0, *(step for _, step, *_ in joined)])
    ]
    if 0 < columns["units/steps"][-1] < 0.9 * max(columns["units/steps"]):
        columns["partial"] = [number == len(joined) for number in columns["epoch"]]
    if is_timed:
        columns["elapsed_s"] = [at_s for _, _, at_s, _ in joined]
    table = Table(path, columns, [number for number, *_ in joined])
    table.text = text
    return table
