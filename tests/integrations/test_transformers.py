"""A Trainer of Transformers that reports to a trial."""

import pytest
from support.frameworks import call, remember

pytestmark = pytest.mark.slow


def train(folder, **arguments):
    return call("transformers", "transformers_side:train", folder=str(folder), **arguments)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    arguments = {"save_strategy": "epoch", "gradient_accumulation_steps": 2, "include_num_input_tokens_seen": "all"}
    return remember("transformers", "transformers_side:train", folder=str(folder), test=True, arguments=arguments)


def test_epochs_steps_examples_and_tokens(trained):
    assert [epoch["epoch"] for epoch in trained["epochs"]] == [1, 2]
    assert [(epoch["steps"], epoch["optimizer_steps"]) for epoch in trained["epochs"]] == [(11, 6)] * 2
    assert [epoch["examples"] for epoch in trained["epochs"]] == [44, 44]
    assert [epoch["units"] for epoch in trained["epochs"]] == [{"tokens": 44 * 12}] * 2
    assert [len(epoch["step_s"]) for epoch in trained["epochs"]] == [5, 6], "the first is partly compilation"
    assert (trained["more"], trained["warnings"]) == ([True, False], [])
    assert trained["epochs"][0]["optimizers"][0]["class"] == "AdamW"


def test_metrics_have_the_name_of_their_data(trained):
    for epoch in trained["epochs"]:
        assert set(epoch["metrics"]) == {"train/loss", "val/loss", "val/accuracy"}
    assert set(trained["later"]) == {"test/loss", "test/accuracy"}


def test_time_is_that_of_training_evaluation_and_checkpoints(trained):
    for epoch in trained["epochs"]:
        ledger = epoch["ledger"]
        assert all(ledger[name] > 0 for name in ("train", "input_wait", "evaluate", "checkpoint"))
    assert trained["ledger"]["evaluate"] > sum(epoch["ledger"]["evaluate"] for epoch in trained["epochs"])
    assert trained["saved"] == ["checkpoint-12", "checkpoint-6"]


def test_grids_epochs_and_steps_replace_the_trainers(tmp_path):
    trained = train(tmp_path, epochs=3, options={"steps_per_epoch": 4}, arguments={"num_train_epochs": 1})
    assert [(epoch["steps"], epoch["examples"]) for epoch in trained["epochs"]] == [(4, 16)] * 3
    assert trained["rates"][-1] < 0.001 < trained["rates"][8]
    assert len(trained["rates"]) == 12


def test_a_part_of_an_epoch(tmp_path):
    trained = train(tmp_path, epochs=1.5)
    assert [epoch["steps"] for epoch in trained["epochs"]] == [11, 6]
    assert trained["warnings"] == []


def test_training_stops_at_the_target(tmp_path):
    trained = train(tmp_path, epochs=5, target=["val/accuracy", 0.1])
    assert ([epoch["epoch"] for epoch in trained["epochs"]], trained["more"]) == ([1], [False])
    assert trained["warnings"] == []


def test_evaluations_between_steps_and_of_several_data_sets(tmp_path):
    arguments = {"eval_strategy": "steps", "eval_steps": 4}
    trained = train(tmp_path, epochs=1, evaluated=["easy", "hard"], arguments=arguments)
    (epoch,) = trained["epochs"]
    assert {"easy/loss", "easy/accuracy", "hard/loss"} <= set(epoch["metrics"])


def test_hidden_infinite_loss_ends_training(tmp_path):
    trained = train(tmp_path, epochs=3, nan=True, arguments={"eval_strategy": "no"})
    assert trained["diverged"] == "grad_norm is nan in epoch 1"
    assert [epoch["epoch"] for epoch in trained["epochs"]] == [1]


@pytest.mark.parametrize(
    ("arguments", "steps"),
    [
        ({"max_steps": 16, "eval_strategy": "steps", "eval_steps": 6}, [6, 6, 4]),
        ({"max_steps": 4, "eval_strategy": "no"}, [2, 2]),
        ({"max_steps": 13, "eval_strategy": "no", "logging_strategy": "no"}, [13]),
    ],
)
def test_steps_between_evaluations_or_logs_are_epochs(tmp_path, arguments, steps):
    trained = train(tmp_path, epochs=None, arguments=arguments)
    assert [(epoch["steps"], epoch["examples"]) for epoch in trained["epochs"]] == [(n, 4 * n) for n in steps]
    # Older versions do not evaluate at the end.
    whole = [epoch for epoch in trained["epochs"] if epoch["steps"] == steps[0]]
    assert all(bool(epoch["ledger"]["evaluate"]) == ("eval_steps" in arguments) for epoch in whole)
    assert trained["warnings"] == []


def test_steps_and_epochs_of_the_grid_are_refused(tmp_path):
    message = call("transformers", "transformers_side:steps_instead_of_epochs", folder=str(tmp_path))
    assert message == "TrainingArguments(max_steps=7), and the grid has epochs=2: remove one of them"
