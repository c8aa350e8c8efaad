"""`raybench grid`."""

from __future__ import annotations

from pathlib import Path

import click

from raybench.cli import options as opt
from raybench.errors import UsageError

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
@opt.grid_file
@opt.changes
@opt.where
@opt.repeats
@opt.smoke
@opt.synthetic_data
@opt.rerun
@opt.retry
@click.option("--strict", is_flag=True, help="Exit with status 3 if any cell cannot run here.")
@opt.results
@opt.tracking_uri
@opt.no_tracking
@click.option("--no-checks", is_flag=True, help="Skip the checks of weight decay and peak speed; not for results.")
@opt.address
@click.option("--timing", is_flag=True, help="Print at the end how long each phase of the command took.")
@click.option(
    "--inline",
    is_flag=True,
    help="Run trials in this process without Ray, for a debugger. The results are those of a separate grid, "
    "NAME~inline.",
)
def command(
    file: Path,
    changes: tuple[str, ...],
    where: tuple[str, ...],
    repeats: int | None,
    smoke: bool,
    synthetic_data: bool,
    rerun: bool,
    retry: tuple[str, ...],
    strict: bool,
    results: Path,
    tracking_uri: str | None,
    no_tracking: bool,
    no_checks: bool,
    address: str | None,
    timing: bool,
    inline: bool,
) -> int:
    """Run the missing trials of the grid in FILE and print the comparison.

    Each trial trains a model in its own process on its own device. All results are kept: the same command again runs
    only the missing trials.
    """
    from raybench.execution.executors import make_executor
    from raybench.planning.grid_options import read_grid, selection

    if no_tracking and tracking_uri:
        raise UsageError("--no-tracking and --tracking-uri exclude each other; use one of them")
    spec = read_grid(file, changes, repeats, synthetic_data, smoke, inline=inline)
    # Slow imports come only now, so that a wrong file is reported at once.
    executor = make_executor(address, inline)  # measures the load of other programs during the slow imports
    from raybench.cli.end_view import show_end
    from raybench.cli.notebook import progress_display
    from raybench.run import DEFAULT_STORE, Options, run_grid

    options = Options(
        results,
        tracking=None if no_tracking else tracking_uri or DEFAULT_STORE,
        where=selection(where, spec),
        retry=frozenset(retry),
        rerun=rerun,
        strict=strict,
        checks=not no_checks,
    )
    display = progress_display(ray=not inline, mlflow=not no_tracking)
    if not timing:
        outcome = run_grid(spec, executor, display, options)
        show_end(outcome)
        return outcome.exit_status
    from raybench.cli.console import page
    from raybench.cli.timing import TimedListener

    view = TimedListener(display)
    outcome = run_grid(spec, executor, view, options)
    show_end(outcome)
    view.stop()
    view.show(page())
    return outcome.exit_status
