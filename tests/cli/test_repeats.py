"""Repeats until it is certain: which trials a grid runs, and what is printed and reported."""

import io
import math
import random
import re

import pytest
from support.executors import DrawnTimes
from support.outcomes import notes
from support.project import run_trials

from raybench.cli.console import Terminal
from raybench.cli.live import Display

TRAIN = "def train(trial, *, speed: str):\n    raise AssertionError('times are drawn')\n"
GRID = """
name: drawn
workload: train.py:train
epochs: 2
repeats: {until: 5%}
axes: {device: [cpu], params.speed: [reference, quiet, noisy]}
"""
NOISE = {"reference": 0.001, "quiet": 0.001, "noisy": 0.2}


@pytest.fixture
def drawn(tmp_path):
    """Runs a grid whose logs of times have a standard deviation by the value of `speed`."""
    (tmp_path / "train.py").write_text(TRAIN)

    def run(noise=NOISE, changes=(), stop_after=None, view=None, faster=0.0, rerun=False):
        def draw(job):
            name = job.cell.params["speed"]
            if noise.get(name) is None:
                return None
            log = random.Random(f"{name} {job.repeat}").gauss(0, noise[name])
            return math.exp(log - (faster if name != "reference" else 0.0))

        executor = DrawnTimes(draw, stop_after)
        return run_trials(tmp_path, GRID, executor, view, set=changes, keep_going=True, rerun=rerun), executor.trials

    return run


def completed(outcome):
    return {each.axes["params.speed"]: each.completed for each in outcome.report.answer.configurations}


@pytest.mark.parametrize(
    ("noise", "changes", "runs"),
    [
        (NOISE, [], (10, 4, 10)),
        (NOISE | {"noisy": 0.001}, [], (4, 4, 4)),
        (NOISE, ["repeats.at_most=6"], (6, 4, 6)),
        (NOISE | {"noisy": None}, [], (4, 4, 0)),
        (NOISE | {"reference": 0.03, "noisy": 0.03}, ["repeats.until=10%"], (4, 4, 4)),
        (NOISE, ["repeats=3"], (3, 3, 3)),
    ],
)
def test_settled_comparisons_stop_and_others_go_on(drawn, noise, changes, runs):
    outcome, trials = drawn(noise, changes)
    assert tuple(completed(outcome).values()) == runs
    assert len(set(trials)) == len(trials)
    assert not outcome.report.answer.status.is_stopped


def test_stopped_grid_goes_on_by_the_same_rule(drawn, tmp_path):
    whole, trials = drawn()
    (tmp_path / "results").rename(tmp_path / "whole")
    interrupted, first = drawn(stop_after=14)
    assert interrupted.exit_status == 130
    resumed, second = drawn()
    assert sorted(first + second) == sorted(trials)
    assert completed(resumed) == completed(whole)
    assert drawn()[1] == []


def test_rerun_replaces_all_runs_before(drawn):
    noisy, _ = drawn()
    assert tuple(completed(noisy).values()) == (10, 4, 10)
    interrupted, _ = drawn(NOISE | {"noisy": 0.001}, stop_after=2, rerun=True)
    assert set(completed(interrupted).values()) <= {1, 4, 10}, "a configuration without a new run keeps its own"
    again, trials = drawn(NOISE | {"noisy": 0.001}, rerun=True)
    assert (len(trials), tuple(completed(again).values())) == (12, (4, 4, 4))
    assert drawn(NOISE | {"noisy": 0.001})[1] == []


def test_verdict_stops_when_a_difference_is_shown(drawn):
    outcome, _ = drawn(NOISE | {"noisy": 0.05}, ["repeats.until=verdict"], faster=0.5)
    assert tuple(completed(outcome).values()) == (4, 4, 4)


def test_report_has_the_interval_of_the_rule(drawn):
    outcome, _ = drawn()
    quiet, noisy = (each.ratio for each in outcome.report.answer.configurations[1:])
    logs = [random.Random(f"quiet {repeat}").gauss(0, 0.001) for repeat in range(4)]
    logs = [one - random.Random(f"reference {repeat}").gauss(0, 0.001) for repeat, one in enumerate(logs)]
    mean = sum(logs) / 4
    half = 5.8409 * math.sqrt(sum((each - mean) ** 2 for each in logs) / 3 / 4)
    assert (quiet.low, quiet.high) == pytest.approx((math.exp(-mean - half), math.exp(-mean + half)), rel=1e-5)
    assert quiet.paired and (noisy.runs, noisy.other_runs) == (10, 10)
    (note,) = notes(outcome)
    assert note.startswith("Ratios less certain than ±5%: speed noisy ") and note.endswith(" in 10 repeats")


def test_repeats_added_after_a_report_widen_the_intervals(drawn):
    once, _ = drawn(changes=["repeats=5"])
    assert notes(once) == []
    extended, _ = drawn(changes=["repeats=6"])
    (note,) = notes(extended)
    assert note.startswith("Repeats were added after a report of 5")
    narrow = [each.configurations[2].ratio for each in (once.report.answer, extended.report.answer)]
    logs = [math.log(each.high / each.low) for each in narrow]
    assert logs[1] > logs[0] * 0.9


def test_display_says_how_certain_each_comparison_is(drawn):
    out = io.StringIO()
    drawn(view=Display(Terminal(file=out, width=200)))
    lines = [line for line in out.getvalue().splitlines() if "±" in line]
    assert "3 configurations x 4 to 10 repeats = 12 to 30 trials" in out.getvalue()
    assert "%, no more repeats needed; speed noisy: ratio uncertain by a factor of " in lines[0]
    assert "±5% needs about " in lines[0] and lines[0].endswith("; the limit is 10") and len(lines) == 2
    assert lines[-1].endswith("±5% was not reached in 10 repeats")


def test_plan_says_the_range_of_trials(drawn, raybench, tmp_path):
    (tmp_path / "grid.yaml").write_text(GRID)
    said = raybench("plan", "grid.yaml", "--results", "results")
    assert "drawn on this machine: 12 to 30 trials" in said.out
    assert "Up to 18 more trials, until each ratio is certain; how many is known after repeat 4." in said.out
    drawn(stop_after=12)
    (tmp_path / "prices.csv").write_text("device,price_per_hour\ncpu,3600\n")
    said = raybench("plan", "grid.yaml", "--results", "results", "--prices", "prices.csv")
    assert "12 to 30 trials (12 done, 2 to run), about" in said.out
    assert re.search(r"Up to 10 more trials, about .* s, about \$.*, until each ratio is certain\.", said.out)
    assert "speed noisy: ratio uncertain by a factor of 2." in said.out and "quiet: ratio" not in said.out
