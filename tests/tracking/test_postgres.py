"""A server on PostgreSQL and with authentication, and two grids on it at once."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pandas.testing import assert_frame_equal
from support.servers import mlflow_server, postgres
from support.tracked import exactly_once

import raybench
from raybench.results.attempt import attempts
from raybench.results.history import GridHistory
from raybench.results.journal import JOURNAL, grid_folder, read
from raybench.tracking.store import UNAUTHORIZED, StoreError, resolve
from raybench.tracking.sync import sync

pytestmark = [pytest.mark.slow, pytest.mark.mlflow]

PASSWORD = "pa55-w0rd"
GRID = """
name: twice
workload: digits_cnn
epochs: 2
steps_per_epoch: 3
examples: {train: 256, val: 64}
threads: 1
axes:
  device: [cpu]
  batch_size: [32, 64]
"""


@pytest.fixture(autouse=True)
def processes():
    """What a test has begun, which ends with it."""
    begun.clear()
    yield
    for process in begun:
        process.kill()
        process.communicate()


begun: list[subprocess.Popen] = []


def begin(folder, results, uri, **environment):
    """The command on a grid, in its own process."""
    (folder / "grid.yaml").write_text(GRID)
    package = str(Path(raybench.__file__).parent.parent)
    path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-m", "raybench", "grid", "grid.yaml", "--inline", "--no-checks"]
    process = subprocess.Popen(
        [*command, "--results", str(results), "--tracking-uri", uri],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path, "NO_PROXY": "127.0.0.1"} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    begun.append(process)
    return process


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    with postgres(tmp_path_factory.mktemp("postgres"), PASSWORD) as uri:
        yield uri


def twice(folder, uri):
    """The same grid at once from two results folders."""
    both = [begin(folder, folder / name, uri) for name in ("a", "b")]
    for process in both:
        said, _ = process.communicate(timeout=500)
        assert process.returncode == 0, said
        assert "warning" not in said and "not up to date" not in said, said
        assert PASSWORD not in said


def labels_of(results):
    """What the trials of a results folder are called."""
    found = attempts(read(results / "twice~inline" / JOURNAL)).values()
    assert len(found) == 2
    return [attempt.label for attempt in found]


def check(folder, uri):
    """Each point of each of the two grids is there once."""
    store = resolve(folder, uri)
    exactly_once(store, "twice~inline", [*labels_of(folder / "a"), *labels_of(folder / "b")], 2, executions=2)
    journals = [raybench.load(grid_folder(folder / name, "twice~inline")) for name in ("a", "b")]
    there = raybench.load(uri, grid="twice~inline", attempts="all")
    told = sorted(seconds for journal in journals for seconds in journal.epochs["train_s"])
    assert len(told) == 8 and sorted(there.epochs["train_s"]) == pytest.approx(told)


@pytest.mark.exhaustive
def test_two_grids_at_once_on_a_server_on_postgres(database, tmp_path):
    with mlflow_server(tmp_path, store=database) as server:
        twice(tmp_path, server.url)
        check(tmp_path, server.url)
    with pytest.raises(StoreError, match="the journal of twice~inline is on a server; use the server's URL") as caught:
        raybench.load(database, grid="twice~inline")
    assert PASSWORD not in str(caught.value)


@pytest.mark.exhaustive
def test_a_database_without_a_server_is_read(database, golden_journal, tmp_path):
    folder = tmp_path / "direct"
    folder.mkdir()
    journal = shutil.copy(golden_journal, folder / JOURNAL)
    sync(GridHistory.read(journal), resolve(tmp_path, database), "direct")
    assert_frame_equal(raybench.load(database, grid="direct").epochs, raybench.load(folder).epochs)


def test_two_grids_at_once_on_a_new_sqlite_store(tmp_path):
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    twice(tmp_path, uri)
    check(tmp_path, uri)


@pytest.mark.exhaustive
def test_authentication(tmp_path, monkeypatch):
    pytest.importorskip("flask_wtf", reason="MLflow's authentication is not installed (mlflow[auth])")
    settings = tmp_path / "auth.ini"
    settings.write_text(
        "[mlflow]\ndefault_permission = READ\nauth_cache_ttl_seconds = 600\n"
        f"database_uri = sqlite:///{tmp_path}/users.db\n"
        f"admin_username = ada\nadmin_password = {PASSWORD}-long-enough\n"
    )
    secrets = {"MLFLOW_AUTH_CONFIG_PATH": str(settings), "MLFLOW_FLASK_SERVER_SECRET_KEY": "a test's own"}
    with mlflow_server(tmp_path, "--app-name", "basic-auth", **secrets) as server:
        known = {"MLFLOW_TRACKING_USERNAME": "ada", "MLFLOW_TRACKING_PASSWORD": f"{PASSWORD}-long-enough"}
        wrong = begin(tmp_path, "wrong", server.url, **known | {"MLFLOW_TRACKING_PASSWORD": "wr0ng-w0rd"})
        right = begin(tmp_path, "right", server.url, **known)
        said, _ = wrong.communicate(timeout=500)
        assert wrong.returncode == 0, "the grid is as good as without a store"
        told = [line for line in said.splitlines() if "(401)" in line]
        refused = f"MLflow store {server.url}: {UNAUTHORIZED}"
        assert told == [f"warning: {refused}. The grid continues; the journal is complete."]
        command = f"raybench sync --results {tmp_path}/wrong --tracking-uri {server.url} 'twice~inline'"
        assert f"3 runs are not up to date in {server.url}; run `{command}`" in " ".join(said.split())
        assert "wr0ng-w0rd" not in said and "Traceback" not in said
        said, _ = right.communicate(timeout=500)
        assert right.returncode == 0 and "warning" not in said and "not up to date" not in said, said
        monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "ada")
        monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "wr0ng-w0rd")
        store, journal = resolve(tmp_path, server.url), tmp_path / "wrong" / "twice~inline" / JOURNAL
        with pytest.raises(StoreError) as caught:
            sync(GridHistory.read(journal), store, "twice~inline")
        assert str(caught.value) == refused
        monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", known["MLFLOW_TRACKING_PASSWORD"])
        sync(GridHistory.read(journal), store, "twice~inline")
        labels = [label for name in ("wrong", "right") for label in labels_of(tmp_path / name)]
        exactly_once(store, "twice~inline", labels, 2, executions=2)
