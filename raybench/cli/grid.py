"""`raybench grid`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from raybench.cli import options as opt
from raybench.errors import UsageError

if TYPE_CHECKING:
    from raybench.config import GridSpec
    from raybench.execution.base import Executor

EPILOG = """\b
Examples:
  raybench grid grids/quickstart.yaml
  raybench grid grids/cifar_cpu.yaml --set axes.batch_size=[64,128]
  raybench grid grids/cifar_tpu_vs_gpu.yaml --where device=gpu
  raybench grid grids/cifar_tpu_vs_gpu.yaml --where device=available
  raybench grid grids/cifar_tpu_vs_gpu.yaml --smoke

\b
Exit status:
  0    done
  1    a trial failed or was lost
  2    wrong use; nothing was started
  3    no cell can run here (with --strict: not every cell)
  130  stopped by Ctrl-C
"""


@click.command("grid", epilog=EPILOG)
@opt.grid
@opt.rerun
@opt.retry
@click.option("--strict", is_flag=True, help="Exit with status 3 if any cell cannot run here.")
@opt.keep_going
@opt.results
@opt.tracking_uri
@opt.no_tracking
@click.option("--no-checks", is_flag=True, help="Skip the checks of weight decay and peak speed; not for results.")
def command(
    spec: GridSpec,
    cells: list[tuple[str, str]],
    executor: Executor,
    rerun: bool,
    retry: tuple[str, ...],
    strict: bool,
    keep_going: bool,
    results: Path,
    tracking_uri: str | None,
    no_tracking: bool,
    no_checks: bool,
) -> int:
    """Run the missing trials of the grid in FILE and print the comparison.

    FILE is a grid file or the name of a grid that comes with raybench, such as quickstart. Each trial trains a model in
    its own process on its own device. All results are kept: the same command again runs only the missing trials.
    """
    return run_requested(
        spec,
        cells,
        executor,
        results,
        tracking_uri,
        no_tracking,
        retry=frozenset(retry),
        rerun=rerun,
        strict=strict,
        checks=not no_checks,
        keep_going=keep_going,
    )


def run_requested(
    spec: GridSpec,
    cells: list[tuple[str, str]],
    executor: Executor,
    results: Path,
    tracking_uri: str | None,
    no_tracking: bool,
    **options: Any,
) -> int:
    """Run a grid with a display of its progress, print the comparison, and return the exit status.

    Args:
        options: of `raybench.run.Options`.
    """
    if no_tracking and tracking_uri:
        raise UsageError("--no-tracking and --tracking-uri exclude each other; use one of them")
    from raybench.cli.end_view import show_end
    from raybench.cli.live import progress_display
    from raybench.run import DEFAULT_STORE, Options, run_grid

    tracking = None if no_tracking else tracking_uri or DEFAULT_STORE
    display = progress_display(ray=executor.uses_ray, mlflow=not no_tracking)
    outcome = run_grid(spec, executor, display, Options(results, tracking=tracking, where=cells, **options))
    show_end(outcome)
    return outcome.exit_status
