import json
from dataclasses import replace

import pytest

from raybench.core.cell import TRIAL, Cell, CellDevice, CellWorkload, Role
from raybench.core.settings import MISSING

TREE = {
    "data": {"name": "cifar10", "digest": "sha256:5d3f0a1c", "examples": {"train": 40000, "val": None}},
    "device": {"kind": "tpu", "model": None, "count": 2, "replicas": 2, "threads": 4, "replication": "x", "devices": 2},
    "engine": {"name": "torch", "version": 1, "framework_version": "2.13"},
    "framework": "torch",
    "schema": 1,
    "settings": {
        "optimizer": {"name": "adam", "learning_rate": 0.001, "betas": [0.9, 0.999], "eps": 1e-8},
        "epochs": 9.9,
        "batch_size": 256,
        "weight_decay": 0,
        "model": {"dropout": 0.2},
        "decay": "coupled",
        "schedule": {"name": "piecewise_linear", "points": [[0.0, 0.0], [5.0, 1.0]], "stretch": False},
        "gradient_clipping": 1.0,
        "precision": "fp32",
        "compile": False,
        "input": "device",
        "augmentation": ["flip", {"crop": 4}],
        "steps_per_epoch": None,
        "stop_at_target": {"metric": "val/accuracy", "at_least": 0.9},
    },
    "warmup_epochs": 1,
    "workload": {"name": "mine", "digest": "sha256:77"},
    "seed": 3,
    "isolation": "inline",
    "smoke": {"device": "gpu", "batch_size": 512, "examples": {"train": None}},
    "aa_of": "e5728b716bd9",
    "compared": {"version": "base", "pair": "7a1c2e5f0b3d"},
}  # fmt: skip
WRONG = (None, True, 0, -1.5, "", "text", [], [1], {}, {"name": 1}, {"optimizer": {"name": "novograd", "x": 1}})


def paths(tree, path=()):
    for name, value in tree.items():
        yield (*path, name)
        if isinstance(value, dict):
            yield from paths(value, (*path, name))


def with_value(tree, path, value):
    name, *rest = path
    return {**tree, name: with_value(tree[name], rest, value) if rest else value}


def test_the_json_of_a_planned_cell_keeps_its_order():
    tree = json.loads(json.dumps(TREE))
    assert json.dumps(Cell.from_json(tree).to_json()) == json.dumps(tree)


def test_a_changed_cell_keeps_the_order_of_its_json():
    cell = Cell.from_json({"settings": {"epochs": 3, "x": 1, "batch_size": 8}, "data": {}, "framework": "torch"})
    changed = replace(cell, settings=replace(cell.settings, batch_size=16, compile=True), warmup_epochs=2)
    assert json.dumps(changed.to_json()) == json.dumps(
        {
            "settings": {"epochs": 3, "x": 1, "batch_size": 16, "compile": True},
            "data": {},
            "framework": "torch",
            "warmup_epochs": 2,
        }
    )


def test_fields_have_the_values_of_the_json():
    cell = Cell.from_json(TREE)
    assert cell.workload == CellWorkload("mine", digest="sha256:77")
    assert (cell.data.name, cell.data.examples.train) == ("cifar10", 40000)
    assert (cell.device.kind, cell.device.count, cell.device.devices) == ("tpu", 2, 2)
    assert (cell.engine.name, cell.framework, cell.schema, cell.warmup_epochs) == ("torch", "torch", 1, 1)
    assert (cell.settings.optimizer, cell.settings.betas, cell.settings.batch_size) == ("adam", (0.9, 0.999), 256)
    assert (cell.seed, cell.isolation) == (3, "inline")
    assert cell.role == Role(aa_of="e5728b716bd9", smoke=TREE["smoke"], compared=TREE["compared"])
    assert cell.role.is_aa_test and cell.role.is_smoke
    assert (cell.role.version, cell.role.pair) == ("base", "7a1c2e5f0b3d")
    assert TRIAL.version is TRIAL.pair is None
    assert cell.stop_at_target == {"metric": "val/accuracy", "at_least": 0.9}
    assert not cell.further


def test_null_is_a_value_that_nobody_knows_and_stays_in_the_json():
    cell = Cell.from_json(TREE)
    assert cell.device.model is None and cell.data.examples.val is None
    placed = replace(cell, device=replace(cell.device, model="H100"))
    assert placed.to_json()["device"] == {**TREE["device"], "model": "H100"}


def test_a_null_in_the_place_of_a_number_stays_in_the_json():
    cell = Cell.from_json({"device": {"kind": "cpu", "threads": None}})
    assert cell.device.threads is MISSING and cell.to_json() == {"device": {"kind": "cpu", "threads": None}}


def test_a_cell_of_which_nothing_is_known_is_false():
    assert not Cell() and not Cell.from_json({}) and Cell() == Cell.from_json({})
    assert Cell().to_json() == {} and Cell().role is TRIAL and Cell().device.kind is MISSING
    assert Cell.from_json({"device": {"kind": "cpu"}}) == Cell(device=CellDevice("cpu"))
    assert Cell(device=CellDevice("cpu"))
    assert Cell.from_json({"unheard_of": 1})


@pytest.mark.parametrize("path", list(paths(TREE)), ids=".".join)
@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_any_json_is_read_and_written_back(path, wrong):
    tree = with_value(TREE, path, wrong)
    cell = Cell.from_json(tree)
    assert json.dumps(cell.to_json()) == json.dumps(tree)
    assert Cell.from_json(cell.to_json()) == cell
    assert isinstance(cell.device.kind or "", str) and isinstance(cell.framework or "", str)
    assert isinstance(cell.settings.batch_size or 0, int) and isinstance(cell.data.examples.train or 0, int)
    assert isinstance(cell.role.smoke or {}, dict) and isinstance(cell.role.aa_of or "", str)
    assert isinstance(cell.seed, int) and isinstance(cell.shown_name, str)


@pytest.mark.parametrize("name", ["label_smoothing", "gradient_clipping", "decay_rule", "master_weights", "unheard_of"])
def test_a_default_that_a_source_wrote_stays_in_the_json(name):
    default = {"label_smoothing": 0.0, "gradient_clipping": None, "decay_rule": "mean", "master_weights": True}.get(
        name, 1
    )
    tree = {"settings": {"batch_size": 32, name: default}}
    assert Cell.from_json(tree).to_json() == tree


def test_a_changed_setting_replaces_a_value_of_a_wrong_type():
    cell = Cell.from_json({"settings": {"epochs": "many", "batch_size": 8}})
    assert cell.settings.epochs is MISSING
    changed = replace(cell, settings=replace(cell.settings, epochs=3))
    assert changed.to_json() == {"settings": {"epochs": 3, "batch_size": 8}}


def test_leaves_have_dotted_names():
    leaves = Cell.from_json(TREE).leaves()
    assert leaves["settings.optimizer.learning_rate"] == 0.001
    assert leaves["data.examples.train"] == 40000 and leaves["aa_of"] == "e5728b716bd9"


@pytest.mark.parametrize(
    ("tree", "name"),
    [
        ({"workload": {"name": "cnn"}, "data": {"name": "cifar10"}}, "cnn"),
        ({"workload": {"name": "cnn"}, "data": {"name": "cifar10-synthetic"}}, "cnn-synthetic"),
        ({}, "None"),
    ],
)
def test_the_shown_name_says_that_data_are_synthetic(tree, name):
    assert Cell.from_json(tree).shown_name == name
