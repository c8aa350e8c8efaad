"""A grid that runs as root, and another user of the same machine: nothing of it can be read, replaced or reached."""

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from support import SUPPORT, WORKLOADS
from support.listening import addresses, family

pytestmark = [
    pytest.mark.slow,
    pytest.mark.ray,
    pytest.mark.skipif(sys.platform != "linux", reason="processes and sockets are read from /proc"),
    pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can become another user"),
]


@pytest.fixture
def shared_temporary_folder():
    """A temporary folder that everybody may write to, as the system's is; with a short path, for Ray's sockets."""
    folder = Path(tempfile.mkdtemp(prefix="rbt"))
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def running_grid(folder, temporary):
    """A grid whose trial trains, from a shell that turns Ray's authentication off and has no home folder."""
    shutil.copy(WORKLOADS / "troubles.py", folder / "mine.py")
    (folder / "g.yaml").write_text("name: g\nworkload: mine.py:slow\nepochs: 1000\nbatch_size: 16\nthreads: 1\n")
    journal = folder / "raybench-results" / "g" / "journal.jsonl"
    mark = f"RAYBENCH_ANOTHER_USER={os.getpid()}-{folder.name}"
    shell = {"TMPDIR": str(temporary), "RAY_AUTH_MODE": "disabled", "HOME": "/proc/no-such-folder"}
    environ = os.environ | dict([mark.split("=")]) | shell
    with (folder / "words.txt").open("w") as words:
        command = [sys.executable, "-m", "raybench", "grid", "g.yaml", "--no-checks"]
        # With a mask that leaves it to the program to keep others out.
        process = subprocess.Popen(command, cwd=folder, env=environ, stdout=words, stderr=words, umask=0o000)
    try:
        deadline = time.monotonic() + 240
        while not (journal.exists() and journal.read_text().count("epoch_ended") > 1):
            assert process.poll() is None and time.monotonic() < deadline, (folder / "words.txt").read_text()
            time.sleep(0.2)
        yield family(mark)
    finally:
        process.terminate()
        process.wait(60)


def test_nobody_else_can_read_replace_or_reach_a_running_grid(tmp_path, shared_temporary_folder):
    with running_grid(tmp_path, shared_temporary_folder) as processes:
        (server,) = (place for place, command in addresses(processes).items() if "gcs_server" in command)
        port = str(int(server.split(":")[1], 16))
        command = [sys.executable, str(SUPPORT / "another_user.py"), str(shared_temporary_folder), port]
        other = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert other.returncode == 0, other.stderr
        found = json.loads(other.stdout)
        assert min(found["tried"].values()) > 0, "the grid has folders, files and sockets"
        assert found["done"] == {what: [] for what in found["tried"]}
        assert found["ray"] == "AuthenticationError"
        tokens = [token.read_text() for token in shared_temporary_folder.rglob("token")]
        commands = [(process / "cmdline").read_text(errors="replace") for process in processes if process.exists()]
        assert commands and not any(token in command for token in tokens for command in commands)
    for left in shared_temporary_folder.iterdir():
        assert stat.S_IMODE(left.lstat().st_mode) == 0o700, left
