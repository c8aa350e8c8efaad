"""`raybench import`."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from raybench.cli import options as opt
from raybench.cli.terminal import say
from raybench.core.options import RESULTS
from raybench.core.text import plural

EPILOG = """\b
Examples:
  raybench import colab.zip
  raybench import colab.zip workstation.zip --results all-machines
  raybench import http://mlflow.example:5000
"""


@click.command("import", epilog=EPILOG)
@click.argument("sources", metavar="FILE…", nargs=-1, required=True)
@opt.results
def command(sources: tuple[str, ...], results: Path) -> int:
    """Add the results in FILE… to the results folder.

    FILE is a zip file of `raybench export`, or an MLflow store: its URI or its .db file. Existing results are not
    changed, and none is added twice.
    """
    from contextlib import ExitStack

    from raybench.results.archive import extracted, import_folder
    from raybench.tracking.store import downloaded, is_store, store_from_uri

    names: dict[str, None] = {}
    with ExitStack() as stack:  # all are checked before anything is written
        folders = []
        for source in sources:
            if is_store(source):
                parts, left_out = stack.enter_context(downloaded(store_from_uri(source)))
                if left_out:
                    say(f"{source}: {plural(left_out, 'unfinished run')} left out; import again later")
            else:
                parts = [stack.enter_context(extracted(Path(source)))]
            folders += [(source, folder) for folder in parts]
        for source, folder in folders:
            added, known = import_folder(folder, results, source)
            names[folder.name] = None
            there = f", {known:,} already there" if known else ""
            say(f"{source}: {folder.name}: {plural(added, 'new run')}{there}")
    option = "" if results == RESULTS else f" --results {shlex.quote(str(results))}"
    for name in names:
        say(f"`raybench report {name}{option}` shows them.")
        say(f"`raybench grid {name}{option}` runs the grid here{_code(results / name)}.")
    return 0


def _code(folder: Path) -> str:
    """Return where a grid with code of its own runs, which is not imported; empty if it has none."""
    from raybench.core.code_state import DIRTY
    from raybench.results.history import GridHistory

    history = GridHistory.read(folder)
    has_code = any(run.cell.workload.digest for run in history.attempts.values() if run.cell)
    commit = str(history.executions[-1].made_with.get("commit") or "") if history.executions else ""
    changed = ", which had uncommitted changes" if commit.endswith(DIRTY) else ""
    at = f" at commit {commit.removesuffix(DIRTY)}{changed}" if commit else ""
    return f", in the folder of its code{at}" if has_code else ""
