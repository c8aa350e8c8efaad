"""`raybench grid`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from raybench.cli import options as opt
from raybench.errors import UsageError

if TYPE_CHECKING:
    from raybench.spec import GridSpec

EPILOG = """\b
Examples:
  raybench grid grids/quickstart.yaml
  raybench grid grids/cifar_cpu.yaml --set axes.batch_size=[64,128] --repeats 3
  raybench grid grids/cifar_tpu_vs_gpu.yaml --where device=gpu --skip-missing
  raybench grid grids/cifar_tpu_vs_gpu.yaml --smoke
  raybench grid grids/cifar_cpu.yaml --find-max-batch --where device=cpu
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
@opt.smoke
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
@click.option(
    "--find-max-batch",
    is_flag=True,
    help="Train nothing, but find the largest batch that fits on each device, in a fresh process for each try.",
)
@click.option("--inline", is_flag=True, help="Trials in this process, without Ray: for a debugger, not for numbers.")
def command(
    file: Path,
    changes: tuple[str, ...],
    where: tuple[str, ...],
    repeats: int | None,
    smoke: bool,
    fresh: bool,
    retry: tuple[str, ...],
    skip_missing: bool,
    results: Path,
    tracking_uri: str | None,
    address: str | None,
    find_max_batch: bool,
    inline: bool,
) -> int:
    """Run what is missing of the grid in FILE, and print the comparison.

    Each trial trains a real model in a process of its own, on a device of its own. Everything is kept: the same
    command again runs only what is missing, and prints the same table.
    """
    from raybench.spec import load_grid

    if smoke and find_max_batch:
        raise UsageError("--smoke and --find-max-batch ask for different things; give one of them")
    spec = opt.cut(load_grid(file, opt.all_changes(changes, repeats)), smoke)
    # Only now what takes time to load: a wrong file is told at once.
    if find_max_batch:
        return _find_max_batch(spec, _executor(address, inline), results, opt.selection(where, spec), skip_missing)
    from raybench.cli.display import Display
    from raybench.cli.summary import show
    from raybench.run import Options, run_grid

    options = Options(results, tracking_uri, opt.selection(where, spec), frozenset(retry), fresh, skip_missing)
    outcome = run_grid(spec, _executor(address, inline), Display(), options)
    show(outcome)
    return outcome.exit_status


def _find_max_batch(
    spec: GridSpec, executor: Any, results: Path, where: list[tuple[str, str]], skip_missing: bool
) -> int:
    from raybench import max_batch
    from raybench.cli.max_batch import show
    from raybench.cli.progress import fetch_with_progress, working
    from raybench.datasets import data_root
    from raybench.run import Options, ensure_data
    from raybench.workloads import read_reference

    base = spec.source_path.parent if spec.source_path else Path()
    ensure_data(read_reference(spec.workload, base), data_root(), fetch_with_progress)
    options = Options(results, where=where, skip_missing=skip_missing)
    with working() as tell:
        outcome = max_batch.find_max_batch(spec, executor, tell, options)
    show(outcome)
    return outcome.exit_status


def _executor(address: str | None, inline: bool) -> Any:
    if inline:
        from raybench.execution.inline import InlineExecutor

        return InlineExecutor()
    from raybench.execution.lazy import LazyRay

    return LazyRay(address)
