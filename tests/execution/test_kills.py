"""A grid that is killed at every turn: the small form of benchmarks/kills.py, with its own seed."""

import json
import subprocess
import sys

import pytest
from support import ROOT

pytestmark = [pytest.mark.exhaustive, pytest.mark.ray, pytest.mark.mlflow]


@pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")
def test_nothing_is_lost_and_nothing_is_left(tmp_path):
    found = tmp_path / "found.json"
    command = [sys.executable, str(ROOT / "benchmarks" / "kills.py"), "--kills", "6", "--seed", "7"]
    done = subprocess.run(
        [*command, "--folder", str(tmp_path / "kills"), "--json", str(found)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(found.read_text())
    assert told["by_target"] == {"driver": 1, "worker": 1, "trial": 1, "raylet": 1, "agent": 1, "gcs": 1}
    assert set(told["faults"].values()) == {0}
    assert told["grids"] >= 1
