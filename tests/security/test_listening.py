"""Nothing that a grid or `raybench ui` starts can be reached from another machine, unless a person says so."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

TROUBLES = Path(__file__).parent.parent / "execution" / "troubles.py"
LISTENING = "0A"
SLOW = """

class Slow(torch.nn.Linear):
    def forward(self, inputs):
        import time

        time.sleep(0.05)
        return super().forward(inputs)


slow = Workload(model=lambda: Slow(1, 2), data=data)
"""

pytestmark = pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="sockets are read from /proc")


def family(mark):
    """The processes that inherit an environment with a mark."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(folder)
        except OSError:
            continue
    return found


def addresses(processes):
    """The addresses on which processes listen, each with the command that does."""
    sockets = {}
    for folder in processes:
        try:
            for descriptor in (folder / "fd").iterdir():
                sockets[str(descriptor.readlink())] = (
                    (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:80]
                )
        except OSError:
            continue
    found = {}
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENING and f"socket:[{fields[9]}]" in sockets:
                found[fields[1]] = sockets[f"socket:[{fields[9]}]"]
    return found


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


def test_a_running_grid_listens_on_loopback_alone(tmp_path):
    (tmp_path / "mine.py").write_text(TROUBLES.read_text() + SLOW)
    (tmp_path / "g.yaml").write_text("name: g\nworkload: mine.py:slow\nepochs: 1000\nbatch_size: 16\n")
    events = tmp_path / "raybench-results" / "g" / "journal.jsonl"

    def trains(found):
        return events.exists() and events.read_text().count("epoch_ended") > 1

    found, words = watch([sys.executable, "-m", "raybench", "grid", "g.yaml"], tmp_path, trains)
    assert events.exists(), words
    assert "epoch_ended" in events.read_text(), words
    assert found, "Ray has servers"
    assert {address: command for address, command in found.items() if not is_loopback(address)} == {}


def test_the_ui_listens_on_loopback_alone(tmp_path):
    store = tmp_path / "raybench-results"
    store.mkdir()
    shutil.copy(Path(__file__), store / "unrelated")
    import sqlite3

    sqlite3.connect(store / "mlflow.db").close()
    found, words = watch([sys.executable, "-m", "raybench", "ui", "--port", "5917"], tmp_path, bool)
    assert found, words
    assert {address: command for address, command in found.items() if not is_loopback(address)} == {}
