"""Cell identity: a digest of exactly those values that can change results.

A *cell* is a point of the grid, a *trial* a cell with a repeat number, an *attempt* one execution of a trial.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode
"""Encode a tree of plain values as JSON with sorted keys and without spaces."""


def digest(tree: Mapping[str, Any]) -> str:
    """The first 12 hex digits of the SHA-256 of a tree's canonical JSON."""
    return hashlib.sha256(canonical(tree).encode()).hexdigest()[:12]


AFTERWARDS = frozenset({"warmup_epochs"})
"""Fields of a cell that do not affect training: they say which of its epochs count as steady."""


def trial_id(cell: str, repeat: int) -> str:
    """The identity of one repeat (from 0) of a cell."""
    return f"{cell}-r{repeat}"


SYNTHETIC = "-synthetic"  # suffix of the name of a synthetic data set

SMOKE, INLINE, COMPARE, NOISE = "~smoke", "~inline", "~compare", "~noise"
"""Suffixes of the names of grids, which no grid file can have: of a smoke run, of trials in the command's own process,
and of a comparison of two versions."""


def is_inline(grid: str) -> bool:
    """Return whether a grid's trials ran in the command's own process, so that they are not results of the grid."""
    return INLINE in grid


def is_smoke(grid: str | None) -> bool:
    """Return whether a grid name is that of a smoke run, whose results do not count for the grid."""
    return (grid or "").endswith(SMOKE)


def leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every leaf of a cell with its dotted name (`settings.batch_size`); a list is a leaf."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
