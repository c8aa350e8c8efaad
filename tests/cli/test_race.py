"""Repeats until the best is known: which configurations stay in the race, and what the report says of the others."""

import io
import math
import random

import pytest
from support.executors import DrawnTimes
from support.outcomes import notes
from support.project import run_trials

from raybench.analysis.race import race_of
from raybench.cli.console import Terminal
from raybench.cli.live import Display
from raybench.planning.plan import request_of

GRID = """
name: drawn
workload: train.py:train
epochs: 2
repeats: {until: best}
axes: {device: [cpu], params.slower: [0, 1, 2, 30, 40]}
"""


@pytest.fixture
def drawn(tmp_path):
    """Runs a race of configurations that take so many percent longer, with noise of 1%."""
    (tmp_path / "train.py").write_text("def train(trial, *, slower: int):\n    raise AssertionError('drawn')\n")

    def run(changes=(), stop_after=None, view=None, failing=None, cv=0.01, accuracies=None):
        def draw(job):
            slower = job.cell.params["slower"]
            noise = random.Random(f"{slower} {job.repeat}").gauss(0, cv)
            return None if slower == failing else math.exp(noise) * (1 + slower / 100)

        executor = DrawnTimes(draw, stop_after, accuracies)
        return run_trials(tmp_path, GRID, executor, view, set=changes, keep_going=True), executor.trials

    return run


def completed(outcome):
    return [each.completed for each in outcome.report.answer.configurations]


def test_what_is_shown_to_be_slower_gets_no_more_repeats(drawn):
    outcome, trials = drawn()
    runs = completed(outcome)
    assert runs[3:] == [3, 3] and max(runs[:3]) > 3 and sum(runs) == len(trials) == len(set(trials))
    assert notes(outcome)[0] == "Left after 3 repeats: slower 30; slower 40 (shown to be slower than slower 0)"
    last = outcome.report.answer.configurations[4]
    assert last.ratio.high < 1, "the reported interval is the one by which it left"
    assert not outcome.report.answer.status.is_stopped


@pytest.mark.parametrize("moment", [7, 15, 17, 21])
def test_stopped_race_goes_on_as_if_it_had_not_been(drawn, tmp_path, moment):
    whole, trials = drawn()
    (tmp_path / "results").rename(tmp_path / "whole")
    _, first = drawn(stop_after=moment)
    resumed, second = drawn()
    assert first + second == trials and first
    assert (notes(resumed), completed(resumed)) == (notes(whole), completed(whole))
    assert drawn()[1] == []


def test_race_ends_when_the_others_are_shown_to_be_near(drawn):
    outcome, _ = drawn(["repeats.within=9%"])
    assert max(completed(outcome)) < 10
    assert notes(outcome)[-1] == "All that were left are shown to be within 9% of the best: slower 1; slower 2"


def test_configuration_without_a_result_leaves(drawn):
    outcome, _ = drawn(failing=40)
    assert "Left after 3 repeats: slower 40 (without a result)" in notes(outcome)


def test_cheapest_is_looked_for_by_price(drawn):
    changes = [
        "axes={device: [dear, cheap], params.slower: [0, 1]}",
        "devices.dear={kind: cpu, price_per_hour: 5, threads: 1}",
        "devices.cheap={kind: cpu, price_per_hour: 1, threads: 2}",
    ]
    by_price, _ = drawn([*changes, "repeats.best_by=price"])
    assert completed(by_price)[:2] == [3, 3]
    assert "more expensive than" in notes(by_price)[0] and max(completed(by_price)[2:]) > 3


def test_what_loses_too_much_leaves_and_makes_nothing_else_leave(drawn):
    def accuracies(job):  # the fastest loses 10 points
        return [0.8 + random.Random(job.trial).gauss(0, 0.001) + (0.1 if job.cell.params["slower"] else 0.0)] * 2

    outcome, _ = drawn(["max_quality_loss=1%"], accuracies=accuracies)
    assert notes(outcome)[0].startswith("Left after 3 repeats: slower 0 (shown to be too much worse in quality than")
    assert "slower 40 (shown to be slower than slower 1)" in " ".join(notes(outcome))


def test_quality_is_compared_by_all_runs_of_each_side(drawn):
    def accuracies(job):  # the two fastest learn much less, and not the same in each run
        is_fast = job.cell.params["slower"] < 2
        return [random.Random(job.trial).gauss(0.3 if is_fast else 0.9, 0.1 if is_fast else 0.001)] * 2

    outcome, _ = drawn(accuracies=accuracies)
    first, *_, last = outcome.report.answer.configurations
    assert (first.completed > 5, last.completed) == (True, 3)
    difference = last.quality_difference
    assert difference.value == pytest.approx(last.quality.value - first.quality.value), "as the table shows them"
    assert difference.low > 0.2 and not difference.paired


def test_race_to_a_target_is_by_the_time_to_it(drawn):
    def accuracies(job):  # those that are slower by 30% and more need half of the epochs
        return [0.95 if number > (20 if job.cell.params["slower"] >= 30 else 40) else 0.5 for number in range(50)]

    outcome, _ = drawn(["target={metric: val/accuracy, at_least: 0.9}", "epochs=50"], accuracies=accuracies)
    (note,) = notes(outcome)  # 10 repeats, since fewer may not have shown that some runs miss the target
    assert "Left after 10 repeats: slower 0; slower 1; slower 2" in note and "slower to the target than" in note


def test_display_says_what_left_and_what_is_open(drawn):
    out = io.StringIO()
    drawn(view=Display(Terminal(file=out, width=300)))
    assert "slower 40: left after 3 repeats, shown to be slower than slower 0" in out.getvalue()
    assert "slower 1 against slower 0: ratio ±" in out.getvalue()


def test_decisions_use_only_the_repeats_so_far(drawn):
    outcome, _ = drawn()
    request, runs = request_of(outcome.plan), list(outcome.history.attempts.values())
    races = [race_of([run for run in runs if run.repeat < repeats], request) for repeats in (3, 4, 10)]
    assert [race.looks for race in races[:2]] == [3, 4] and races[2].departures.items() >= races[0].departures.items()
