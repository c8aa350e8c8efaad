"""Options shared by several verbs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

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
smoke: Decorator = click.option(
    "--smoke",
    is_flag=True,
    help="Only see that it runs: a few cells of it, each a few steps on the CPU, in a minute or two. Results are kept "
    "apart, as the grid NAME~smoke, and are no results of the grid.",
)
synthetic_data: Decorator = click.option(
    "--synthetic-data",
    is_flag=True,
    help="Train on generated data of the same shape, without a download: times are real, accuracies are not.",
)
address: Decorator = click.option(
    "--address", metavar="ADDRESS", help="A Ray cluster (auto, or ray://host:10001); else this machine."
)
