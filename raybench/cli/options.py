"""Options shared by several verbs, and their evaluation."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from raybench.errors import UsageError

if TYPE_CHECKING:
    from raybench.config import GridSpec

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

grid_file: Decorator = click.argument("file", type=click.Path(path_type=Path))
changes: Decorator = click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change a field of the file: --set axes.batch_size=[64,128]. Repeatable.",
)
where: Decorator = click.option(
    "--where", multiple=True, metavar="AXIS=VALUE", help="Only these cells: --where device=cpu. Repeatable."
)
repeats: Decorator = click.option(
    "--repeats", type=click.IntRange(min=1), metavar="N", help="Repeats of each cell, instead of those in the file."
)
results: Decorator = click.option(
    "--results",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("raybench-results"),
    show_default=True,
    help="Folder for journals, trials and, by default, the MLflow store.",
)
tracking_uri: Decorator = click.option(
    "--tracking-uri", metavar="URI", help="MLflow store; otherwise that of the file or of MLFLOW_TRACKING_URI."
)
smoke: Decorator = click.option(
    "--smoke",
    is_flag=True,
    help="Test whether the grid runs: a few cells, a few steps each, on the CPU, in a minute or two. The results are "
    "those of a separate grid, NAME~smoke.",
)
synthetic_data: Decorator = click.option(
    "--synthetic-data",
    is_flag=True,
    help="Train on generated data of the same shape, without a download. Times are real, accuracies are not.",
)
address: Decorator = click.option(
    "--address", metavar="ADDRESS", help="Ray cluster (auto or ray://host:10001) instead of this machine."
)


def cut(spec: GridSpec, smoke: bool) -> GridSpec:
    """The grid, scaled down if `smoke` is set."""
    return spec.as_smoke() if smoke else spec


def selection(texts: tuple[str, ...], spec: GridSpec) -> list[tuple[str, str]]:
    """Parse `AXIS=VALUE` texts.

    Each value is normalised to the plan's notation: 5.0e-4, 0.0005 and 5e-4 are equal.

    Raises:
        UsageError: a text has no `=`, or names an axis or a value that the grid does not have.
    """
    from raybench.planning.plan import format_value, is_written

    axes: dict[str, list[Any]] = {"device": ["cpu"]}
    axes |= {name: list(values) for name, values in spec.axes.items() if values != "available"}
    for entry in spec.include:
        for name, value in entry.items():
            axes[name] = [*axes.get(name, []), value]
    pairs = []
    for text in texts:
        axis, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not axis:
            raise UsageError(f"--where {text}: use AXIS=VALUE, such as --where device=cpu")
        if axis not in axes:
            matches = get_close_matches(axis, axes, n=1)
            hint = f"did you mean {matches[0]}?" if matches else f"use one of {', '.join(axes)}"
            raise UsageError(f"--where {text}: {spec.name} has no axis {axis}; {hint}")
        axis_values = [format_value(known) for known in axes[axis] if is_written(value, known)]
        if not axis_values and spec.axes.get(axis) != "available":
            choices = ", ".join(dict.fromkeys(map(format_value, axes[axis])))
            raise UsageError(f"--where {text}: {spec.name} has no {axis} {value}; use one of {choices}")
        pairs.append((axis, axis_values[0] if axis_values else value))
    return pairs


def all_changes(texts: tuple[str, ...], repeats: int | None, synthetic_data: bool) -> list[str]:
    """The changes of `--set` and of its shorthand options."""
    changes = [*texts, *([f"repeats={repeats}"] if repeats else [])]
    return [*changes, "synthetic_data=true"] if synthetic_data else changes


def executor(address: str | None, inline: bool) -> Any:
    """The executor: Ray on this machine or on a cluster, or this process."""
    if inline:
        from raybench.execution.inline import InlineExecutor

        return InlineExecutor()
    from raybench.execution.deferred_ray import DeferredRayExecutor

    return DeferredRayExecutor(address)
