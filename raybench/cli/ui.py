"""`raybench ui`."""

from __future__ import annotations

import errno
import os
import socket
import sys
from pathlib import Path

import click

from raybench.errors import UsageError
from raybench.tracking.store import HIDDEN, Store, is_server, resolve


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
@click.option("--port", type=click.IntRange(1, 65535), default=5000, show_default=True, help="The port to listen on.")
def command(results: Path, tracking_uri: str | None, host: str, port: int) -> None:
    """Serve the MLflow UI on the store that `raybench grid` writes to, until Ctrl-C."""
    store = resolve(results, tracking_uri)
    if is_server(store.uri):
        click.echo(f"The runs are in the MLflow server at {in_a_browser(store)}: open it in a browser.")
        return
    if store.path and not store.path.exists():
        raise UsageError(f"no runs in {store.path}: run a grid first, or name the results folder with --results")
    _check_free(host, port)
    click.echo(f"MLflow UI on http://{host}:{port} (Ctrl-C ends it); store: {store}")
    sys.stdout.flush()  # what is in the buffer would not survive exec
    # By the environment, since anybody on the machine can read a command line.
    os.environ["MLFLOW_BACKEND_STORE_URI"] = store.uri
    if store.artifacts:
        os.environ["MLFLOW_DEFAULT_ARTIFACT_ROOT"] = store.artifacts
    for name in ("MLFLOW_DISABLE_TELEMETRY", "DO_NOT_TRACK"):
        os.environ.setdefault(name, "true")
    os.execv(sys.executable, [sys.executable, "-m", "mlflow", "server", "--host", host, "--port", str(port)])


def in_a_browser(store: Store) -> str:
    """The address of an MLflow server as a person opens it: nothing secret, and no stars in its place either."""
    return str(store).replace(f"{HIDDEN}@", "")


def _check_free(host: str, port: int) -> None:
    """MLflow would tell it with a traceback.

    Raises:
        UsageError: nothing can listen there.
    """
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(place)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise UsageError(f"port {port} is in use: name another with --port {port % 65535 + 1}") from None
        raise UsageError(f"cannot listen on {host}:{port}: {error.strerror}") from None
