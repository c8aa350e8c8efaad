"""Run a grid from the command line: the options that `raybench grid` and `raybench run` share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raybench.cli import options as opt
from raybench.errors import UsageError

if TYPE_CHECKING:
    from raybench.config import GridSpec
    from raybench.execution.base import Executor

_NAMES = ("rerun", "retry", "keep_going", "results", "tracking_uri", "no_tracking")


def with_execution(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Give a verb the options of execution, as a function `run` of a grid, a filter on its cells and an executor."""

    @wraps(verb)
    def with_run(**options: Any) -> Any:
        return verb(run=partial(_run, **{name: options.pop(name) for name in _NAMES}), **options)

    decorated: Callable[..., Any] = with_run
    for name in reversed(_NAMES):
        decorated = getattr(opt, name)(decorated)
    return decorated


def _run(
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
