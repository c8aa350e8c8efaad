"""Event files of TensorBoard: the scalars of one run, with the times at which they were written.

A row is a step of the scalar that was written most often. Training before the first of them is not timed.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from pathlib import Path
from types import ModuleType
from typing import Any

from raybench.errors import FileError, Problem, UsageError
from raybench.output.metrics import slots_in
from raybench.sources.rows import Table

PREFIX = "events.out.tfevents"


def read(path: Path) -> Table:
    """Read the run that an event file, or the event files of a folder, hold.

    Raises:
        FileError: no scalar is in it.
        UsageError: TensorBoard is not installed.
    """
    # TensorBoard's own sign not to load TensorFlow, which takes seconds and prints warnings.
    sys.modules.setdefault("tensorboard.compat.notf", ModuleType("notf"))
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    except ImportError:
        raise UsageError(f"{path}: TensorBoard's files need its reader: pip install 'raybench[tensorboard]'") from None
    events = EventAccumulator(str(path), size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    series = {tag: [(e.step, e.wall_time, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
    for tag in events.Tags()["tensors"]:  # as TensorFlow 2 and Keras write scalars
        values = [(e.step, e.wall_time, list(e.tensor_proto.float_val)) for e in events.Tensors(tag)]
        if all(len(value) == 1 for _, _, value in values):
            series[tag] = [(step, at_s, value[0]) for step, at_s, value in values]
    if not any(series.values()):
        files = sorted(path.glob(f"{PREFIX}*")) if path.is_dir() else [path]
        raise FileError([Problem(str(file), 0, 0, "", "no scalar in it; it may be damaged") for file in files])
    times: dict[int, float] = {step: at_s for step, at_s, _ in max(series.values(), key=len)}
    last_step, last_s, _ = max(entry for entries in series.values() for entry in entries)
    if last_step > max(times):
        times[last_step] = last_s
    steps = sorted(times)
    begin_s = times[steps[0]]
    columns: dict[str, list[Any]] = {"epoch": [*range(1, len(steps) + 1)]}
    columns["elapsed_s"] = [max(0.0, times[step] - begin_s) for step in steps]
    for tag, entries in series.items():
        name = next((slot.name for slot in slots_in(f"{tag.replace('/', '_')}: 0.5")), "")
        if name and not name.startswith("speed/"):
            column = columns.setdefault(name, [None] * len(steps))
            for step, _, value in entries:
                column[min(bisect_left(steps, step), len(steps) - 1)] = value
    return Table(path, columns)
