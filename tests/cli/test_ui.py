"""`raybench ui`: the real server on the right store, and nothing secret where others can read it."""

import base64
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

SECRET = "s3cret-w0rd"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def serving(*arguments):
    """The command, and the file that it writes to."""
    said = Path("said.txt")
    with said.open("w") as output:
        command = [sys.executable, "-m", "raybench", "ui", *arguments]
        server = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield server, said
    finally:
        server.terminate()
        server.wait()


def children(process):
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def get(url, server, seconds=90):
    """The page, as soon as the server answers."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return answer.status, answer.read()
        except OSError:
            assert server.poll() is None, "the server has ended"
            assert time.monotonic() < deadline, "no answer"
            time.sleep(0.2)


def wait_for_text(path, text, seconds=90):
    deadline = time.monotonic() + seconds
    while text not in path.read_text():
        assert time.monotonic() < deadline, path.read_text()
        time.sleep(0.1)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks at processes as Linux shows them")
@pytest.mark.parametrize(
    ("end", "status"),
    [
        pytest.param(signal.SIGINT, 0, id="Ctrl-C"),
        pytest.param(signal.SIGTERM, 143, id="SIGTERM", marks=pytest.mark.exhaustive),
    ],
)
@pytest.mark.slow
@pytest.mark.mlflow
@pytest.mark.usefixtures("store")
def test_it_serves_the_runs_until_it_is_ended(raybench, in_process, digits, tmp_path, end, status):
    raybench("grid", digits, "--no-checks", "--where", "batch_size=32")
    port = free_port()
    with serving("--port", str(port)) as (server, said):
        code, page = get(f"http://127.0.0.1:{port}/", server)
        assert code == 200
        assert b"MLflow" in page
        _, found = get(
            f"http://127.0.0.1:{port}/ajax-api/2.0/mlflow/experiments/get-by-name?experiment_name=digits", server
        )
        assert b'"digits"' in found
        store = f"sqlite:///{tmp_path}/raybench-results/mlflow.db"
        link = f"http://127.0.0.1:{port}"
        assert said.read_text().startswith(f"Starting the MLflow UI on {link} (Ctrl-C ends it); store: {store}\n")
        table = f"Runs of digits: {link}/#/experiments/1/runs?workflowType=machine_learning"
        wait_for_text(said, f"\n{table}&viewStateShareKey=raybench\n")
        assert "GET /" not in said.read_text(), "no line for each request"
        (mlflow,) = children(server.pid)
        assert "sqlite" not in Path(f"/proc/{mlflow}/cmdline").read_text(), "a database's URI may hold a password"
        environment = Path(f"/proc/{mlflow}/environ").read_text().split("\0")
        assert {"MLFLOW_DISABLE_TELEMETRY=true", "DO_NOT_TRACK=true"} <= set(environment)
        (web,) = children(mlflow)
        server.send_signal(end)
        assert server.wait(30) == status
        assert not any(Path(f"/proc/{process}").exists() for process in (mlflow, web)), "nothing is left behind"
        assert "Traceback" not in said.read_text(), said.read_text()


@pytest.mark.slow
@pytest.mark.mlflow
def test_a_login_admits_nobody_without_its_password(tmp_path, migrated_database):
    pytest.importorskip("flask_wtf", reason="MLflow's login is not installed (mlflow[auth])")
    (tmp_path / "raybench-results").mkdir()
    shutil.copy(migrated_database, tmp_path / "raybench-results" / "mlflow.db")
    port = free_port()
    url = f"http://127.0.0.1:{port}/ajax-api/2.0/mlflow/experiments/get?experiment_id=0"
    with serving("--port", str(port), "--login") as (server, said):
        wait_for_text(said, "(a new one at each start)")
        password = re.search(r"Log in as admin with the password (\S+) \(", said.read_text())[1]
        get(f"http://127.0.0.1:{port}/health", server)
        for credentials in ("", "admin:password1234", "admin:"):
            with pytest.raises(urllib.error.HTTPError) as refused:
                ask(url, credentials)
            assert refused.value.code == 401
        assert b'"Default"' in ask(url, f"admin:{password}")
        (mlflow,) = children(server.pid)
        assert password not in Path(f"/proc/{mlflow}/cmdline").read_text()


def ask(url, credentials):
    token = base64.b64encode(credentials.encode()).decode()
    request = urllib.request.Request(url, headers={"Authorization": f"Basic {token}"} if credentials else {})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read()


class NoServer:
    """Stands for MLflow's server, which ends at once."""

    def __init__(self, command, env, **_):
        pass

    def wait(self):
        return 0

    def terminate(self):
        pass


@pytest.mark.parametrize(
    ("host", "options", "warning"),
    [
        ("127.0.0.1", [], ""),
        ("localhost", ["--login"], ""),
        ("0.0.0.0", [], "everyone who reaches 0.0.0.0 over the network can read, change and delete the runs"),
        ("0.0.0.0", ["--login"], "the password and the runs are sent unencrypted"),
    ],
)
def test_it_says_who_can_open_it(raybench, tmp_path, monkeypatch, host, options, warning):
    if options:
        pytest.importorskip("flask_wtf", reason="MLflow's login is not installed (mlflow[auth])")
    (tmp_path / "raybench-results").mkdir()
    (tmp_path / "raybench-results" / "mlflow.db").touch()
    monkeypatch.setattr(subprocess, "Popen", NoServer)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    said = raybench("ui", "--host", host, "--port", free_port(), *options)
    assert said.status == 0
    assert ("Without a login, every user of this machine can" in said.out) == (not options)
    assert ("Log in as admin with the password" in said.out) == bool(options)
    assert said.err.startswith(f"warning: {warning}") if warning else said.err == ""
    assert not (tmp_path / "raybench-results" / "mlflow.db").read_bytes(), "nothing is written to an empty file"


def test_port_in_use_is_reported_before_the_start(raybench, tmp_path):
    (tmp_path / "raybench-results").mkdir()
    (tmp_path / "raybench-results" / "mlflow.db").touch()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = raybench("ui", "--port", port)
    assert (said.status, said.lines) == (2, [f"port {port} is in use; choose another, such as --port {port + 1}"])


def test_database_password_reaches_only_mlflow(raybench, monkeypatch):
    """Neither the terminal nor the command line, which anybody on the machine can read, has it."""
    started = {}

    class Server:
        def __init__(self, command, env, **_):
            started.update(command=" ".join(command), env=env)

        def wait(self):
            return 0

        def terminate(self):
            pass

    monkeypatch.setattr(subprocess, "Popen", Server)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    uri = f"postgresql://me:{SECRET}@db/runs"
    said = raybench("ui", "--tracking-uri", uri, "--port", free_port())
    assert said.status == 0
    assert SECRET not in said.out + said.err + started["command"]
    assert "store: postgresql://***@db/runs" in said.out
    assert started["env"]["MLFLOW_BACKEND_STORE_URI"] == uri
