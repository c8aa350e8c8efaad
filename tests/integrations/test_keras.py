"""`model.fit` of Keras that reports to a trial."""

import pytest
from support.frameworks import call, remember

pytestmark = [pytest.mark.slow, pytest.mark.tensorflow]


def train(folder, **arguments):
    return call("tensorflow", "keras_side:train", folder=str(folder), **arguments)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return remember("tensorflow", "keras_side:train", folder=str(tmp_path_factory.mktemp("trained")), test=True)


def test_epochs_steps_and_examples(trained):
    assert [epoch["epoch"] for epoch in trained["epochs"]] == [1, 2]
    assert [(epoch["steps"], epoch["examples"]) for epoch in trained["epochs"]] == [(5, 40)] * 2
    assert (trained["more"], trained["warnings"], trained["problem"]) == ([True, False], [], None)


def test_metrics_have_the_name_of_their_data(trained):
    for epoch in trained["epochs"]:
        assert set(epoch["metrics"]) == {"train/loss", "train/mae", "val/loss", "val/mae"}
    assert set(trained["later"]) == {"test/loss", "test/mae"}


def test_time_is_that_of_training_and_evaluation(trained):
    for epoch in trained["epochs"]:
        ledger = epoch["ledger"]
        assert ledger["evaluate"] >= 0.02
        assert ledger["train"] > 0
        assert "input_wait" not in ledger and "step_s" not in epoch, "not measured"
    assert trained["ledger"]["evaluate"] > sum(epoch["ledger"]["evaluate"] for epoch in trained["epochs"])


def test_keras_does_not_fetch_metrics_at_each_step():
    assert sorted(call("tensorflow", "keras_side:hooks")) == [
        "on_epoch_begin", "on_epoch_end", "on_test_begin", "on_test_end", "on_train_begin", "on_train_end",
    ]  # fmt: skip


def test_epochs_and_steps_must_match_the_grid(tmp_path):
    assert "model.fit has epochs=2, and the grid epochs=3" in train(tmp_path, epochs=3, fit_epochs=2)["problem"]
    assert train(tmp_path, options={"steps_per_epoch": 2})["problem"].startswith(
        "model.fit has steps_per_epoch=5, and the grid steps_per_epoch=2"
    )
    limited = train(tmp_path, options={"steps_per_epoch": 2}, steps=2)
    assert (limited["problem"], [epoch["steps"] for epoch in limited["epochs"]]) == (None, [2, 2])


def test_grid_ends_a_longer_fit(tmp_path):
    trained = train(tmp_path, epochs=1, fit_epochs=5)
    assert (len(trained["epochs"]), trained["more"]) == (1, [False])


def test_training_stops_at_the_target(tmp_path):
    trained = train(tmp_path, epochs=5, target=["val/loss", None, 1000.0])
    assert ([epoch["epoch"] for epoch in trained["epochs"]], trained["more"]) == ([1], [False])


def test_infinite_loss_ends_training(tmp_path):
    trained = train(tmp_path, epochs=3, nan=True)
    assert trained["problem"].endswith("loss is nan in epoch 1")
    assert [epoch["epoch"] for epoch in trained["epochs"]] == [1]
