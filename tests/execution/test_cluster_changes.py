"""A cluster that changes while a grid runs on it: a node joins, and another leaves (`benchmarks/cluster.py`)."""

import json
import subprocess
import sys

import pytest
from support import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.ray, pytest.mark.cluster]


def test_a_node_joins_and_another_leaves(tmp_path):
    command = [sys.executable, str(ROOT / "benchmarks" / "cluster.py"), "changes", "--json", "numbers.json"]
    command += ["--nodes", "2", "--trials", "48", "--epochs", "1", "--seconds", "0.5"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    numbers = json.loads((tmp_path / "numbers.json").read_text())
    assert numbers["joined_trials"] > 0
    assert numbers["completed"] == 48
    assert numbers["lost"] <= 1, "a node has one core"
    assert numbers["again"] == numbers["lost"]
    assert numbers["servers"] == 3, "trials that end while the new node starts its actor leave theirs running"
