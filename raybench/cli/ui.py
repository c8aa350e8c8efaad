"""`raybench ui`."""

from __future__ import annotations

import errno
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import click

from raybench.cli.terminal import say
from raybench.core.secret_masking import HIDDEN
from raybench.core.temp_folders import Scratch
from raybench.errors import UsageError
from raybench.tracking.mapping import SAVED_VIEW, VIEW
from raybench.tracking.store import Store, is_server, resolve, update_statistics

ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    # The runner of background jobs, which raybench does not use, takes long to start and ends with tracebacks.
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    # A line for each request would hide the addresses of the tables.
    "UVICORN_LOG_LEVEL": "warning",
}

MAX_TABLES = 5
"""Number of experiments whose tables are listed, the latest first."""

START_TIMEOUT_SECONDS = 120.0
"""Maximum seconds to wait for MLflow's start before the links to its tables are given up."""

USER = "admin"

LOGIN = "Log in as {user} with the password {password} (a new one at each start)."

NO_LOGIN = "Without a login, every user of this machine can read, change and delete the runs; --login adds one."

OPEN_TO_NETWORK = """everyone who reaches {host} over the network can read, change and delete the runs. Add --login, \
or omit --host and open the UI through `ssh -L`."""

UNENCRYPTED = """the password and the runs are sent unencrypted. Use a proxy with TLS, or omit --host and open the \
UI through `ssh -L`."""


@click.command("ui", epilog="Example: raybench ui --results raybench-results --port 5001")
@click.option(
    "--results",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("raybench-results"),
    help="Folder of the results.",
    show_default=True,
)
@click.option("--tracking-uri", metavar="URI", help="MLflow store, if it is not in the results folder.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(1, 65535), default=5000, show_default=True, help="Port to listen on.")
@click.option("--login", is_flag=True, help="Require a password, new at each start. Needs mlflow[auth].")
def command(results: Path, tracking_uri: str | None, host: str, port: int, login: bool) -> int:
    """Open the MLflow UI with the runs of `raybench grid`; Ctrl-C stops it."""
    store = resolve(results, tracking_uri)
    if is_server(store.uri):
        say(f"The runs are on an MLflow server: open {in_a_browser(store)} in a browser.")
        return 0
    if store.path and not store.path.exists():
        raise UsageError(f"no runs in {store.path}; run a grid first, or choose the results folder with --results")
    if login and not find_spec("flask_wtf"):
        raise UsageError("--login needs a package that is not installed; run `pip install 'mlflow[auth]'`")
    _check_free(host, port)
    update_statistics(store)
    server = f"http://{host}:{port}"
    say(f"Starting the MLflow UI on {server} (Ctrl-C ends it); store: {store}")
    password = secrets.token_urlsafe(12) if login else ""
    say(LOGIN.format(user=USER, password=password) if login else NO_LOGIN)
    if not _is_loopback(host):
        say(f"warning: {UNENCRYPTED if login else OPEN_TO_NETWORK}".format(host=host), err=True)
    sys.stdout.flush()
    threading.Thread(target=_print_tables, args=(server, password), daemon=True).start()
    # By the environment, since every user of the machine can read command lines.
    environment = ENVIRONMENT | os.environ | {"MLFLOW_BACKEND_STORE_URI": store.uri}
    if store.artifacts:
        environment["MLFLOW_DEFAULT_ARTIFACT_ROOT"] = store.artifacts
    # One worker is enough for one user; each of MLflow's four takes seconds of a core and 200 MB to start.
    arguments = ["server", "--host", host, "--port", str(port), "--workers", "1"]
    with ExitStack() as stack:
        if login:
            arguments += ["--app-name", "basic-auth"]
            environment |= _one_user(stack.enter_context(closing(Scratch())).path, password)
            for name in ("MLFLOW_AUTH_ADMIN_USERNAME", "MLFLOW_AUTH_ADMIN_PASSWORD"):  # they would override the file's
                environment.pop(name, None)
        return _serve([sys.executable, "-P", "-m", "mlflow", *arguments], environment)


def _one_user(folder: Path, password: str) -> dict[str, str]:
    """MLflow's settings for a login with one user with all permissions.

    They are kept in a private folder.
    """
    settings = folder / "login.ini"
    settings.write_text(
        "[mlflow]\ndefault_permission = NO_PERMISSIONS\n"
        f"database_uri = sqlite:///{folder}/users.db\nadmin_username = {USER}\nadmin_password = {password}\n"
        "auth_cache_ttl_seconds = 600\n"
    )
    return {"MLFLOW_AUTH_CONFIG_PATH": str(settings), "MLFLOW_FLASK_SERVER_SECRET_KEY": secrets.token_hex(32)}


def _is_loopback(host: str) -> bool:
    """Return whether an address is only reachable from this machine."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:  # a name
        return False


def _serve(command: list[str], environment: Mapping[str, str]) -> int:
    """Run a server until it ends or the user stops it.

    It runs in its own session: otherwise Ctrl-C would reach both MLflow and its web server, to which MLflow passes it
    on, and the latter would treat the second signal as a forced stop and end with a traceback.
    """
    for signum in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        signal.signal(signum, lambda number, _: sys.exit(128 + number))
    server = subprocess.Popen(command, env=environment, start_new_session=True)
    try:
        return 1 if server.wait() else 0
    except KeyboardInterrupt:
        return 0
    finally:
        server.terminate()
        server.wait()


def _print_tables(server: str, password: str) -> None:
    """Print the address of each grid's table once the server answers."""
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        with suppress(OSError, ValueError):  # it does not answer yet
            for line in tables(server, _experiments(server, password)):
                say(line)
            sys.stdout.flush()
            return
        time.sleep(0.5)


def _experiments(server: str, password: str) -> list[dict[str, Any]]:
    """The experiments of an MLflow server, the latest first.

    Raises:
        OSError, ValueError: it does not answer as MLflow does.
    """
    body = json.dumps({"max_results": 100, "order_by": ["last_update_time DESC"]}).encode()
    address = f"{server.replace('//0.0.0.0:', '//127.0.0.1:')}/ajax-api/2.0/mlflow/experiments/search"
    request = urllib.request.Request(address, body, {"Content-Type": "application/json"})  # noqa: S310
    if password:
        request.add_header("Authorization", f"Basic {b64encode(f'{USER}:{password}'.encode()).decode()}")
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 — our own server
        return list(json.load(answer).get("experiments", []))


def tables(server: str, experiments: Sequence[Mapping[str, Any]]) -> list[str]:
    """Lines with the address of each grid's table in its saved view, then that of all grids."""
    grids = [entry for entry in experiments if any(tag["key"] == SAVED_VIEW for tag in entry.get("tags", ()))]
    kind = "workflowType=machine_learning"  # without it, MLflow opens its pages for language models
    lines = [
        f"Runs of {entry['name']}: {server}/#/experiments/{entry['experiment_id']}/runs?{kind}&viewStateShareKey={VIEW}"
        for entry in grids[:MAX_TABLES]
    ]
    further = f" ({len(grids) - MAX_TABLES} more)" if len(grids) > MAX_TABLES else ""
    return [*lines, f"All grids{further}: {server}/#/experiments?{kind}"]


def in_a_browser(store: Store) -> str:
    """The address of an MLflow server for the browser.

    It contains neither secrets nor asterisks in their place.
    """
    return str(store).replace(f"{HIDDEN}@", "")


def _check_free(host: str, port: int) -> None:
    """Check that a port is free; MLflow would fail with a traceback.

    Raises:
        UsageError: the address cannot be used to listen.
    """
    try:
        family, kind, protocol, _, socket_address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(socket_address)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise UsageError(f"port {port} is in use; choose another, such as --port {port % 65535 + 1}") from None
        raise UsageError(f"cannot listen on {host}:{port}: {error.strerror}") from None
