"""The golden journal, as its file and as its events; a real sqlite store and a real server."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from raybench.tracking.store import resolve


@pytest.fixture(scope="session")
def golden_journal():
    return Path(__file__).parent.parent / "golden" / "journal.jsonl"


@pytest.fixture
def golden_events(golden_journal):
    return [json.loads(line) for line in golden_journal.read_text().splitlines()]


@pytest.fixture(scope="session")
def own_store(tmp_path_factory):
    """A new sqlite store, which takes seconds to make."""
    folder = tmp_path_factory.mktemp("store")
    return resolve(folder, f"sqlite:///{folder}/mlflow.db")


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """A real MLflow server, and the environment that says who may ask it."""
    folder = tmp_path_factory.mktemp("server")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    arguments = [
        "server",
        "--backend-store-uri",
        f"sqlite:///{folder}/mlflow.db",
        "--port",
        str(port),
        "--workers",
        "1",
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "mlflow", *arguments, "--artifacts-destination", str(folder / "artifacts")],
            stdout=log,
            stderr=log,
            cwd=folder,
            start_new_session=True,
        )
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 400  # a loaded machine takes minutes
        while True:
            try:
                urllib.request.urlopen(f"{url}/health", timeout=1).close()
                break
            except OSError:
                assert process.poll() is None and time.monotonic() < deadline, (folder / "log").read_text()
                time.sleep(0.2)
        yield resolve(folder, url)
    finally:
        os.killpg(process.pid, 15)
        process.wait(120)


@pytest.fixture(params=["own_store", "server"])
def store(request):
    return request.getfixturevalue(request.param)
