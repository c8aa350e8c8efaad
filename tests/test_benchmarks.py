"""The benchmarks still start: what they measure is for people to run, on a machine of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = sorted((Path(__file__).parent.parent / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("path", BENCHMARKS, ids=[path.stem for path in BENCHMARKS])
def test_each_says_what_it_measures(path, tmp_path):
    asked = subprocess.run(
        [sys.executable, str(path), "--help"],
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (asked.returncode, asked.stderr) == (0, "")
    assert asked.stdout.startswith(f"usage: {path.name}")
    assert list(tmp_path.iterdir()) == [], "nothing is run"
