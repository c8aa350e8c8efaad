"""Labels of trials that identify one cell each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from raybench.core.cell import Cell
from raybench.core.labels import value_label
from raybench.results.columns import TRIALS

_NAMES = {column.leaf: column.name for column in TRIALS if column.leaf} | {"workload.digest": "code"}
_REPEAT = re.compile(r", repeat \d+$")


def distinct_labels(labels: Sequence[str | None], cells: Sequence[tuple[str, Cell]]) -> list[str | None]:
    """Add distinguishing settings to labels that several cells share.

    Args:
        labels: one label per trial.
        cells: the id and the cell of each trial.

    Returns:
        The labels in the same order. A label that several cells share is preceded by the settings in which these
        differ, as tables cut off the ends of long ones.
    """
    groups: dict[str, dict[str, Cell]] = {}
    for label, (cell_id, cell) in zip(labels, cells, strict=True):
        groups.setdefault(_REPEAT.sub("", label or ""), {})[cell_id] = cell
    words_by_cell = {
        cell_id: _differences(cell_id, cell, group.values())
        for label, group in groups.items()
        if label and len(group) > 1
        for cell_id, cell in group.items()
    }
    return [
        f"{words_by_cell[cell_id]}, {label}" if label and cell_id in words_by_cell else label
        for label, (cell_id, _) in zip(labels, cells, strict=True)
    ]


def _differences(cell_id: str, cell: Cell, others: Iterable[Cell]) -> str:
    """Return the settings in which a cell differs from others, such as `batch 64, code 3fa2b1c8`.

    Returns the cell's id if there is no such setting.
    """
    own_leaves, other_leaves = cell.leaves(), [other.leaves() for other in others]
    names = dict.fromkeys([*own_leaves, *(name for other in other_leaves for name in other)])
    leaf_names = [name for name in names if any(other.get(name) != own_leaves.get(name) for other in other_leaves)]
    return ", ".join(value_label(_name(leaf), _value(own_leaves.get(leaf))) for leaf in leaf_names) or cell_id


def _name(leaf: str) -> str:
    return _NAMES.get(leaf, leaf.removeprefix("settings."))


def _value(value: Any) -> Any:
    if isinstance(value, str) and value.startswith("sha256:"):
        return value.removeprefix("sha256:")[:8]
    return "none" if value is None else value
