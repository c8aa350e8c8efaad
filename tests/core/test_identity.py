import json

import pytest
from support.cells import make_cell

from raybench.core.cell import CellWorkload
from raybench.core.identity import canonical, cell_id, leaves, trial_id

RESOLVED = {
    "framework": "torch",
    "augmentation": [],
    "batch_size": 256,
    "compile": False,
    "epochs": 2,
    "input": "device",
    "optimizer": "sgd",
    "learning_rate": 0.1,
    "momentum": 0.9,
    "nesterov": True,
    "betas": [0.9, 0.999],
    "eps": 1e-8,
    "precision": "fp32",
    "schedule": "constant",
    "steps_per_epoch": None,
    "weight_decay": 5e-4,
    "warmup_epochs": 1,
}


def cell(seed=0, target=None, **changes):
    return make_cell(
        workload=CellWorkload("katnoria_cnn", 1),
        data={"name": "cifar10", "digest": "sha256:5d3f0a1c", "examples": {"train": 40000, "val": 10000}},
        device={"count": 2, "kind": "cpu", "model": "AMD EPYC", "replicas": 1, "threads": 2},
        engine={"name": "torch", "framework_version": "2.13"},
        resolved=RESOLVED | changes,
        seed=seed,
        target=target,
    )


PLAIN = cell().cell_id


def test_ids_depend_on_the_json_alone():
    assert cell_id(json.loads(canonical(cell().to_json()))) == PLAIN
    assert trial_id(PLAIN, 0) == f"{PLAIN}-r0"


@pytest.mark.parametrize(
    "changes",
    [
        {"batch_size": 128},
        {"weight_decay": 0.0},
        {"optimizer": "adam"},
        {"decay": "decoupled"},
        {"schedule": {"name": "exponential", "decay_steps": 2000}},
        {"augmentation": ["flip"]},
        {"channels_last": True},
        {"evaluation_batch_size": 500},
        {"seed": 7},
        {"target": {"metric": "val/accuracy", "at_least": 0.9}},
    ],
)
def test_what_can_change_a_result_makes_another_cell(changes):
    assert cell(**changes).cell_id != PLAIN


@pytest.mark.parametrize(
    "changes",
    [
        {"warmup_epochs": 2},
        {"channels_last": False},
        {"evaluation_batch_size": None},
        {"decay": "coupled"},
        {"weight_decay": 0.0005},
        {"betas": [0.5, 0.5]},  # SGD has none
    ],
)
def test_what_cannot_does_not(changes):
    assert cell(**changes).cell_id == PLAIN


def test_one_setting_written_in_two_ways_is_one_cell():
    assert cell(augmentation=["crop"]).cell_id == cell(augmentation=[{"crop": 4}]).cell_id
    assert cell(weight_decay=0).cell_id == cell(weight_decay=0.0).cell_id
    assert cell(momentum=0).cell_id == cell(momentum=0.0, nesterov=False).cell_id
    points = [[0, 0], [5, 1]]
    same = [
        {"name": "piecewise_linear", "points": points},
        {"name": "piecewise_linear", "points": points, "stretch": False},
    ]
    assert cell(schedule=same[0]).cell_id == cell(schedule=same[1]).cell_id


def test_leaves_are_dotted_and_lists_are_leaves():
    found = dict(leaves(cell().to_json()))
    assert found["settings.optimizer.learning_rate"] == 0.1
    assert found["settings.augmentation"] == []
    assert found["data.examples.val"] == 10000


def test_a_number_that_json_cannot_say_is_refused():
    with pytest.raises(ValueError, match="JSON"):
        canonical({"x": float("nan")})
