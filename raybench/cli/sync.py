"""`raybench sync`."""

from __future__ import annotations

import os
from difflib import get_close_matches
from pathlib import Path

import click

from raybench.cli import options as opt
from raybench.cli.terminal import say


@click.command("sync", epilog="Example: raybench sync --tracking-uri http://mlflow.example:5000")
@opt.results
@opt.tracking_uri
@click.argument("grids", nargs=-1, metavar="[GRID…]")
def command(results: Path, tracking_uri: str | None, grids: tuple[str, ...]) -> int:
    """Update MLflow from the journals, for the given grids or for all in the results folder.

    Complete runs in the store are not changed, and nothing is written twice.
    """
    # The user waits for this, so a slow server gets more time than during a grid, which continues without it.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "60")
    from raybench.errors import UsageError
    from raybench.results.history import GridHistory
    from raybench.results.journal import JOURNAL, grids_in
    from raybench.results.lock import locked
    from raybench.tracking.store import resolve
    from raybench.tracking.sync import sync

    recorded = grids_in(results)
    unknown = [name for name in grids if name not in recorded]
    if unknown or not recorded:
        problem = f"no journal of {', '.join(unknown)}" if unknown else "no journal"
        matches = get_close_matches(unknown[0], recorded, n=1) if unknown else []
        hint = f"; did you mean {matches[0]}?" if matches else f"; use one of {', '.join(recorded)}" if recorded else ""
        raise UsageError(f"{problem} in {results}{hint}")
    store = resolve(results, tracking_uri)
    with locked(results, "raybench sync"):
        for name in grids or recorded:
            report = sync(GridHistory.recover(results / name / JOURNAL), store, name)
            say(f"{name}: {report}")
    return 0
