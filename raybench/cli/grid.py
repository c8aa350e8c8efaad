"""`raybench grid`."""

from __future__ import annotations

from pathlib import Path

import click

from raybench.cli import options as opt
from raybench.core.options import GridOptions

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
@opt.GRID_FILE
@opt.options(GridOptions)
@opt.JSON
def command(source: Path, options: GridOptions, data: Path | None) -> int:
    """Run the missing trials of the grid in FILE and print the comparison.

    FILE is a grid file or the name of a grid that comes with raybench, such as quickstart, or that was imported. Each
    trial trains a model in its own process on its own device. All results are kept: the same command again runs only
    the missing trials.
    """
    from raybench.execution.base import make_executor
    from raybench.planning.grid_options import requested_grid

    spec = requested_grid(source, options)
    # Slow imports come only now, so that a wrong file is reported at once.
    return opt.run_and_show(spec, make_executor(options.address, options.inline), options, data)
