"""Repeats until it is certain: which trials a grid runs, and what is printed and reported."""

import io
import math
import random

import pytest
from support.executors import DrawnTimes

from raybench.analysis.intervals import REPEATED_LOOKS, UNTIL_NARROW, Sample, Stopping, difference
from raybench.cli.console import Terminal
from raybench.cli.live import Display
from raybench.config import load_grid
from raybench.core.repeats import Progress, RepeatRule
from raybench.run import Options, run_grid

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

    def run(noise=NOISE, changes=(), stop_after=None, view=None, faster=0.0):
        (tmp_path / "grid.yaml").write_text(GRID)

        def draw(job):
            name = job.cell.params["speed"]
            if noise.get(name) is None:
                return None
            log = random.Random(f"{name} {job.repeat}").gauss(0, noise[name])
            return math.exp(log - (faster if name != "reference" else 0.0))

        options = Options(tmp_path / "results", checks=False, tracking=None, report=False, keep_going=True)
        executor = DrawnTimes(draw, stop_after=stop_after)
        return run_grid(load_grid(tmp_path / "grid.yaml", changes), executor, view, options), executor.trials

    return run


def completed(outcome):
    return {each.axes["params.speed"]: each.completed for each in outcome.report.answer.configurations}


def notes(outcome):
    return list(outcome.report.answer.status.repeats)


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


def test_verdict_stops_when_a_difference_is_shown(drawn):
    outcome, _ = drawn(NOISE | {"noisy": 0.05}, ["repeats.until=verdict"], faster=0.5)
    assert tuple(completed(outcome).values()) == (4, 4, 4)


def test_report_has_the_interval_of_the_rule(drawn):
    outcome, _ = drawn()
    quiet, noisy = (each.ratio for each in outcome.report.answer.configurations[1:])
    logs = [random.Random(f"quiet {repeat}").gauss(0, 0.001) for repeat in range(4)]
    logs = [one - random.Random(f"reference {repeat}").gauss(0, 0.001) for repeat, one in enumerate(logs)]
    mean = sum(logs) / 4
    half = 4.0005 * math.sqrt(sum((each - mean) ** 2 for each in logs) / 3 / 4)
    assert (quiet.low, quiet.high) == pytest.approx((math.exp(-mean - half), math.exp(-mean + half)), rel=1e-5)
    assert quiet.paired and (noisy.runs, noisy.other_runs) == (10, 10)
    (note,) = notes(outcome)
    assert note.startswith("Ratios less certain than ±5%: speed noisy ±") and note.endswith("% in 10 repeats")


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
    assert "3 cells x 4 to 10 repeats = 12 to 30 trials" in out.getvalue()
    assert len(lines) == 7
    assert lines[0].startswith("speed quiet: ratio ±") and "%, done; speed noisy: ratio ±" in lines[0]
    assert "±5% would take about " in lines[0] and "repeats (at most 10), " in lines[0]
    assert lines[-1].endswith("±5% was not reached in 10 repeats")


def test_plan_says_the_range_of_trials(drawn, raybench, tmp_path):
    (tmp_path / "grid.yaml").write_text(GRID)
    said = raybench("plan", "grid.yaml", "--results", "results")
    assert "drawn on this machine: 12 to 30 trials" in said.out
    assert "Up to 18 more trials, until each ratio is certain; how many is known after repeat 4." in said.out
    drawn(stop_after=12)
    said = raybench("plan", "grid.yaml", "--results", "results")
    assert "12 to 30 trials (12 done, 2 to run), about" in said.out
    assert "Up to 10 more trials, about " in said.out
    assert "speed noisy: ratio ±83%; ±5% would take about" in said.out and "quiet: ratio" not in said.out


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("{until: 5}", "use a percentage such as 5%, or verdict"),
        ("{until: 5%, at_least: 2}", "it should be greater than or equal to 3"),
        ("{until: 5%, at_most: 3}", "at_most 3 is less than at_least 4"),
        ("{until: verdict, at_most: 12}", "hold for at_most: 10 or less"),
        ("many", "use a number, such as 3, or {until: 5%"),
    ],
)
def test_rules_that_do_not_make_sense(raybench, tmp_path, written, message):
    (tmp_path / "grid.yaml").write_text(GRID.replace("{until: 5%}", written))
    said = raybench("plan", "grid.yaml")
    assert said.status == 2 and message in said.err and "grid.yaml:5" in said.err


WIDE, DONE = {"half": 0.07, "reached": False}, {"half": 0.031, "reached": True}


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (DONE | {"tried": 4, "needed": None}, "batch 32: ratio ±3.1%, done"),
        (WIDE | {"tried": 4, "needed": 7}, "batch 32: ratio ±7%, about 3 more repeats, 2 min"),
        (WIDE | {"tried": 4, "needed": 40}, "batch 32: ratio ±7%; ±5% would take about 40 repeats (at most 10), 2 min"),
        (WIDE | {"tried": 10, "needed": 12}, "batch 32: ratio ±7%; ±5% was not reached in 10 repeats"),
        (WIDE | {"half": None, "tried": 4, "needed": None}, "batch 32: no times to compare"),
    ],
)
def test_progress_in_words(fields, text):
    assert Progress("batch 32", ("a", "b"), rule=RepeatRule(4, 10, 0.05), **fields).in_words("2 min") == text


def sides(base, new, times=True):
    """Two sides that alternated, or without times, so that they are not paired."""
    stopping = Stopping.of(UNTIL_NARROW, 4)
    at = [(2.0 * number, 2.0 * number + 1) if times else (None, None) for number in range(len(base))]
    return [
        [Sample(repeat, math.log(each), "", *at[repeat], stopping) for repeat, each in enumerate(side)]
        for side in (base, new)
    ]


def test_reference_values_of_the_rule():
    base, new = (10.10, 9.95, 10.20, 10.02), (9.61, 9.40, 9.95, 9.52)
    welch, paired = difference(*sides(base, new, times=False)), difference(*sides(base, new))
    assert (welch.error, welch.df, welch.half) == pytest.approx((0.013305, 4.1087, 0.044283), rel=1e-3)
    assert [math.exp(each) for each in (welch.value, *welch.interval())] == pytest.approx(
        [1.04671, 1.00137, 1.09410], rel=1e-5
    )
    assert paired.half == pytest.approx(0.028456, rel=1e-4) and paired.paired
    expected = (4.0005, 3.3717, 3.0632, 2.8816, 2.7624, 2.6783, 2.6159)
    for n, quantile in enumerate(expected, 4):
        estimate = difference(*sides([1.0] * n, [1.0 + 0.01 * number for number in range(n)]))
        assert estimate.half / estimate.error == pytest.approx(quantile, rel=1e-4)


@pytest.mark.parametrize(
    ("alphas", "first", "expected"),
    [
        (UNTIL_NARROW, 3, (0.0215, 0.0234)),
        (UNTIL_NARROW, 8, (0.0321, 0.0340)),
        (REPEATED_LOOKS, 3, (0.0106, 0.0118)),
        (REPEATED_LOOKS, 4, (0.0130, 0.0146)),
        (REPEATED_LOOKS, 1, (0.0080, 0.0080)),
    ],
)
def test_alphas_by_the_first_look(alphas, first, expected):
    assert (found := Stopping.of(alphas, first)).welch == expected[0] and found.paired == expected[1]
