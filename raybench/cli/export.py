"""`raybench export`."""

from __future__ import annotations

from pathlib import Path

import click

from raybench.cli import options as opt
from raybench.cli.terminal import say
from raybench.core.text import plural

EPILOG = """\b
Examples:
  raybench export grids/quickstart.yaml
  raybench export quickstart -o workstation.zip
  raybench export quickstart -o http://mlflow.example:5000

\b
On the other machine:
  raybench import workstation.zip
  raybench report grids/quickstart.yaml
"""


@click.command("export", epilog=EPILOG)
@click.argument("grid", metavar="GRID")
@opt.results
@click.option(
    "-o", "--output", metavar="FILE", help="The zip file to write, or the URI of an MLflow store.  [default: GRID.zip]"
)
def command(grid: str, results: Path, output: str | None) -> int:
    """Write the results of GRID to a zip file for a different machine, or to an MLflow store.

    GRID is a grid file, the name of a grid in the results folder, or its folder. The zip file has the results, the grid
    file as it ran, the commit and the packages, and the errors of failed trials; no checkpoints, data or code. Trials
    that still run are left out. In a store, only missing runs are written.
    """
    from raybench.reporting.build import folder_of
    from raybench.results.archive import write_archive
    from raybench.tracking.store import is_store, store_from_uri

    folder = folder_of(grid, results) or Path(grid)
    if output and is_store(output):
        from raybench.reporting.build import from_grid, one_grid
        from raybench.reporting.page import tracked
        from raybench.tracking.writer import fill

        store, source = store_from_uri(output), one_grid([str(folder)], results)
        assert source.history
        written = fill(store, source.history, tracked(from_grid(source)))
        say(f"{folder.name}: {plural(written, 'run')} written to {store}")
        return 0
    path = Path(output or f"{folder.name}.zip")
    ended, running = write_archive(folder, path)
    say(f"written: {path} ({plural(ended, 'run')}, {path.stat().st_size / 1000:,.0f} kB)")
    if running:
        say(f"{plural(running, 'unfinished run')} left out; export again later")
    return 0
