"""The requested part of a grid and changes to it, from options of the command line or of Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from raybench.config import GridSpec, load_grid
from raybench.config.prices import PriceList
from raybench.core.identity import INLINE
from raybench.core.text import format_value, is_written
from raybench.errors import UsageError, nearest
from raybench.planning.expand import AVAILABLE
from raybench.planning.smoke import smoke_grid


def requested_grid(
    source: Path | Mapping[str, Any],
    *,
    changes: Sequence[str] = (),
    where: Sequence[str] = (),
    repeats: int | None = None,
    until: str | None = None,
    synthetic_data: bool = False,
    smoke: bool = False,
    inline: bool = False,
    prices: Path | None = None,
    dashes: str = "--",
    parts: Mapping[tuple[str | int, ...], str] | None = None,
) -> tuple[GridSpec, list[tuple[str, str]]]:
    """Read a grid with changes, and the filter on its cells.

    Messages name an option with dashes before its name, and those that have set `parts` of a mapping by their paths.
    """
    by_option = {}
    if until is not None:
        most = "" if repeats is None else f", at_most: {repeats}"
        by_option[f"{dashes}until"] = f"repeats={{until: {until}{most}}}"
    elif repeats is not None:
        by_option[f"{dashes}repeats"] = f"repeats={repeats}"
    if synthetic_data:
        by_option["--synthetic-data" if dashes else "synthetic_data"] = "synthetic_data=true"
    spec = load_grid(source, changes, f"{dashes}set", by_option, parts)
    spec._prices = PriceList.read(prices) if prices else PriceList()
    cells = selection(where, spec, f"{dashes}where")
    spec = spec.model_copy(update={"name": f"{spec.name}{INLINE}"}) if inline else spec
    return (smoke_grid(spec, cells), []) if smoke else (spec, cells)


def selection(texts: Sequence[str], spec: GridSpec, option: str = "--where") -> list[tuple[str, str]]:
    """Parse `AXIS=VALUE` texts.

    Each value is normalized to the plan's notation: 5.0e-4, 0.0005 and 5e-4 are equal. `device=available` stands for
    the devices that can run.
    """
    axes = spec.values(included=True)
    pairs = []
    for text in texts:
        axis, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not axis:
            raise UsageError(f"{option} {text}: use AXIS=VALUE, such as {option} device=cpu")
        if axis not in axes:
            raise UsageError(f"{option} {text}: {spec.name} has no axis {axis}; {nearest(axis, axes)}")
        if (axis, value) == AVAILABLE:
            pairs.append(AVAILABLE)
            continue
        same = [format_value(known) for known in axes[axis] if is_written(value, known)]
        if not same:
            choices = ", ".join(dict.fromkeys(map(format_value, axes[axis])))
            raise UsageError(f"{option} {text}: {spec.name} has no {axis} {value}; use one of {choices}")
        pairs.append((axis, same[0]))
    return pairs
