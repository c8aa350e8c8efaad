"""A grid that is killed at every turn: the short form of benchmarks/kills.py, with its own seed."""

import subprocess
import sys

import pytest
from support import ROOT

pytestmark = [pytest.mark.exhaustive, pytest.mark.ray, pytest.mark.mlflow]


@pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")
def test_kills_lose_and_leave_nothing(tmp_path):
    command = [sys.executable, str(ROOT / "benchmarks" / "kills.py"), "--kills", "7", "--seed", "7"]
    done = subprocess.run([*command, "--folder", tmp_path / "kills"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "7 kills (1 driver, 1 ray process, 1 worker, 1 trial, 1 raylet, 1 agent, 1 gcs)" in done.stdout
