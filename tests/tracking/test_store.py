from pathlib import Path

import pytest

from raybench.core.secret_masking import redact
from raybench.errors import UsageError
from raybench.tracking.store import Store, StoreError, is_server, redacted_errors, resolve
from raybench.tracking.writer import remedy

SERVER, DATABASE = "http://mlflow.example:5000", "postgresql://bob:s3cret@db.example/runs"


@pytest.fixture(autouse=True)
def clean(monkeypatch, tmp_path):
    for name in ("URI", "USERNAME", "PASSWORD", "TOKEN"):
        monkeypatch.delenv(f"MLFLOW_TRACKING_{name}", raising=False)
    monkeypatch.chdir(tmp_path)


def test_the_first_that_is_named_counts(monkeypatch, tmp_path):
    assert resolve(Path("results")).uri == f"sqlite:///{tmp_path}/results/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://environment")
    assert resolve(Path("results")).uri == "http://environment"
    assert resolve(Path("results"), None, "http://file").uri == "http://file"
    assert resolve(Path("results"), "http://argument", "http://file").uri == "http://argument"


def test_default_store_is_in_the_results_folder(tmp_path):
    store = resolve(Path("my results"))
    assert store.path == tmp_path / "my results" / "mlflow.db"
    assert store.artifacts == (tmp_path / "my results" / "mlartifacts").as_uri()
    assert list(tmp_path.iterdir()) == []


def test_a_relative_database_becomes_absolute(tmp_path):
    store = resolve(Path("results"), "sqlite:///mine/runs.db?timeout=9")
    assert store.uri == f"sqlite:///{tmp_path}/mine/runs.db?timeout=9"
    assert store.path == tmp_path / "mine" / "runs.db"
    assert store.artifacts == (tmp_path / "mine" / "mlartifacts").as_uri()
    assert resolve(Path("results"), "sqlite:////a/b.db").uri == "sqlite:////a/b.db"


def test_where_artifacts_go(tmp_path):
    assert resolve(Path("results"), SERVER).artifacts is None
    assert resolve(Path("results"), DATABASE).artifacts == (tmp_path / "results" / "mlartifacts").as_uri()
    assert is_server(SERVER) and is_server("databricks") and is_server("databricks://profile")
    assert not is_server(DATABASE) and not is_server("sqlite:////a/b.db")


@pytest.mark.parametrize("source", ["--tracking", "the grid file's tracking_uri", "MLFLOW_TRACKING_URI"])
def test_invalid_store_names_its_origin(monkeypatch, source):
    for wrong in ("./mlruns", "file:///tmp/mlruns", "runs.db", "sqlite://", "sqlite:///:memory:", "ftp://x/y"):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", wrong)
        arguments = {"--tracking": (wrong, None), "the grid file's tracking_uri": (None, wrong)}.get(
            source, (None, None)
        )
        with pytest.raises(UsageError) as caught:
            resolve(Path("results"), *arguments)
        assert str(caught.value).startswith(f"{source}: {wrong} ") and "sqlite:///" in str(caught.value)


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        (SERVER, SERVER),
        (DATABASE, "postgresql://***@db.example/runs"),
        ("postgresql+psycopg://bob:p/w?x@y@db:5432/runs", "postgresql+psycopg://***@db:5432/runs"),
        ("http://token@host/path", "http://***@host/path"),
        ("https://host/p?token=abc&user=bob#key=k", "https://host/p?token=***&user=***#key=***"),
        ("mysql://bob:s3cret@[::1/x", "mysql://***@[::1/x"),
    ],
)
def test_a_uri_is_shown_without_its_secrets(uri, shown):
    assert redact(uri) == str(Store(uri)) == shown
    assert "s3cret" not in repr(Store(uri))


def test_uri_without_scheme_hides_its_password(tmp_path):
    with pytest.raises(UsageError) as caught:
        resolve(tmp_path, "me:s3cret@db.example/runs")
    assert "s3cret" not in str(caught.value)
    assert "***@db.example/runs" in str(caught.value)


def test_remedy_can_be_pasted(monkeypatch):
    store = resolve(Path("results"), DATABASE)
    assert remedy(store, Path("g")).endswith("writes what is missing (with the user and password in place of ***)")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", DATABASE)
    assert remedy(store, Path("g")) == '`raybench export g -o "$MLFLOW_TRACKING_URI"` writes what is missing'


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("Max retries exceeded with url: /x (Caused by ReadTimeoutError('read timed out. (read timeout=7)'))", "7 s"),
        ("Max retries exceeded with url: /x (Caused by NewConnectionError)", "it does not answer"),
        ("API request to endpoint failed with error code 401 != 200. Response body: 'x'", "refuses the user or the"),
    ],
)
def test_errors_of_servers_are_in_plain_words(message, words):
    with pytest.raises(StoreError) as caught, redacted_errors(Store(SERVER)):
        raise RuntimeError(message)
    assert words in str(caught.value) and ("MLFLOW_HTTP_REQUEST_TIMEOUT" in str(caught.value)) == ("7" in words)
