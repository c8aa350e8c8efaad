"""Options that several verbs share, and what they mean."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from raybench.errors import UsageError

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

grid_file: Decorator = click.argument("file", type=click.Path(path_type=Path))
changes: Decorator = click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change a field of the file, in YAML: --set axes.batch_size=[64,128]. May be given again.",
)
where: Decorator = click.option(
    "--where", multiple=True, metavar="AXIS=VALUE", help="Only these cells: --where device=cpu. May be given again."
)
repeats: Decorator = click.option(
    "--repeats", type=click.IntRange(min=1), metavar="N", help="Repeats of each cell, instead of the file's."
)
results: Decorator = click.option(
    "--results",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("raybench-results"),
    show_default=True,
    help="The results folder: journals, trials, and MLflow's store where nothing else is named.",
)
tracking_uri: Decorator = click.option(
    "--tracking-uri", metavar="URI", help="The MLflow store, instead of the file's or MLFLOW_TRACKING_URI."
)
address: Decorator = click.option(
    "--address", metavar="ADDRESS", help="A Ray cluster (auto, or ray://host:10001); else this machine."
)


def pairs(texts: tuple[str, ...]) -> list[tuple[str, str]]:
    """`AXIS=VALUE` texts, taken apart.

    Raises:
        UsageError: one has no `=`.
    """
    found = []
    for text in texts:
        axis, equals, value = text.partition("=")
        if not equals or not axis:
            raise UsageError(f"--where {text}: say AXIS=VALUE, such as --where device=cpu")
        found.append((axis.strip(), value.strip()))
    return found


def all_changes(texts: tuple[str, ...], repeats: int | None) -> list[str]:
    """`--set` and the options that are short for one."""
    return [*texts, *([f"repeats={repeats}"] if repeats else [])]
