"""`raybench ui`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import click

from raybench.cli import options as opt
from raybench.cli.terminal import say
from raybench.errors import UsageError
from raybench.tracking.store import Store, StoreError, in_a_browser, is_server, resolve

ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    # The runner of background jobs, which raybench does not use, takes long to start and ends with tracebacks.
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    "UVICORN_LOG_LEVEL": "warning",
    "PYTHONWARNINGS": "ignore",  # of its libraries, for their developers
}


@click.command("ui", epilog="Example: raybench ui --results raybench-results --port 5001")
@opt.results
@click.option("--tracking", metavar="URI", help="MLflow store, if it is not in the results folder.")
@click.option("--port", type=click.IntRange(1, 65535), default=5000, show_default=True, help="Port to listen on.")
def command(results: Path, tracking: str | None, port: int) -> int:
    """Open the MLflow UI with the runs of `raybench grid` on this machine; Ctrl-C stops it."""
    store = resolve(results, tracking)
    if is_server(store.uri):
        say(f"The runs are on an MLflow server: open {in_a_browser(store)} in a browser.")
        return 0
    if store.path and not store.path.exists():
        raise UsageError(f"no runs in {store.path}; run a grid first, or choose the results folder with --results")
    say(f"Starting the MLflow UI on http://127.0.0.1:{port} (Ctrl-C stops it); store: {store}")
    say("Every user of this machine can read, change and delete the runs.")
    sys.stdout.flush()
    # By the environment, since every user of the machine can read command lines.
    environment = ENVIRONMENT | os.environ | {"MLFLOW_BACKEND_STORE_URI": store.uri}
    if store.artifacts:
        environment["MLFLOW_DEFAULT_ARTIFACT_ROOT"] = store.artifacts
    # One worker is enough for one user; each of MLflow's four takes seconds of a core and 200 MB to start.
    server = ["server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    return _serve([sys.executable, "-P", "-m", "mlflow", *server], environment, store, f"http://127.0.0.1:{port}")


def _serve(command: list[str], environment: Mapping[str, str], store: Store, address: str) -> int:
    """Run a server until it ends or the user stops it, and print where the grids are."""
    for signum in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        signal.signal(signum, lambda number, _: sys.exit(128 + number))
    # Without its own session, MLflow's web server would get Ctrl-C twice and end with a traceback.
    server = subprocess.Popen(command, env=environment, start_new_session=True)
    try:
        with suppress(StoreError):  # of which the server says more
            from raybench.tracking.mlflow import pages

            if addresses := pages(store, address):
                say("Newest grids; if MLflow shows no runs, choose Model training at its top left, once:")
            for line in addresses:
                say(line)
            sys.stdout.flush()
        return 1 if server.wait() else 0
    except KeyboardInterrupt:
        return 0
    finally:
        server.terminate()
        server.wait()
