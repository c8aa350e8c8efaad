"""A setting that is added to raybench: earlier results count, and no engine that lacks it runs in its name."""

import os
import shutil
import subprocess
import sys

import pytest
from support import ROOT
from support.project import run_trials

FIELD = """    amsgrad: bool = setting(
        False, "For adam and adamw: keep the largest second moment.", affects=(SPEED, LEARNING), optimizers=ADAM
    )
    decay: Literal"""
GRID = """
name: g
workload: digits_cnn
epochs: 1
examples: {train: 64, val: 8}
optimizer: adam
axes: {batch_size: [16, 32]}
"""


@pytest.mark.slow
@pytest.mark.ray
def test_results_stay_and_engines_without_it_skip(tmp_path, ray_executor):
    package = tmp_path / "changed" / "raybench"
    shutil.copytree(ROOT / "raybench", package)
    settings = package / "core/settings.py"
    text = settings.read_text()
    assert text.count("    decay: Literal") == 1
    settings.write_text(text.replace("    decay: Literal", FIELD))
    (tmp_path / "new.yaml").write_text(f"{GRID}amsgrad: true\nframework: torch\n")
    run_trials(tmp_path, GRID, ray_executor)

    def plan(grid):
        command = [sys.executable, "-m", "raybench", "plan", grid, "--results", "results"]
        environ = os.environ | {"PYTHONPATH": str(package.parent)}
        return subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False).stdout

    assert "2 done" in plan("grid.yaml")
    assert "raybench's torch engine has no amsgrad; remove it" in plan("new.yaml")
