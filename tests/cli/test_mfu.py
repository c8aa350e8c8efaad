"""MFU of the user's own command, from the grid file to the tables."""

import pytest

from raybench import load

PROGRAM = """
import time
for epoch in range(3):
    time.sleep(0.2)
    print("epoch", epoch, flush=True)
"""

GRID = """
name: own
workload:
  command: python program.py {size} {dtype}
  epoch: ^epoch
  work: {tokens: "{size}"}
params: {size: 1000, dtype: float32}
flops_per_token: 2 * {size}
flops_precision: "{dtype}"
"""


@pytest.fixture
def run(raybench, tmp_path):
    """Runs a verb on a grid file beside the program; returns its status, and what it printed in one line."""
    (tmp_path / "program.py").write_text(PROGRAM)

    def run(text, verb, *words):
        (tmp_path / "own.yaml").write_text(text)
        said = raybench(verb, "own.yaml", *words)
        return said.status, " ".join((said.out + said.err).split())

    return run


@pytest.mark.slow
def test_command_with_stated_flops(run):
    status, printed = run(GRID, "grid", "--no-tracking")
    (row,) = load("raybench-results/own").trials.to_dict("records")
    assert status == 0 and row["flop_rate"] == pytest.approx(2 * 1000 * 1000 / row["steady_s"], rel=0.01)
    assert 0 < row["mfu"] < 0.01
    assert "(fp32 product)" in printed or "(fp32 convolution)" in printed


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("flops_per_token: 6 * {sizes}", "own.yaml:8:1: no value for {sizes}; did you mean size"),
        (
            "flops_per_token: 6 * {size} - 6000",
            "own.yaml:8:1: flops_per_token: 6 * 1000 - 6000 is not a number above 0",
        ),
        ("flops_per_token: many", "wanted a number, or numbers and names in braces"),
        ("flops_per_token: 6\nflops_per_example: 6", "has flops_per_token and flops_per_example; remove one"),
        ("flops_per_token: 6\nflops_precision: fp8", "own.yaml:9:1: fp8 is not a precision whose peak is measured"),
    ],
)
def test_wrong_flops_are_errors_of_the_plan(run, line, problem):
    status, printed = run(GRID[: GRID.index("flops_per")] + line + "\n", "plan")
    assert status != 0 and problem in printed
