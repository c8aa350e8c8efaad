"""The golden journal, as its file and as its events; a real sqlite store and a real server."""

import json
import os
from pathlib import Path

import pytest
from servers import mlflow_server

from raybench.tracking.store import resolve

# A grid gives up a request after ten seconds, which on a loaded machine a server that works may take.
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "60")


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
    """A real MLflow server."""
    folder = tmp_path_factory.mktemp("server")
    with mlflow_server(folder) as running:
        yield resolve(folder, running.url)


@pytest.fixture(params=["own_store", "server"])
def store(request):
    return request.getfixturevalue(request.param)
