"""`raybench ui`."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import click

from raybench.errors import UsageError
from raybench.tracking.store import HIDDEN, Store, is_server, resolve

ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    # Its runner of background jobs, which serve no training run, takes long to start and ends with tracebacks.
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
}


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
def command(results: Path, tracking_uri: str | None, host: str, port: int) -> int:
    """Serve the MLflow UI on the store that `raybench grid` writes to, until Ctrl-C."""
    store = resolve(results, tracking_uri)
    if is_server(store.uri):
        click.echo(f"The runs are in the MLflow server at {in_a_browser(store)}: open it in a browser.")
        return 0
    if store.path and not store.path.exists():
        raise UsageError(f"no runs in {store.path}: run a grid first, or name the results folder with --results")
    _check_free(host, port)
    # Without its end the link would open on MLflow's pages for language models.
    link = f"http://{host}:{port}/#/experiments?workflowType=machine_learning"
    click.echo(f"MLflow UI on {link} (Ctrl-C ends it); store: {store}")
    sys.stdout.flush()
    # By the environment, since anybody on the machine can read a command line.
    environment = ENVIRONMENT | os.environ | {"MLFLOW_BACKEND_STORE_URI": store.uri}
    if store.artifacts:
        environment["MLFLOW_DEFAULT_ARTIFACT_ROOT"] = store.artifacts
    # One worker is enough for one person, and each of MLflow's four takes seconds of a core and 200 MB to start.
    arguments = ["server", "--host", host, "--port", str(port), "--workers", "1"]
    return _serve([sys.executable, "-m", "mlflow", *arguments], environment)


def _serve(command: list[str], environment: Mapping[str, str]) -> int:
    """Run a server until it ends or a person ends it.

    In a session of its own: where Ctrl-C reaches both MLflow and the web server that MLflow passes it on to, the
    latter takes the second one as haste and ends with a traceback.
    """
    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    server = subprocess.Popen(command, env=environment, start_new_session=True)
    try:
        return 1 if server.wait() else 0
    except KeyboardInterrupt:
        return 0
    finally:
        server.terminate()
        server.wait()


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
