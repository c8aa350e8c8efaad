"""Cell identity: a digest of exactly those values that can change results.

A *cell* is a point of the grid, a *trial* a cell with a repeat number, an *attempt* one execution of a trial. A setting
that was added in a later version is part of a cell only if it differs from its default, so that older cells keep their
identity.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from operator import add
from typing import Any
from uuid import uuid4

SCHEMA = 1
"""Version of the format of a cell; raised when a field changes its meaning."""

ID_DIGITS = 12


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical(tree: Any) -> str:
    """A cell, or another tree of plain values, as canonical JSON.

    Keys are sorted, there are no spaces, and floats are written as Python prints them.

    Raises:
        ValueError: a number is not finite, which JSON cannot represent.
    """
    return _ENCODER.encode(tree)


def digest(tree: Mapping[str, Any]) -> str:
    """The first 12 hex digits of the SHA-256 of a tree's canonical JSON."""
    return hashlib.sha256(canonical(tree).encode()).hexdigest()[:ID_DIGITS]


_GAP = f"gap {uuid4().hex} "
"""Beginning of the text that stands for a gap, which occurs in no tree."""


class DigestTemplate:
    """Digests of trees that differ in some leaves only.

    Encoding trees as JSON takes most of the time of planning a large grid. Here one is encoded once, with gaps for
    these leaves.

    Attributes:
        gaps: the dotted names of the leaves (as in `leaves`), in the order of the JSON; those that it lacks are left
            out.
    """

    def __init__(self, tree: Mapping[str, Any], names: Collection[str]) -> None:
        pieces = re.split(f'"{_GAP}([^"]+)"', canonical(_with_gaps(tree, names))) if names else [canonical(tree)]
        self.gaps = pieces[1::2]
        self._begun = hashlib.sha256(pieces[0].encode())
        self._after = pieces[2::2]

    def digest(self, texts: Sequence[str]) -> str:
        """The digest of a tree, given the canonical JSON of each leaf in `gaps`."""
        digest = self._begun.copy()
        digest.update("".join(map(add, texts, self._after)).encode())
        return digest.hexdigest()[:ID_DIGITS]


def _with_gaps(tree: Mapping[str, Any], names: Collection[str], prefix: str = "") -> dict[str, Any]:
    parts: dict[str, Any] = {}
    for key, value in tree.items():
        name = f"{prefix}{key}"
        nested = isinstance(value, dict)
        parts[key] = f"{_GAP}{name}" if name in names else _with_gaps(value, names, f"{name}.") if nested else value
    return parts


AFTERWARDS = frozenset({"warmup_epochs"})
"""Fields of a cell that do not affect training and may change after it.

They say which of its epochs count as steady."""


def cell_id(cell: Mapping[str, Any]) -> str:
    """The digest of a cell without the fields in `AFTERWARDS`."""
    return digest(identifying(cell))


def identifying(cell: Mapping[str, Any]) -> dict[str, Any]:
    """A cell without the fields in `AFTERWARDS`."""
    return {name: value for name, value in cell.items() if name not in AFTERWARDS}


def trial_id(cell: str, repeat: int) -> str:
    """The identity of one repeat (from 0) of a cell."""
    return f"{cell}-r{repeat}"


SYNTHETIC = "-synthetic"
"""Suffix of the name of a synthetic data set."""


SMOKE = "~smoke"
"""Suffix of the name of a grid in a smoke run.

A grid file cannot give itself such a name."""


INLINE = "~inline"
"""Suffix of the name of a grid whose trials ran in the command's own process, before that of a smoke run."""


COMPARE = "~compare"
"""Suffix of the name of a grid that runs two versions of another one, to compare them."""


def is_inline(grid: str | None) -> bool:
    """Return whether a grid name is that of trials in the command's own process.

    Their times are not results of the grid.
    """
    return INLINE in (grid or "")


def is_smoke(grid: str | None) -> bool:
    """Return whether a grid name is that of a smoke run.

    Results of a smoke run do not count for the grid.
    """
    return bool(grid) and str(grid).endswith(SMOKE)


def leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every leaf of a cell with its dotted name (`settings.batch_size`).

    A list is a leaf.
    """
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
