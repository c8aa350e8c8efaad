"""`raybench sync`."""

from __future__ import annotations

import os
from difflib import get_close_matches
from pathlib import Path

import click

from raybench.cli import options as opt


@click.command("sync", epilog="Example: raybench sync --tracking-uri http://mlflow.example:5000")
@opt.results
@opt.tracking_uri
@click.argument("grids", nargs=-1, metavar="[GRID…]")
def command(results: Path, tracking_uri: str | None, grids: tuple[str, ...]) -> int:
    """Bring MLflow up to the journal, for the named grids or for all in the results folder.

    The journal has everything; what is in the store already is left as it is, and nothing gets there twice.
    """
    # A person waits for it, and for a server that is slow, where a grid would go on without.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "60")
    from raybench.errors import UsageError
    from raybench.resume import recovered
    from raybench.tracking.journal import JOURNAL
    from raybench.tracking.lock import locked
    from raybench.tracking.store import resolve
    from raybench.tracking.sync import sync

    there = sorted(path.parent.name for path in results.glob(f"*/{JOURNAL}"))
    unknown = [name for name in grids if name not in there]
    if unknown or not there:
        what = f"no journal of {', '.join(unknown)}" if unknown else "no journal"
        near = get_close_matches(unknown[0], there, n=1) if unknown else []
        has = f"; did you mean {near[0]}?" if near else f"; it has {', '.join(there)}" if there else ""
        raise UsageError(f"{what} in {results}{has}")
    store = resolve(results, tracking_uri)
    with locked(results, "raybench sync"):
        for name in grids or there:
            recovered(results / name / JOURNAL)
            report = sync(results / name / JOURNAL, store, name)
            click.echo(f"{name}: {report}")
    return 0
