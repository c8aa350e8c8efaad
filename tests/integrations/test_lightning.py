"""A Trainer of Lightning that reports to a trial."""

import pytest
from support.frameworks import call, remember

pytestmark = pytest.mark.slow


def train(folder, **arguments):
    return call("lightning", "lightning_side:train", folder=str(folder), **arguments)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("trained"))
    return remember("lightning", "lightning_side:train", folder=folder, test=True)


def test_epochs_steps_and_examples(trained):
    assert [epoch["epoch"] for epoch in trained["epochs"]] == [1, 2]
    assert [(epoch["steps"], epoch["optimizer_steps"]) for epoch in trained["epochs"]] == [(13, 13)] * 2
    assert [epoch["examples"] for epoch in trained["epochs"]] == [50, 50]
    assert [len(epoch["step_s"]) for epoch in trained["epochs"]] == [12, 13], "the first is partly compilation"
    assert (trained["more"], trained["warnings"]) == ([True, False], [])
    assert trained["epochs"][0]["optimizers"] == [{"class": "Adam", "lr": 0.05, "weight_decay": 0.0}]


def test_metrics_have_the_name_of_their_data(trained):
    for number, epoch in enumerate(trained["epochs"]):
        names = {"train/loss", "train/size", "train/late", "val/loss", "val/seen", "hard/loss"}
        assert set(epoch["metrics"]) == names
        assert epoch["metrics"]["train/late"] == number, "those of this epoch"
    assert trained["epochs"][1]["metrics"]["train/loss"] < trained["epochs"][0]["metrics"]["train/loss"]
    assert set(trained["later"]) == {"test/loss"}


def test_time_is_charged_to_its_sections(trained):
    for epoch in trained["epochs"]:
        ledger = epoch["ledger"]
        assert ledger["evaluate"] >= 0.07, "the reading of 50 examples and two batches"
        assert ledger["input_wait"] >= 0.05
        assert min(ledger["train"], ledger["checkpoint"]) > 0
    assert trained["ledger"]["build"] >= 0.07, "the sanity check"


def test_grids_epochs_and_steps_replace_the_trainers(tmp_path):
    trained = train(tmp_path, epochs=3, options={"steps_per_epoch": 4}, max_epochs=9)
    assert [(epoch["steps"], epoch["examples"]) for epoch in trained["epochs"]] == [(4, 16)] * 3
    assert trained["warnings"] == []


def test_a_part_of_an_epoch(tmp_path):
    trained = train(tmp_path, epochs=1.5)
    assert [epoch["steps"] for epoch in trained["epochs"]] == [13, 7]
    assert trained["warnings"] == []


@pytest.mark.parametrize("metric", ["val/loss", "train/loss"])
def test_training_stops_at_the_target(tmp_path, metric):
    trained = train(tmp_path, epochs=5, target=[metric, None, 1000.0])
    assert ([epoch["epoch"] for epoch in trained["epochs"]], trained["more"]) == ([1], [False])
    assert trained["warnings"] == []


def test_leaving_early_is_a_warning(tmp_path):
    trained = train(tmp_path, epochs=3, max_steps=13)
    assert [epoch["steps"] for epoch in trained["epochs"]] == [13]
    assert trained["warnings"] == ["the loop was left after epoch 1 of 3"]


def test_infinite_loss_ends_training(tmp_path):
    trained = train(tmp_path, epochs=3, diverges=True)
    assert trained["diverged"] in ("train/loss is nan in epoch 1", "val/loss is nan in epoch 1")
    assert [epoch["epoch"] for epoch in trained["epochs"]] == [1]


def test_several_devices_without_torchrun_are_refused(tmp_path):
    message = call("lightning", "lightning_side:several_devices", folder=str(tmp_path))
    assert message.startswith("Lightning starts this program again for each of 2 devices")
    assert "torchrun" in message


def test_a_number_of_steps_is_a_part_of_epochs(tmp_path):
    trained = train(tmp_path, epochs=None, max_steps=20)
    assert [epoch["steps"] for epoch in trained["epochs"]] == [13, 7]
    assert trained["warnings"] == []
