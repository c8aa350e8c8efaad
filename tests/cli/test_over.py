"""`raybench report --over`: when a configuration became slower."""

import json

import numpy as np
import pytest
from support.executors import DrawnTimes

from raybench.analysis.over import LOOK_ALPHA, changes
from raybench.config import load_grid
from raybench.core.options import GridOptions
from raybench.run import run_grid

GRID = """
name: nightly
workload: train.py:train
epochs: 2
repeats: 2
axes: {device: [cpu], batch_size: [32, 128]}
"""


@pytest.fixture
def nights(tmp_path):
    """The folders of two results folders with 8 nights each; from the tenth night on, batch 32 takes longer."""
    (tmp_path / "train.py").write_text("def train(trial, *, batch_size: int):\n    pass\n")
    (tmp_path / "grid.yaml").write_text(GRID)
    random = np.random.default_rng(0)
    for night in range(16):
        options = GridOptions(
            results=tmp_path / f"r{night // 8}", checks=False, tracking=None, report=False, rerun=True
        )

        def draw(job, night=night):
            slow = 1.1 if night > 8 and job.cell.settings.batch_size == 32 else 1.0
            return float(slow * np.exp(random.normal(0, 0.01)))

        run_grid(load_grid(tmp_path / "grid.yaml"), DrawnTimes(draw), None, options)
    return ["r0", "r1"]


def test_a_slowdown_has_its_date_and_the_other_configuration_has_none(nights, raybench, tmp_path):
    said = raybench("report", "--over", *nights, "--json", "over.json", "--html", "over.html")
    assert said.status == 0, said.err
    told = json.loads((tmp_path / "over.json").read_text())
    (sentence,) = told["sentences"]
    assert sentence.startswith("batch 32: slower since 2") and sentence in said.out.replace("\n", " ")
    slower, same = told["series"]
    assert [level["sessions"] for level in slower["levels"]] == [9, 7]
    assert slower["levels"][1]["since"] == slower["sessions"][9]["began"]
    assert slower["levels"][1]["speed"]["low"] < 1 / 1.1 < slower["levels"][1]["speed"]["high"]
    assert (len(same["levels"]), len(same["sessions"])) == (1, 16)
    page = (tmp_path / "over.html").read_text()
    assert "slower since" in page and "<svg" in page


def test_wrong_use(nights, raybench):
    for arguments, message in [
        (("--over", "r0", "--full"), "remove the other"),
        (("--over", "r2"), "no results of"),
    ]:
        said = raybench("report", *arguments, "--results", "r1")
        assert (said.status, message in said.err) == (2, True), said.err


@pytest.mark.parametrize("name", ["normal", "heavy tails"])
def test_false_alarms_and_delay_in_60_nights(name):
    """At most 5% alarms; 5% of time, with nights of 3 runs with 2%, is found within 6 nights."""
    random = np.random.default_rng(1)
    draw = random.normal if name == "normal" else lambda _, scale, size: random.standard_t(3, size) * scale
    nights = draw(0, 0.02 / 3**0.5, (100, 60))
    assert sum(bool(changes(each, LOOK_ALPHA)) for each in nights) <= 10, "of 100, as 5 are expected"
    if name == "normal":
        nights[:, 20:] += np.log(1.05)
        found = [changes(each[:26], LOOK_ALPHA) for each in nights]
        assert sum(len(each) == 1 and abs(each[0] - 20) < 2 for each in found) > 90
