"""`raybench grid`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from raybench.cli import options as opt

EPILOG = """\b
Examples:
  raybench grid grids/quickstart.yaml
  raybench grid grids/cifar_cpu.yaml --set axes.batch_size=[64,128] --repeats 3
  raybench grid grids/cifar_tpu_vs_gpu.yaml --where device=gpu --skip-missing
\b
Exit status: 0 done; 1 a trial failed or was lost; 2 wrong use, nothing started; 3 something could not run here;
130 stopped by you.
"""

RETRIED = ("oom", "diverged", "timeout", "failed", "lost", "killed", "completed")


@click.command("grid", epilog=EPILOG)
@opt.grid_file
@opt.changes
@opt.where
@opt.repeats
@click.option("--fresh", is_flag=True, help="Run everything again, also what is done.")
@click.option(
    "--retry",
    multiple=True,
    metavar="STATUS",
    type=click.Choice(RETRIED),
    help="Run trials that ended so again: --retry failed.",
)
@click.option("--skip-missing", is_flag=True, help="What no machine here can run is no reason for exit status 3.")
@opt.results
@opt.tracking_uri
@opt.address
@click.option("--inline", is_flag=True, help="Trials in this process, without Ray: for a debugger, not for numbers.")
def command(
    file: Path,
    changes: tuple[str, ...],
    where: tuple[str, ...],
    repeats: int | None,
    fresh: bool,
    retry: tuple[str, ...],
    skip_missing: bool,
    results: Path,
    tracking_uri: str | None,
    address: str | None,
    inline: bool,
) -> int:
    """Run what is missing of the grid in FILE, and print the comparison.

    Each trial trains a real model in a process of its own, on a device of its own. Everything is kept: the same
    command again runs only what is missing, and prints the same table.
    """
    from raybench.spec import load_grid

    spec = load_grid(file, opt.all_changes(changes, repeats))
    # Only now what takes time to load: a wrong file is told at once.
    from raybench.cli.display import Display
    from raybench.cli.summary import show
    from raybench.run import Options, run_grid

    options = Options(results, tracking_uri, opt.selection(where, spec), frozenset(retry), fresh, skip_missing)
    outcome = run_grid(spec, _executor(address, inline), Display(), options)
    show(outcome)
    return outcome.exit_status


def _executor(address: str | None, inline: bool) -> Any:
    if inline:
        from raybench.execution.inline import InlineExecutor

        return InlineExecutor()
    from raybench.execution.lazy import LazyRay

    return LazyRay(address)
