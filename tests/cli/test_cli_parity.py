"""`raybench parity`: whether the configurations of a grid train alike."""

import pytest

GRID = """
name: g
workload: my.py:train
epochs: 4
repeats: 4
axes: {params.loop: [old, new, wrong]}
"""
CODE = """
import random

def train(trial, *, loop: str):
    rate = 0.3 if loop == "wrong" else 0.1
    noise = random.Random(trial.seed)
    for epoch in trial.epochs():
        trial.log({"train/loss": (1 - rate) ** epoch + noise.gauss(0, 0.001)})
"""


@pytest.fixture
def grid(raybench, in_process, tmp_path):
    def run(*options):
        (tmp_path / "my.py").write_text(CODE)
        (tmp_path / "g.yaml").write_text(GRID)
        assert raybench("grid", "g.yaml", "--tracking", "none", *options).status == 0
        return raybench("parity", "g.yaml")

    return run


def test_losses_within_the_noise_and_beyond_it(grid):
    said = grid()
    assert said.status == 1
    heads = [line for line in said.lines if " against " in line]
    assert heads == ["loop new against loop old: no difference seen", "loop wrong against loop old: differs"]
    verdicts = [line.split()[1] for line in said.lines if line.startswith("train/loss") and "not seen" in line]
    assert verdicts == ["1", "2", "3–4", "1"], "the first losses are the same in all"


@pytest.mark.parametrize(
    ("options", "status", "text"),
    [
        (("--repeats", 1), 3, "unknown, as at least 2 runs of each are needed"),
        (("--where", "params.loop=old"), 2, "g: no two configurations to compare log the same loss; see --baseline"),
    ],
)
def test_without_a_verdict(grid, options, status, text):
    said = grid(*options)
    assert said.status == status and text in said.out + said.err
