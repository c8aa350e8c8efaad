"""A run of the table from values by the names of its columns, as readers of logs have them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from raybench.core.cell import Cell
from raybench.core.job import Target
from raybench.core.settings import PARAM
from raybench.results.epochs import Epochs
from raybench.results.run_table import CELL, DEVICE, FIELDS, TRIALS, Run

OPENING = ("setup_s", "startup_s", "data_s", "build_s")  # columns of sections before the first epoch

_STORED = {column.name: str(column.attrname) for column in TRIALS if column.attrname in FIELDS}
"""The fields of a run that are columns, by the names of these."""


def run_of(values: Mapping[str, Any], epochs: Epochs, joules: Mapping[int, float] | None = None) -> Run:
    """Return a run with these values by the names of columns of the table of trials; None is not known.

    Args:
        values: such as `trial`, `status`, `host`, and those of its cell, such as `params.x`.
        epochs: its epochs (`Epochs.of_columns`).
        joules: the energy of the device in each epoch, by number.
    """
    present = {name: value for name, value in values.items() if value is not None}
    metric, params = present.get("target_metric"), [name for name in present if name.startswith(PARAM)]
    run = Run(
        **{_STORED[name]: present[name] for name in _STORED.keys() & present.keys()},
        cell=_cell_with(tuple((name, present[name]) for name in (*CELL, *params) if name in present)),
        profile=present.get("device"),
        target=Target(metric, present.get("target_at_least"), present.get("target_at_most")) if metric else None,
        host={"name": present["host"]} if "host" in present else {},
        hardware={"memory_bytes": present["memory_bytes"]} if "memory_bytes" in present else {},
        ledger={name.removesuffix("_s"): present[name] for name in OPENING if name in present},
        epochs=epochs,
    )
    return replace(run, audit={"energy": _energy(run, joules)}) if joules else run


@lru_cache(4096)  # the runs of a configuration share it
def _cell_with(values: tuple[tuple[str, Any], ...]) -> Cell:
    """The cell with these columns; the inverse of `cell_row`."""
    tree: dict[str, Any] = {}
    for name, value in values:
        *path, last = CELL[name].leaf.split(".") if name in CELL else name.split(".", 1)
        place = tree
        for step in path:
            place = place.setdefault(step, {})
        place[last] = value
    return Cell.from_json(tree)


def _energy(run: Run, joules: Mapping[int, float]) -> dict[str, Any]:
    """Return the summary of the energy of epochs, as a sampler writes it."""
    stretches = {"epochs": run.epochs, "steady": run.steady, "target": run.epochs_to(run.target)}
    numbers = {name: epochs.column("epoch") for name, epochs in stretches.items()}
    sums = {
        name: {DEVICE: sum(joules[number] for number in epochs), "count": len(epochs)}
        for name, epochs in numbers.items()
        if epochs and joules.keys() >= {*epochs}
    }
    return {**sums, "each": {str(number): {DEVICE: energy_j} for number, energy_j in joules.items()}}
