"""Temporary folders that another program removes while a grid runs, as those do that clean up such folders."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from support import WORKLOADS

pytestmark = [pytest.mark.exhaustive, pytest.mark.ray]


@pytest.fixture
def temporary():
    """A temporary folder of its own, with a path that is short enough for Ray's sockets."""
    with tempfile.TemporaryDirectory(prefix="rbt", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def test_the_grid_says_so_and_goes_on(tmp_path, temporary):
    shutil.copy(WORKLOADS / "troubles.py", tmp_path / "mine.py")
    (tmp_path / "g.yaml").write_text(
        "name: g\nworkload: mine.py:slow\nepochs: 8\nbatch_size: 16\nthreads: 1\nrepeats: 2\n"
    )
    journal = tmp_path / "raybench-results" / "g" / "journal.jsonl"
    command = [sys.executable, "-m", "raybench", "grid", "g.yaml", "--no-checks"]
    environ = os.environ | {"TMPDIR": str(temporary)}
    with (tmp_path / "words.txt").open("w") as words:
        process = subprocess.Popen(command, cwd=tmp_path, env=environ, stdout=words, stderr=words)
    try:
        deadline = time.monotonic() + 240
        while not (journal.exists() and "epoch_ended" in journal.read_text()):
            assert process.poll() is None and time.monotonic() < deadline, (tmp_path / "words.txt").read_text()
            time.sleep(0.05)
        for folder in temporary.glob("rb-*"):
            shutil.rmtree(folder, ignore_errors=True)
        status = process.wait(240)
    finally:
        process.kill()
        process.wait()
    said = (tmp_path / "words.txt").read_text()
    assert status == 0, said
    assert "Traceback" not in said, said
    assert "was removed during the run" in said, said
    events = [json.loads(line) for line in journal.read_text().splitlines()]
    begun = [(event["trial"], event["attempt"]) for event in events if event["event"] == "trial_started"]
    ends = [event for event in events if event["event"] == "trial_ended"]
    assert sorted(begun) == sorted((event["trial"], event["attempt"]) for event in ends)
    assert [event["status"] for event in ends].count("completed") == 2
    assert list(temporary.glob("rb-*")) == []
