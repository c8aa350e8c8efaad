"""`raybench export`."""

from __future__ import annotations

from pathlib import Path

import click

from raybench.cli import options as opt
from raybench.cli.terminal import say

EPILOG = """\b
Examples:
  raybench export grids/quickstart.yaml
  raybench export quickstart -o workstation.zip --anonymous

\b
On the other machine:
  raybench import workstation.zip
  raybench report grids/quickstart.yaml
"""


@click.command("export", epilog=EPILOG)
@click.argument("grid", metavar="GRID")
@opt.results
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The bundle to write.  [default: GRID.zip]",
)
@click.option("--smoke", is_flag=True, help="Export the smoke run of the grid.")
@click.option(
    "--anonymous", is_flag=True, help="Replace the names of hosts and users, also in paths, by stable pseudonyms."
)
def command(grid: str, results: Path, output: Path | None, smoke: bool, anonymous: bool) -> int:
    """Write the results of GRID to one file, for `raybench import` or `raybench report` on another machine.

    GRID is a grid file, or the name of a grid in the results folder. The bundle has the journal, the grid file and plan
    of each execution, and the end of each trial's output, with checksums; no checkpoints, no data, no code. Trials that
    still run are left out.
    """
    from raybench.reporting.build import folder_of
    from raybench.results.bundle import SUFFIX, bundle_of, write_bundle

    bundle, unfinished = bundle_of(folder_of(grid, results, smoke) or Path(grid))
    for problem in bundle.events.problems:
        say(f"warning: {problem}", err=True)
    if anonymous:
        from raybench.results.pseudonyms import with_pseudonyms

        bundle = with_pseudonyms(bundle)
    path = output or Path(f"{bundle.events.grid}{SUFFIX}")
    write_bundle(bundle, path)
    trials = f"{bundle.attempts:,} attempt{'' if bundle.attempts == 1 else 's'} at trials"
    say(f"written: {path} ({trials}, {path.stat().st_size / 1000:,.0f} kB)")
    if unfinished:
        left_out = "1 unfinished attempt" if unfinished == 1 else f"{unfinished:,} unfinished attempts"
        ended = "it has" if unfinished == 1 else "they have"
        say(f"{left_out} left out; export again when {ended} ended")
    return 0
