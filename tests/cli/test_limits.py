"""`--spend`, `--within` and `--wait-for-quiet`: where a grid stops, what it says, and what it waits for."""

import io
import math
import random

import pytest
from support.executors import DrawnTimes
from support.project import run_trials

from raybench.cli.console import Terminal
from raybench.cli.live import Display
from raybench.errors import UsageError
from raybench.monitoring.host import HostLoad

GRID = """
name: drawn
workload: train.py:train
epochs: 2
repeats: 5
axes: {device: [mine], params.size: [1, 2]}
devices: {mine: {kind: cpu, price_per_hour: 3600}}
"""


@pytest.fixture
def drawn(tmp_path):
    """Runs a grid whose trials take 2 s and $2 each; returns the outcome, the trials and what was shown."""
    (tmp_path / "train.py").write_text("def train(trial, *, size: int):\n    raise AssertionError('drawn')\n")

    def run(changes=(), load=None, draw=lambda job: 1.0, at_once=1, **limits):
        out, executor = io.StringIO(), DrawnTimes(draw, at_once=at_once)
        executor.host_load = lambda: load
        outcome = run_trials(tmp_path, GRID, executor, Display(Terminal(file=out, width=300)), set=changes, **limits)
        return outcome, executor.trials, out.getvalue()

    return run


@pytest.mark.parametrize(("limits", "trials"), [({"spend": "$9"}, 4), ({"spend": "4 USD"}, 2), ({"within": "1s"}, 1)])
def test_grid_stops_before_the_trial_that_exceeds_its_limit(drawn, limits, trials):
    outcome, ran, said = drawn(**limits)
    assert len(ran) == trials
    assert f"{10 - trials} trials that could have followed did not run" in said
    assert outcome.report.answer.status.is_stopped and outcome.exit_status == 0
    assert len(drawn()[1]) == 10 - trials, "the same command without a limit goes on"


def test_trials_that_still_run_are_part_of_what_is_spent(drawn):
    shared = ["devices={mine: {kind: cpu, price_per_hour: 3600, cpus: 1}}"]
    assert len(drawn(shared, at_once=2, spend="$7")[1]) == 3, "a fourth would make it $8"


def test_limit_that_is_not_reached_changes_nothing(drawn):
    outcome, ran, said = drawn(spend="1000", within="2h")
    assert len(ran) == 10 and "did not run" not in said and not outcome.warnings


def test_race_stops_between_two_repeats(drawn):
    _, ran, said = drawn(["repeats={until: best}"], spend="12.5")
    assert len(ran) == 6 and "2 trials that should follow did not run" in said


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"spend": "a lot"}, "--spend a lot: use an amount above 0"),
        ({"within": "soon"}, "--within soon: use seconds above 0"),
        ({"wait_for_quiet": "-1m"}, "--wait-for-quiet -1m: use seconds above 0"),
    ],
)
def test_limit_that_cannot_be_read(drawn, limits, words):
    with pytest.raises(UsageError, match=words):
        drawn(**limits)


def test_spending_needs_prices(drawn):
    with pytest.raises(UsageError, match="--spend 5: mine has no price; add `price_per_hour`"):
        drawn(["devices={mine: {kind: cpu}}"], spend="5")


def test_busy_machine_is_waited_for_if_asked(drawn):
    busy = HostLoad(1.9, 2)
    assert "Waiting for other programs, which use 1.9 of 2 cores, for at most 1 s" in drawn(
        load=busy, wait_for_quiet="1s"
    )[2]  # fmt: skip
    assert "Waiting for other" not in drawn(["repeats=6"], load=busy)[2]


def test_time_left_follows_a_machine_that_became_busy(tmp_path, drawn):
    drawn()
    display = Display(Terminal(file=io.StringIO(), width=300))
    executor = DrawnTimes(lambda job: 4.0)
    lefts = []
    shown = display._line
    display._line = lambda text: (lefts.append(display.seconds_left()), shown(text))
    run_trials(tmp_path, GRID, executor, display, set=["repeats=10"])
    known = [left for left in lefts if left is not None]
    assert max(known) > 1.5 * known[0]


def test_answer_and_plan_say_what_more_repeats_would_bring(drawn, raybench):
    def seconds(job):
        noise = random.Random(f"{job.cell.params['size']} {job.repeat}").gauss(0, 0.03)
        return (2.0 if job.cell.params["size"] == 3 else 1.0) * math.exp(noise)

    outcome, _, _ = drawn(["repeats=3", "axes={device: [mine], params.size: [1, 2, 3]}"], draw=seconds)
    more = outcome.report.answer.more_repeats
    assert sorted(more.configurations) == [0, 1] and more.trials == 2 * more.repeats and more.is_rest_decided
    assert more.total_price == pytest.approx(more.total_s) == pytest.approx(2 * more.trials, rel=0.2)
    said = raybench("plan", "grid.yaml", "--set", "repeats=3", "--set", "axes={device: [mine], params.size: [1, 2, 3]}",
                    "--results", "results").out  # fmt: skip
    assert f"About {more.repeats} more repeats ({more.trials} trials, " in said and "; the rest is decided." in said
    assert said.splitlines() and "would decide which of size " in said


def test_decided_answer_asks_for_no_more_repeats(drawn):
    outcome, _, _ = drawn(draw=lambda job: job.cell.params["size"] * (1 + job.repeat / 1000))
    assert outcome.report.answer.more_repeats is None
