"""Nothing that a grid or `raybench ui` starts can be reached from another machine, unless a person says so."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support import WORKLOADS
from support.listening import addresses, family
from support.servers import free_port

TROUBLES = WORKLOADS / "troubles.py"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="sockets are read from /proc"),
]


def is_loopback(address):
    """Whether an address of /proc/net/tcp or tcp6 is one on which only this machine can ask."""
    host = address.split(":")[0]
    if len(host) == 8:
        return host.endswith("7F")
    return host == "00000000000000000000000001000000" or (
        host.startswith("0000000000000000FFFF0000") and host.endswith("7F")
    )


def watch(command, folder, seen):
    """Run a command until it has ended, or until `seen` is true of it; every address that it listened on meanwhile."""
    mark = f"RAYBENCH_LISTENING={os.getpid()}-{folder.name}"
    environ = os.environ | dict([mark.split("=")])
    with (folder / "words.txt").open("w") as words:
        process = subprocess.Popen(command, cwd=folder, env=environ, stdout=words, stderr=words)
    found, deadline = {}, time.monotonic() + 240
    try:
        while process.poll() is None and time.monotonic() < deadline:
            found |= addresses(family(mark))
            if seen(found):
                break
            time.sleep(0.3)
    finally:
        process.terminate()
        process.wait(60)
    return found, (folder / "words.txt").read_text()


@pytest.mark.ray
def test_a_running_grid_listens_on_loopback_alone(tmp_path):
    (tmp_path / "mine.py").write_text(TROUBLES.read_text())
    (tmp_path / "g.yaml").write_text("name: g\nworkload: mine.py:slow\nepochs: 1000\nbatch_size: 16\nthreads: 1\n")
    events = tmp_path / "raybench-results" / "g" / "journal.jsonl"

    def trains(found):
        return events.exists() and events.read_text().count("epoch_ended") > 1

    found, words = watch([sys.executable, "-m", "raybench", "grid", "g.yaml", "--no-checks"], tmp_path, trains)
    assert events.exists(), words
    assert "epoch_ended" in events.read_text(), words
    assert found, "Ray has servers"
    assert {address: command for address, command in found.items() if not is_loopback(address)} == {}


@pytest.mark.mlflow
def test_the_ui_listens_on_loopback_alone(tmp_path, migrated_database):
    store = tmp_path / "raybench-results"
    store.mkdir()
    shutil.copy(migrated_database, store / "mlflow.db")
    found, words = watch([sys.executable, "-m", "raybench", "ui", "--port", str(free_port())], tmp_path, bool)
    assert found, words
    assert {address: command for address, command in found.items() if not is_loopback(address)} == {}
