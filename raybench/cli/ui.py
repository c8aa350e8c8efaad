"""`raybench ui`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click


@click.command("ui", epilog="Example: raybench ui --port 5001")
@click.option(
    "--results",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("raybench-results"),
    help="The results folder.",
    show_default=True,
)
@click.option("--tracking-uri", metavar="URI", help="The MLflow store, where it is not the results folder's own.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", default=5000, show_default=True, help="The port to listen on.")
def command(results: Path, tracking_uri: str | None, host: str, port: int) -> None:
    """Serve the MLflow UI on the store that `raybench grid` writes to, until Ctrl-C."""
    from raybench.errors import UsageError
    from raybench.tracking.store import is_server, redact, resolve

    store = resolve(results, tracking_uri)
    if is_server(store.uri):
        click.echo(f"The runs are in the MLflow server at {redact(store.uri)}: open it in a browser.")
        return
    if store.path and not store.path.exists():
        raise UsageError(f"no runs in {store.path}: run a grid first, or name the results folder with --results")
    click.echo(f"MLflow UI on http://{host}:{port} (Ctrl-C ends it); store: {redact(store.uri)}")
    arguments = ["server", "--backend-store-uri", store.uri, "--host", host, "--port", str(port)]
    if store.artifacts:
        arguments += ["--default-artifact-root", store.artifacts]
    os.execv(sys.executable, [sys.executable, "-m", "mlflow", *arguments])
