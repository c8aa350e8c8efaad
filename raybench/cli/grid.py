"""`raybench grid`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from raybench.cli import options as opt

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
  3    no configuration can run here
  130  stopped by Ctrl-C
"""


@click.command("grid", epilog=EPILOG)
@opt.grid
@opt.with_execution
@click.option("--no-checks", is_flag=True, help="Skip the checks of weight decay and peak speed; not for results.")
def command(
    spec: GridSpec, cells: list[tuple[str, str]], executor: Executor, run: Callable[..., int], no_checks: bool
) -> int:
    """Run the missing trials of the grid in FILE and print the comparison.

    FILE is a grid file or the name of a grid that comes with raybench, such as quickstart. Each trial trains a model in
    its own process on its own device. All results are kept: the same command again runs only the missing trials.
    """
    return run(spec, cells, executor, checks=not no_checks)
