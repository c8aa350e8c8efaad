"""`raybench import`."""

from __future__ import annotations

from pathlib import Path

import click

from raybench.cli import options as opt
from raybench.cli.terminal import say

EPILOG = """\b
Examples:
  raybench import colab.zip
  raybench import colab.zip workstation.zip --results all-machines
"""


@click.command("import", epilog=EPILOG)
@click.argument("files", metavar="FILE…", nargs=-1, required=True, type=click.Path(path_type=Path))
@opt.results
def command(files: tuple[Path, ...], results: Path) -> int:
    """Add the bundles in FILE… (of `raybench export`) to the results folder.

    Nothing there is changed, and what is known is not added again. Afterwards grid, plan, report and sync know the
    results of the other machines.
    """
    from raybench.results.bundle import import_bundle, read_bundle
    from raybench.results.journal import RESULTS

    bundles = list(map(read_bundle, files))  # all are checked before anything is written
    for bundle in bundles:
        done = import_bundle(bundle, results)
        known = f", {done.known:,} known already" if done.known else ""
        hosts = f" from {', '.join(done.hosts)}" if done.hosts else ""
        attempts = f"{done.attempts:,} new attempt{'' if done.attempts == 1 else 's'} at trials"
        say(f"{bundle.events.source}: {done.grid}: {attempts}{known}{hosts}")
    option = "" if results == RESULTS else f" --results {results}"
    for name in dict.fromkeys(bundle.events.grid for bundle in bundles):
        say(f"`raybench report {name}{option}` shows them; `raybench sync {name}{option}` adds them to MLflow.")
    return 0
