"""A loop in plain JAX that reports to a trial."""

import pytest
from support.frameworks import remember

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def trained():
    return remember("jax", "jax_side:train")


def test_epochs_steps_and_examples(trained):
    assert trained["device"] == "cpu"
    assert [(epoch["epoch"], epoch["steps"], epoch["examples"]) for epoch in trained["epochs"]] == [
        (1, 5, 40),
        (2, 5, 40),
    ]
    assert trained["warnings"] == []


def test_metrics_are_read_when_the_epoch_closes(trained):
    for epoch in trained["epochs"]:
        assert set(epoch["metrics"]) == {"train/loss", "val/accuracy"}
        assert epoch["metrics"]["val/accuracy"] == 0.5


def test_submitted_work_is_charged_to_its_section(trained):
    first, second = (epoch["ledger"] for epoch in trained["epochs"])
    assert first["compile"] > 0
    assert second["compile"] == 0
    assert second["evaluate"] < second["train"] / 2, "the work of the steps is done before evaluation begins"
    assert "step_s" not in trained["epochs"][1], "to time a step, the host would have to wait for each"
