"""Options shared by several verbs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from raybench.core.status import TrialStatus
from raybench.errors import UsageError

if TYPE_CHECKING:
    from raybench.config import GridSpec
    from raybench.execution.base import Executor

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

changes: Decorator = click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change a field of the file: --set axes.batch_size=[64,128]. Repeatable.",
)
where: Decorator = click.option(
    "--where",
    multiple=True,
    metavar="AXIS=VALUE",
    help="Only these configurations: --where device=cpu; device=available for those that can run here. Repeatable: "
    "values of one axis are alternatives.",
)
repeats: Decorator = click.option(
    "--repeats",
    type=click.IntRange(min=1),
    metavar="N",
    help="Repeats of each configuration, instead of those in the file; with --until, the most.",
)
until: Decorator = click.option(
    "--until",
    metavar="PERCENT",
    help="Repeat 4 to 10 times, until each ratio is certain to ± this, such as 5%. With `verdict`, until one side is "
    "shown to be faster, or both to be equally fast.",
)
results: Decorator = click.option(
    "--results",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("raybench-results"),
    show_default=True,
    help="Folder for results and, by default, the MLflow store.",
)
tracking_uri: Decorator = click.option(
    "--tracking-uri", metavar="URI", help="MLflow store, instead of the one in the file or in MLFLOW_TRACKING_URI."
)
rerun: Decorator = click.option("--rerun", is_flag=True, help="Run all trials again, including finished ones.")
keep_going: Decorator = click.option(
    "--keep-going", is_flag=True, help="Do not stop if the first trials show that all would fail in the same way."
)
retry: Decorator = click.option(
    "--retry",
    multiple=True,
    metavar="STATUS",
    type=click.Choice([each.value for each in TrialStatus if each is not TrialStatus.SKIPPED], case_sensitive=False),
    help="Run trials with this status again, such as failed. Repeatable.",
)
no_tracking: Decorator = click.option("--no-tracking", is_flag=True, help="Write nothing to MLflow.")
address: Decorator = click.option(
    "--address",
    metavar="ADDRESS",
    help="Ray cluster of which this machine is a node: auto or HOST:6379. By default the one in RAY_ADDRESS, or else "
    "this machine alone.",
)
wait_for_nodes: Decorator = click.option(
    "--wait-for-nodes",
    type=click.FloatRange(min=0),
    default=30,
    show_default=True,
    metavar="MINUTES",
    help="How long to wait for nodes that a device needs, if the cluster starts nodes for what waits; 0 to skip them.",
)

prices: Decorator = click.option(
    "--prices",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="CSV of prices that replace the grid's: device (name, model or kind), price_per_hour; optional: source, date, "
    "currency.",
)

_DIRECTIONS = tuple(
    click.option(
        f"--{word}-is-better",
        f"{word}_is_better",
        multiple=True,
        metavar="METRIC",
        help=f"Of this metric {amount} is better, if its name does not say it. Repeatable.",
    )
    for word, amount in (("lower", "less"), ("higher", "more"))
)


def directions(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Give a verb the metrics whose direction the user says (`directions`): whether more is better, by name."""

    @wraps(verb)
    def with_directions(lower_is_better: tuple[str, ...], higher_is_better: tuple[str, ...], **options: Any) -> Any:
        said = dict.fromkeys(lower_is_better, False) | dict.fromkeys(higher_is_better, True)
        return verb(directions=said, **options)

    decorated: Callable[..., Any] = with_directions
    for add in reversed(_DIRECTIONS):
        decorated = add(decorated)
    return decorated


_OF_GRID: tuple[Decorator, ...] = (
    click.argument("source", metavar="FILE", type=click.Path(path_type=Path)),
    changes,
    where,
    repeats,
    until,
    prices,
    click.option(
        "--smoke",
        is_flag=True,
        help="Test whether the grid runs: a few configurations, a few steps each, on the CPU, in a minute or two. The "
        "results go to a separate grid, NAME~smoke.",
    ),
    click.option(
        "--synthetic-data",
        is_flag=True,
        help="Train on generated data of the same shape, without a download. Times are real, accuracies are not.",
    ),
    click.option(
        "--inline",
        is_flag=True,
        help="Run trials in this process without Ray, for a debugger. The results go to a separate grid, NAME~inline.",
    ),
)


def grid(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Give a verb the grid in FILE with its changes (`spec`), the filter on its cells, and how to execute them."""

    @wraps(verb)
    def with_grid(address: str | None, inline: bool, **options: Any) -> Any:
        from raybench.execution.base import make_executor
        from raybench.planning.grid_options import requested_grid

        names = ("source", "changes", "where", "repeats", "until", "smoke", "synthetic_data", "prices")
        spec, cells = requested_grid(**{name: options.pop(name) for name in names}, inline=inline)
        # Slow imports come only now, so that a wrong file is reported at once.
        return verb(spec=spec, cells=cells, executor=make_executor(address, inline), **options)

    decorated: Callable[..., Any] = with_grid
    for add in (address, *reversed(_OF_GRID)):
        decorated = add(decorated)
    return decorated


_OF_EXECUTION: dict[str, Decorator] = {
    "rerun": rerun,
    "retry": retry,
    "keep_going": keep_going,
    "results": results,
    "tracking_uri": tracking_uri,
    "no_tracking": no_tracking,
    "wait_for_nodes": wait_for_nodes,
}


def with_execution(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Give a verb the options of execution, as a function `run` of a grid, a filter on its cells and an executor."""

    @wraps(verb)
    def with_run(**options: Any) -> Any:
        return verb(run=partial(_run_and_show, **{name: options.pop(name) for name in _OF_EXECUTION}), **options)

    decorated: Callable[..., Any] = with_run
    for add in reversed(_OF_EXECUTION.values()):
        decorated = add(decorated)
    return decorated


def _run_and_show(
    spec: GridSpec,
    cells: list[tuple[str, str]],
    executor: Executor,
    results: Path,
    tracking_uri: str | None,
    no_tracking: bool,
    **options: Any,
) -> int:
    """Run a grid with a display of its progress, print the comparison, and return the exit status."""
    from raybench.cli.end_view import show_end
    from raybench.cli.live import Display
    from raybench.run import Options, run_grid

    tracking = tracking_of(tracking_uri, no_tracking)
    outcome = run_grid(spec, executor, Display(), Options(results, tracking=tracking, where=cells, **options))
    show_end(outcome)
    return outcome.exit_status


def tracking_of(uri: str | None, is_off: bool) -> str | None:
    """The MLflow store of a run by its options `--tracking-uri` and `--no-tracking`; None for none."""
    from raybench.run import DEFAULT_STORE

    if is_off and uri:
        raise UsageError("--no-tracking and --tracking-uri exclude each other; use one of them")
    return None if is_off else uri or DEFAULT_STORE
