"""`raybench report --over`: when a configuration became slower."""

import json
from datetime import datetime, timedelta

import numpy as np
import pytest
from support.executors import DrawnTimes

from raybench.analysis.answer import Summary
from raybench.analysis.measured import Measured
from raybench.analysis.over import LOOK_ALPHA, Session, changes, series_of
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
    today, same, sentence = told["sentences"]
    assert today.startswith("Today, batch 32: ") and " slower than at first" in today.replace(
        "as long as", "slower than"
    )
    assert same == "No change of batch 128."
    assert sentence.startswith("batch 32: slower since 2") and sentence in said.out.replace("\n", " ")
    slower, same = told["series"]
    assert [level["sessions"] for level in slower["levels"]] == [9, 7]
    assert slower["levels"][1]["since"] == slower["sessions"][9]["began"]
    assert slower["levels"][1]["speed"]["low"] < 1 / 1.1 < slower["levels"][1]["speed"]["high"]
    assert (len(same["levels"]), len(same["sessions"])) == (1, 16)
    page = (tmp_path / "over.html").read_text()
    assert "slower since" in page and "<svg" in page


def test_a_slow_down_fails_a_job(nights, raybench):
    """It takes 10% longer."""
    assert raybench("report", "--over", *nights, "--fail-on", "3%").status == 4
    assert raybench("report", "--over", *nights, "--fail-on", "30%").status == 0
    assert raybench("report", "r0", "--fail-on", "3%").status == 2


@pytest.mark.parametrize(("kind", "is_trend"), [("trend", True), ("steps", False)])
def test_a_trend_is_told_as_one(kind, is_trend):
    """40 nights, at the end of which an epoch takes 1.3 times as long."""
    random = np.random.default_rng(2)
    logs = random.normal(0, 0.005, 40) + np.log(1.3) * (
        np.arange(40) / 39 if kind == "trend" else (np.arange(40) > 12) / 2 + (np.arange(40) > 25) / 2
    )
    start = datetime(2026, 1, 1)
    sessions = [
        Session((start + timedelta(days=day)).isoformat(" "), Summary(float(np.exp(each))))
        for day, each in enumerate(logs)
    ]
    series = series_of("cpu", sessions, [Measured(0, {})] * 40, LOOK_ALPHA)
    assert bool(series.trend) == is_trend and len(series.levels) > 2
    assert series.is_slower(0.1) and not series.is_slower(0.5)
    if series.trend:
        x, y = np.arange(40), logs
        slope = np.polyfit(x, y, 1)[0]
        assert series.trend.per_week.value == pytest.approx(np.exp(-7 * slope))
        assert series.today.value == pytest.approx(np.exp(-39 * slope))
        assert series.trend.per_week.low < series.trend.per_week.value < series.trend.per_week.high


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
