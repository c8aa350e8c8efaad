import json

import pytest

from raybench.core.cell import Cell, CellDevice, CellWorkload
from raybench.core.identity import is_inline, is_smoke, leaves
from raybench.core.settings import MISSING, TRAINING

TREE = {
    "data": {"name": "cifar10", "digest": "sha256:5d3f0a1c", "examples": {"train": 40000, "val": None}},
    "device": {"kind": "tpu", "model": None, "count": 2, "replicas": 2, "threads": 4, "devices": 2},
    "engine": {"name": "torch", "framework_version": "2.13"},
    "framework": "torch",
    "settings": {
        "optimizer": {"name": "adam", "learning_rate": 0.001, "betas": [0.9, 0.999], "eps": 1e-8},
        "epochs": 9.9,
        "batch_size": 256,
        "weight_decay": 0,
        "model": {"dropout": 0.2},
        "decay": "coupled",
        "label_smoothing": 0.1,
        "schedule": {"name": "piecewise_linear", "points": [[0.0, 0.0], [5.0, 1.0]], "stretch": False},
        "gradient_clipping": 1.0,
        "gradient_accumulation": 2,
        "precision": "fp32",
        "compile": False,
        "input": "device",
        "augmentation": ["flip", {"crop": 4}],
        "steps_per_epoch": None,
    },
    "warmup_epochs": 1,
    "workload": {"name": "mine", "digest": "sha256:77"},
    "seed": 3,
    "stop_at_target": {"metric": "val/accuracy", "at_least": 0.9},
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


def test_json_is_read_and_written_back():
    written, known = (dict(leaves(tree)) for tree in (Cell.from_json(json.loads(json.dumps(TREE))).to_json(), TREE))
    assert {name: written.pop(name) for name in known} == known
    defaults = {".".join(("settings", *one.path)): one.default for one in TRAINING.values()}
    assert {name: defaults[name] for name in written} == written, "settings that did not exist when it was written"


def test_fields_have_the_values_of_the_json():
    cell = Cell.from_json(TREE)
    assert cell.workload == CellWorkload("mine", digest="sha256:77")
    assert (cell.data.name, cell.data.examples.train, cell.data.examples.val) == ("cifar10", 40000, None)
    assert (cell.device.kind, cell.device.count, cell.device.devices) == ("tpu", 2, 2)
    assert (cell.engine.name, cell.framework, cell.warmup_epochs, cell.seed) == ("torch", "torch", 1, 3)
    assert (cell.settings.optimizer, cell.settings.betas, cell.settings.batch_size) == ("adam", (0.9, 0.999), 256)
    assert cell.stop_at_target == {"metric": "val/accuracy", "at_least": 0.9}
    leaves = cell.leaves
    assert (leaves["settings.optimizer.learning_rate"], leaves["data.examples.train"]) == (0.001, 40000)


def test_the_order_of_keys_is_no_part_of_the_identity():
    one, other = (
        Cell.from_json(TREE | {"params": dict(order)}) for order in ([("a", 1), ("b", 2)], [("b", 2), ("a", 1)])
    )
    assert one.cell_id == other.cell_id != Cell.from_json(TREE).cell_id


def test_an_unknown_cell_is_false():
    assert not Cell() and not Cell.from_json({}) and not Cell.from_json({"unknown": 1})
    assert Cell().to_json() == {} and Cell().device.kind is MISSING
    assert Cell.from_json({"device": {"kind": "cpu"}}) == Cell(device=CellDevice("cpu"))
    assert Cell(device=CellDevice("cpu"))


@pytest.mark.parametrize("path", list(paths(TREE)), ids=".".join)
@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_any_json_is_read(path, wrong):
    cell = Cell.from_json(with_value(TREE, path, wrong))
    again = Cell.from_json(cell.to_json())
    assert again == cell or (path[0] == "settings" and Cell.from_json(again.to_json()) == again)
    assert isinstance(cell.device.kind or "", str) and isinstance(cell.framework or "", str)
    assert isinstance(cell.settings.batch_size or 0, int) and isinstance(cell.data.examples.train or 0, int)
    assert isinstance(cell.seed, int) and isinstance(cell.shown_name, str)


@pytest.mark.parametrize(("data", "name"), [("cifar10", "cnn"), ("cifar10-synthetic", "cnn-synthetic")])
def test_the_shown_name_marks_synthetic_data(data, name):
    assert Cell.from_json({"workload": {"name": "cnn"}, "data": {"name": data}}).shown_name == name


@pytest.mark.parametrize("suffixes", ["", "~inline", "~smoke", "~inline~smoke"])
def test_the_name_of_a_grid_says_how_it_ran(suffixes):
    assert (is_inline(f"g{suffixes}"), is_smoke(f"g{suffixes}")) == ("inline" in suffixes, "smoke" in suffixes)
