"""Modules in the folder that a grid is started in, named like those of Python's own library."""

import subprocess
import sys

import pytest
from support import WORKLOADS


@pytest.mark.exhaustive
@pytest.mark.ray
def test_they_hide_nothing_from_trials_and_from_what_runs_them(tmp_path):
    for name in sys.stdlib_module_names:
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('hidden')\n")
    (tmp_path / "workload").mkdir()
    (tmp_path / "workload" / "mine.py").write_text((WORKLOADS / "troubles.py").read_text())
    (tmp_path / "g.yaml").write_text(
        "name: g\nworkload: workload/mine.py:fine\nepochs: 1\nbatch_size: 16\nthreads: 1\n"
    )
    # The command `raybench` has no current folder on its path, which `-m` would put there.
    command = [sys.executable, "-P", "-m", "raybench", "grid", "g.yaml", "--no-checks"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "  1/1  " in done.stdout
    assert "hidden" not in done.stdout + done.stderr
