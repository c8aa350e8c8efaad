import pytest
from support.report_grids import CPU, GPU, Grid

from raybench.analysis.pairs import SettingDifference, differences, pairs
from raybench.core.cell import UNKNOWN_CELL, Cell
from raybench.core.settings import label
from raybench.results.attempt import attempts, latest


def compared(grid):
    """The comparisons of a grid's cells."""
    return pairs(grid.cells, latest(attempts(grid.events).values()), grid.results["baseline"])


def test_a_device_named_after_a_batch_takes_the_same_steps():
    baseline, other = compared(Grid().add("cpu", CPU).add("big batch", GPU))
    assert other.same_steps and other.other.name == "big batch"
    assert baseline.is_baseline


@pytest.mark.parametrize(
    ("baseline", "batches", "same"),
    [
        ({"device": "cpu"}, (256, 256), True),
        ({"device": "cpu", "batch_size": 64}, (64, 64), True),
        ({"device": "cpu", "batch_size": 64}, (64, 256), False),
        ({"batch_size": 64}, (64, 256), False),
    ],
)
def test_steps_are_the_same_work_if_batches_are(baseline, batches, same):
    devices = ("cpu", "gpu") if "device" in baseline else ("cpu", "cpu")
    grid = Grid(baseline=baseline)
    for device, batch, seconds in zip(devices, batches, (CPU, GPU), strict=True):
        grid.add(device, seconds, batch=batch)
    assert compared(grid)[1].same_steps is same


def test_a_batch_that_each_device_has_of_its_own_is_other_steps():
    grid = Grid().add("cpu", CPU, batch=64, axes={"batch_size": "own"}).add("gpu", GPU, axes={"batch_size": "own"})
    other = compared(grid)[1]
    assert [each.setting for each in other.differences] == ["batch_size"]
    assert not other.same_steps


@pytest.mark.parametrize(("form", "steps", "same"), [("function", 4, False), ("function", 1, True), (None, 4, True)])
def test_a_loop_that_accumulates_gradients_takes_other_steps(form, steps, same):
    """A step of a user's loop is a batch, of which the optimizer may need several."""

    def change(content):
        content["workload"]["form"] = form

    def more_steps(event):
        event.update({"steps": steps * event["steps"]} if "steps" in event else {})

    grid = Grid().add("cpu", CPU, change=change).add("gpu", GPU, change=change, event=more_steps)
    other = compared(grid)[1]
    assert other.same_steps is same
    assert (other.break_even is not None) is same


def test_what_affects_learning():
    grid = Grid().add("cpu", CPU).add("gpu", GPU, precision="bf16", channels_last=True, epochs=5)
    other = compared(grid)[1]
    assert {each.setting for each in other.differences} == {"precision", "channels_last", "epochs"}
    assert [each.setting for each in other.learning_differences] == ["precision"]
    assert other.learns_alike, "the device alone is compared"
    assert not compared(Grid(baseline={"batch_size": 64}).add("cpu", CPU, batch=64).add("cpu", GPU))[1].learns_alike


def test_a_setting_that_the_baseline_does_not_tell():
    other = Cell.from_json({"settings": {"batch_size": 64, "optimizer": {"name": "adam"}}})
    assert differences(UNKNOWN_CELL, other, ()) == (
        SettingDifference("batch_size", 64, None, in_baseline=False),
        SettingDifference("optimizer", "adam", None, in_baseline=False),
    )


def test_names_of_settings():
    names = ("batch_size", "optimizer", "learning_rate", "weight_decay", "channels_last")
    assert [label(name) for name in names] == ["batch", "optimizer", "learning rate", "decay", "channels last"]
