"""`raybench ui`: the real server on the right store, and nothing secret where others can read it."""

import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from support.processes import LOOPBACK, eventually, listening

from raybench.core.ports import free_port

SECRET = "s3cret-w0rd"


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
        assert said.read_text().startswith(f"Starting the MLflow UI on {link} (Ctrl-C stops it); store: {store}\n")
        eventually(lambda: f"digits  {link}/#/experiments/1/runs?workflowType=" in said.read_text())
        assert "GET /" not in said.read_text(), "no line for each request"
        (mlflow,) = children(server.pid)
        assert "sqlite" not in Path(f"/proc/{mlflow}/cmdline").read_text(), "a database's URI may hold a password"
        environment = Path(f"/proc/{mlflow}/environ").read_text().split("\0")
        assert {"MLFLOW_DISABLE_TELEMETRY=true", "DO_NOT_TRACK=true"} <= set(environment)
        (web,) = children(mlflow)
        assert all(place.ip.startswith(LOOPBACK) for place in listening(psutil.Process(server.pid)))
        server.send_signal(end)
        assert server.wait(30) == status
        assert not any(Path(f"/proc/{process}").exists() for process in (mlflow, web)), "nothing is left behind"
        assert "Traceback" not in said.read_text(), said.read_text()


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
    said = raybench("ui", "--tracking", uri, "--port", free_port())
    assert said.status == 0
    assert SECRET not in said.out + said.err + started["command"]
    assert "store: postgresql://***@db/runs" in said.out
    assert started["env"]["MLFLOW_BACKEND_STORE_URI"] == uri
