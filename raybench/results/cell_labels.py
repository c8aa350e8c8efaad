"""Labels of trials that identify one cell each."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from raybench.core.cell import Cell
from raybench.core.labels import value_label
from raybench.results.columns import TRIALS

_NAMES = {column.leaf: column.name for column in TRIALS if column.leaf} | {"workload.digest": "code"}
_REPEAT = re.compile(r", repeat \d+$")


def without_repeat(label: str | None) -> str:
    """Remove the repeat number from a label."""
    return _REPEAT.sub("", label or "")


def differences(cell_id: str, cell: Cell, others: Iterable[Cell]) -> str:
    """Return the settings in which a cell differs from others, such as `batch 64, code 3fa2b1c8`.

    Returns the cell's id if there is no such setting.
    """
    own_leaves, other_leaves = cell.leaves(), [other.leaves() for other in others]
    names = dict.fromkeys([*own_leaves, *(name for other in other_leaves for name in other)])
    leaf_names = [name for name in names if any(other.get(name) != own_leaves.get(name) for other in other_leaves)]
    return ", ".join(value_label(_name(leaf), _value(own_leaves.get(leaf))) for leaf in leaf_names) or cell_id


def extended(label: str, words: str) -> str:
    """Prepend words to a label.

    They come first because tables truncate long names at the end.
    """
    return f"{words}, {label}"


def _name(leaf: str) -> str:
    return _NAMES.get(leaf, leaf.removeprefix("settings."))


def _value(value: Any) -> Any:
    if isinstance(value, str) and value.startswith("sha256:"):
        return value.removeprefix("sha256:")[:8]
    return "none" if value is None else value
