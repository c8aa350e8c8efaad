"""What is said of commands: their clock, the work of their epochs, their quality."""

import pytest
from support.made_up_runs import MadeUpGrid

from raybench.analysis.work import work_of
from raybench.core.origin import Origin
from raybench.results.metrics import main_metric
from raybench.results.output_clock import OutputClock

STEPS = OutputClock(r"step (\d+)", "step N | loss …", "step", 10.0)
COMMAND = {"form": "command", "clock": "output"}


@pytest.mark.parametrize(
    ("names", "metric"),
    [
        (["train/entropy_loss", "train/loss", "train/ep_reward"], "train/ep_reward"),
        (["train/loss", "val/loss", "test/accuracy", "speed/tokens_per_s"], "test/accuracy"),
        (["train/box_loss", "train/cls_loss", "train/map50"], "train/map50"),
        (["train/loss", "val/loss"], "val/loss"),
        (["train/policy_loss", "train/value_loss", "train/kl_loss", "train/loss"], "train/loss"),
        (["train/d_loss", "train/g_loss"], "train/d_loss"),
        (["val/loss", "val/perplexity"], "val/perplexity"),
        (["val/accuracy", "val/f1"], "val/accuracy"),
        ([], ""),
    ],
)
def test_the_quality_of_a_program(names, metric):
    assert main_metric(names) == metric
    assert main_metric(names, "val/wanted") == metric
    assert all(main_metric(names, name) == name for name in names)


@pytest.mark.parametrize(
    ("axes", "is_changed", "is_assumed"),
    [
        (["count", "nodes", "params.seq_len", "params.num_envs", "params.max_steps"], (True, True), (False, False)),
        (["batch_size", "params.bs", "params.batchsize", "per_device_batch_size"], (True, False), (False, True)),
        (["params.hidden", "params.argument_1", "params.model"], (False, False), (True, True)),
        (
            ["learning_rate", "params.lr", "device", "params.compile", "params.dtype", "threads"],
            (False, False),
            (False, False),
        ),
    ],
)
def test_whether_an_axis_changes_the_work_of_an_epoch(axes, is_changed, is_assumed):
    grid = MadeUpGrid()
    for are_passes in (False, True):
        grid.add({"x": are_passes}, [1.0, 1.0], **COMMAND)
        grid.attempts[-1].output_clock = OutputClock(are_passes=are_passes)
        runs = [grid.attempts[-1]]
        origin = Origin.ASSUMED if is_assumed[are_passes] else Origin.RECOGNIZED
        assert {work_of(axis, runs) for axis in axes} == {(is_changed[are_passes], origin)}


def answer_of(*configurations, **fields):
    """The answer of a grid with a configuration for each clock."""
    grid = MadeUpGrid({"x": 0})
    for number, changes in enumerate(configurations):
        grid.add({"x": number}, [1.0 + number, 1.0 + number], examples=0, ledger={"startup": 7.0}, wall=20.0, **COMMAND)
        for run in grid.attempts[-2:]:
            for name, value in {"output_clock": STEPS, **fields, **changes}.items():
                setattr(run, name, value)
    return grid.answer()


def test_the_clock_is_said_in_the_answer():
    answer = answer_of({}, {}, holds_evaluation=True)
    assert answer.configurations[1].ratio.value == pytest.approx(0.5)
    assert answer.clock == (
        "Epochs are the lines `step N | loss …`, 10 steps each; start-up of 7 s is left out; their time includes "
        "evaluations."
    )

    answer = answer_of({}, {}, clock="program", output_clock=OutputClock())
    assert answer.clock == "Times are by the program's own clock; start-up of 7 s is left out."


@pytest.mark.parametrize("change", [{"output_clock": OutputClock("x")}, {"clock": "run"}])
def test_runs_with_different_clocks_are_not_compared(change):
    answer = answer_of({}, change)
    assert not any(each.ratio for each in answer.configurations) and not any(each.other for each in answer.best)
    assert "different_clocks" in [each.code for each in answer.trust.cautions]


def test_whole_runs_have_a_caution_with_the_share_of_their_start():
    answer = answer_of({}, {}, clock="run", first_metric_s=12.0)
    (caution,) = [each for each in answer.trust.cautions if each.code == "whole_run"]
    assert "may be 60%" in caution.text and caution.mark in answer.configurations[1].cautions
    assert answer.unit.name == "run"
