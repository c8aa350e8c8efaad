"""What makes two cells the same: the digest of everything that can change a result, and of nothing else.

A *cell* is a point of the grid, a *trial* a cell with a repeat number, an *attempt* one try at a trial. A setting that
came later appears in a cell only where it differs from its default, so that what was measured before keeps its name.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

SCHEMA = 1
"""The form of a cell; raised when a field changes its meaning."""

ID_DIGITS = 12


def canonical(cell: Mapping[str, Any]) -> str:
    """A cell, or another tree of plain values, as canonical JSON: keys sorted, no spaces, floats as Python prints them.

    Raises:
        ValueError: a number is not finite, which no JSON can say.
    """
    return json.dumps(cell, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(tree: Mapping[str, Any]) -> str:
    """The first 12 hex digits of the SHA-256 of a tree's canonical JSON."""
    return hashlib.sha256(canonical(tree).encode()).hexdigest()[:ID_DIGITS]


AFTERWARDS = frozenset({"warmup_epochs"})
"""Fields of a cell that change no training: they say which of its epochs count, and may change after it."""


def cell_id(cell: Mapping[str, Any]) -> str:
    """The digest of a cell without the fields that apply only afterwards (`AFTERWARDS`)."""
    return digest({name: value for name, value in cell.items() if name not in AFTERWARDS})


def trial_id(cell: str, repeat: int) -> str:
    """The identity of one repeat (from 0) of a cell."""
    return f"{cell}-r{repeat}"


SYNTHETIC = "-synthetic"
"""How the name of a data set ends whose examples are made up."""


SMOKE = "~smoke"
"""How the name of a grid ends that was cut to see whether it runs; a grid file cannot give itself such a name."""


def is_smoke(grid: str | None) -> bool:
    """Whether results of a grid of this name are those of a grid that was cut, and say nothing of the grid."""
    return bool(grid) and str(grid).endswith(SMOKE)


def leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf of a cell with its dotted name (`settings.batch_size`); a list is a leaf."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
