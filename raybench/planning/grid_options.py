"""The requested part of a grid and changes to it, from options of the command line or of Python."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from raybench.config import GridSpec, load_grid
from raybench.config.load import plain, shipped
from raybench.config.prices import PriceList
from raybench.core.identity import INLINE
from raybench.core.options import PlanOptions
from raybench.core.text import format_value, is_written
from raybench.errors import UsageError, nearest
from raybench.planning.expand import AVAILABLE
from raybench.planning.smoke import smoke_grid
from raybench.results.executions import Execution, in_order
from raybench.results.folder import execution_files, has_results, known_id


def requested_grid(
    source: Path | Mapping[str, Any],
    options: PlanOptions | None = None,
    *,
    dashes: str = "--",
    parts: Mapping[tuple[str | int, ...], str] | None = None,
) -> GridSpec:
    """Read a grid with the changes and the filter of options.

    Messages name an option with dashes before its name, and those that have set `parts` of a mapping by their paths.
    """
    options = options or PlanOptions()
    by_option = {}
    if options.until is not None:
        most = "" if options.repeats is None else f", at_most: {options.repeats}"
        by_option[f"{dashes}until"] = f"repeats={{until: {options.until}{most}}}"
    elif options.repeats is not None:
        by_option[f"{dashes}repeats"] = f"repeats={options.repeats}"
    if options.synthetic_data:
        by_option["--synthetic-data" if dashes else "synthetic_data"] = "synthetic_data=true"
    changes = _texts(options.set, lambda value: json.dumps(plain(value), default=str))
    text = None
    if isinstance(source, Path) and (text := _imported(source, options.folder)) is not None:
        source = source.with_suffix(".yaml")
    spec = load_grid(source, changes, f"{dashes}set", by_option, parts, text)
    spec._prices = PriceList.read(Path(options.prices), options.terms) if options.prices else PriceList()
    spec._where = _filter(_texts(options.where, format_value), spec, f"{dashes}where")
    spec = spec.model_copy(update={"name": f"{spec.name}{INLINE}"}) if options.inline else spec
    return smoke_grid(spec) if options.smoke else spec


def _imported(source: Path, results: Path) -> str | None:
    """Return the file of a grid that was imported, by its name; None for any other source.

    Its paths are relative to the current folder, as the code is not imported.
    """
    folder = results / source
    if source.exists() or len(source.parts) != 1 or not has_results(folder):
        return None
    executions = in_order([read for file in execution_files(folder) if (read := Execution.read(file))])
    is_own = all(execution.origin == known_id(results) for execution in executions)
    return None if not executions or (is_own and shipped(source) != source) else executions[-1].grid or None


def _texts(values: Mapping[str, Any] | Sequence[str], text: Callable[[Any], str]) -> list[str]:
    """Return `NAME=VALUE` texts."""
    return [f"{name}={text(value)}" for name, value in values.items()] if isinstance(values, Mapping) else [*values]


def _filter(texts: Sequence[str], spec: GridSpec, option: str) -> list[tuple[str, str]]:
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
        same = [format_value(written) for written in axes[axis] if is_written(value, written)]
        if not same:
            choices = ", ".join(dict.fromkeys(map(format_value, axes[axis])))
            raise UsageError(f"{option} {text}: {spec.name} has no {axis} {value}; use one of {choices}")
        pairs.append((axis, same[0]))
    return pairs
