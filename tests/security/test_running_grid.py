"""A running grid and `raybench ui` cannot be reached from other machines, nor a grid's files by other users."""

import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from support import ROOT
from support.servers import free_port

pytestmark = pytest.mark.slow
LOOPBACK = ("127.", "::1", "::ffff:127.")
TRAIN = """import time
from pathlib import Path


def train(trial):
    for _ in trial.epochs():
        Path({mark!r}).touch()
        time.sleep(0.1)
"""


LITTLE_MEMORY = """import sys
if "raybench.execution.ray_process" in sys.orig_argv:
    import ray._private.utils
    ray._private.utils.estimate_available_memory = lambda: 150_000_000
"""
"""Makes a Ray believe that its machine has little memory now, as a virtual machine whose memory grows with its use."""


@contextmanager
def running(command, folder, **environment):
    with (folder / "output.txt").open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "raybench", *command],
            cwd=folder, env=os.environ | environment, stdout=output, stderr=output, umask=0,
        )  # fmt: skip
    try:
        yield psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(60)


def listening(process):
    """The addresses and ports on which a process and its descendants listen."""
    found = []
    for each in [process, *process.children(recursive=True)]:
        try:
            found += [place.laddr for place in each.net_connections("inet") if place.status == psutil.CONN_LISTEN]
        except psutil.Error:
            continue
    return found


def wait(condition, folder):
    deadline = time.monotonic() + 240
    while not condition():
        assert time.monotonic() < deadline, (folder / "output.txt").read_text()
        time.sleep(0.3)


@pytest.mark.ray
def test_running_grid_is_private(tmp_path):
    mark = tmp_path / "trains"
    (tmp_path / "mine.py").write_text(TRAIN.format(mark=str(mark)))
    (tmp_path / "g.yaml").write_text("name: g\nworkload: mine.py:train\nepochs: 10000\nframework: none\n")
    temporary = Path(tempfile.mkdtemp(prefix="rbt"))  # short, for Ray's sockets
    try:
        command = ["grid", "g.yaml", "--no-checks", "--no-tracking"]
        (tmp_path / "sitecustomize.py").write_text(LITTLE_MEMORY)
        environment = {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)]), "RAY_AUTH_MODE": "disabled"}
        with running(command, tmp_path, TMPDIR=str(temporary), **environment) as process:
            wait(mark.exists, tmp_path)
            places = listening(process)
            assert places and all(place.ip.startswith(LOOPBACK) for place in places)
            folders = list(temporary.iterdir())
            assert folders and {stat.S_IMODE(folder.lstat().st_mode) for folder in folders} == {0o700}
            tokens = [token.read_text() for token in temporary.rglob("token")]
            lines = [" ".join(each.cmdline()) for each in process.children(recursive=True) if each.is_running()]
            assert tokens and not any(token in line for token in tokens for line in lines)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@pytest.mark.mlflow
def test_ui_listens_on_loopback(tmp_path, migrated_database):
    (tmp_path / "raybench-results").mkdir()
    shutil.copy(migrated_database, tmp_path / "raybench-results" / "mlflow.db")
    with running(["ui", "--port", str(free_port())], tmp_path) as process:
        wait(lambda: listening(process), tmp_path)
        assert all(place.ip.startswith(LOOPBACK) for place in listening(process))
