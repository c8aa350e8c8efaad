"""Repeats until it is certain: which trials a grid runs, and what its report then says."""

import math
import random

import pytest
from support.executors import DrawnTimes

from raybench.config import load_grid
from raybench.run import Options, run_grid

TRAIN = "def train(trial, *, speed: str = 'same'):\n    raise AssertionError('times are drawn')\n"
GRID = """
name: drawn
workload: train.py:train
epochs: 2
repeats: {until: 5%}
axes: {device: [cpu], params.speed: [reference, quiet, noisy]}
"""


def run(tmp_path, noise, grid=GRID, view=None, seed=1):
    """Run a grid whose logs of times have this standard deviation by the value of `speed`."""
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "grid.yaml").write_text(grid)
    rng = random.Random(seed)
    executor = DrawnTimes(lambda cell: math.exp(rng.gauss(0, noise[cell.params["speed"]])))
    options = Options(tmp_path / "results", checks=False, tracking=None, report=False)
    return run_grid(load_grid(tmp_path / "grid.yaml"), executor, view, options)


def runs(outcome):
    return {each.axes["params.speed"]: each.completed for each in outcome.report.answer.configurations}


def test_settled_comparisons_stop_and_others_go_on(tmp_path):
    outcome = run(tmp_path, {"reference": 0.001, "quiet": 0.001, "noisy": 0.2})
    assert runs(outcome) == {"reference": 10, "quiet": 4, "noisy": 10}
