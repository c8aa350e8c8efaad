"""The JSON Schema: it accepts what the loader accepts, refuses what it refuses, and explains every field."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest
import yaml

from raybench.config import json_schema, load_grid

GRIDS = Path(__file__).parents[2] / "grids"
GOOD = {
    "name": "x",
    "workload": "my_file.py:my_workload",
    "timeout": "1h30m",
    "memory_limit": "1.5GiB",
    "steps_per_epoch": None,
    "schedule": {"name": "piecewise_linear", "points": [[0, 0], [5, 1]], "stretch": True},
    "augmentation": ["crop", "flip", {"cutout": 8}],
    "label_smoothing": 0.2,
    "master_weights": False,
    "epochs": 9.9,
    "axes": {
        "device": "available",
        "betas": [[0.9, 0.99]],
        "precision": ["fp32", "bf16"],
    },
    "exclude": [{"precision": "fp32", "betas": [0.9, 0.99]}, {"precision": ["bf16"], "device": ["cpu", "cuda"]}],
    "overrides": [{"when": {"device": "cpu"}, "set": {"threads": 2}}],
    "devices": {
        "gpu": {"kind": "cuda", "price_per_hour": 0.35},
        "built": {"kind": "cpu", "environment": "xla"},
        "own": {"kind": "cpu", "environment": "~/venvs/torch29"},
    },
    "target": {"metric": "val/accuracy", "at_least": 0.9},
}
BAD = [
    {"epoch": 1},
    {"epochs": 0},
    {"epochs": None},
    {"epochs": "3"},
    {"name": "a b"},
    {"precision": "fp8"},
    {"timeout": "5x"},
    {"timeout": "0s"},
    {"timeout": ""},
    {"memory_limit": 0},
    {"memory_limit": "0GiB"},
    {"memory_limit": "2G"},
    {"memory_limit": "-2GiB"},
    {"schedule": {"name": "piecewise_linear", "points": [[0, 0]]}},
    {"schedule": {"name": "exponential"}},
    {"augmentation": [{"flip": 1}]},
    {"axes": {"batch_size": []}},
    {"axes": {"batch_size": 64}},
    {"axes": {"batch_size": [64, 64]}},
    {"axes": {"device": "cpu"}},
    {"axes": {"repeats": [1]}},
    {"exclude": {"device": "cpu"}},
    {"devices": {"gpu": {}}},
    {"devices": {"a": {"kind": "cpu", "environment": ""}}},
    {"devices": {"a": {"kind": "cpu", "environment": "venv"}}},
    {"devices": {"a": {"kind": "cpu", "environment": {}}}},
    {"devices": {"a": {"kind": "cpu", "environment": 3}}},
    {"overrides": [{"when": {"device": "cpu"}}]},
    {"target": {"metric": "a", "at_least": "much"}},
]


@pytest.fixture(scope="module")
def validator():
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("path", sorted(GRIDS.glob("*.yaml")), ids=lambda path: path.stem)
def test_it_accepts_the_shipped_grids(validator, path):
    # PyYAML's own loader reads 5e-4 as text; an editor does not.
    text = path.read_text(encoding="utf-8").replace("5.0e-4", "0.0005").replace("2.5e-4", "0.00025")
    validator.validate(yaml.safe_load(text.replace("1.25e-4", "0.000125")))


def load(data, tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text(yaml.safe_dump(data), encoding="utf-8")
    return load_grid(path)


def test_it_accepts_what_the_loader_accepts(validator, tmp_path):
    validator.validate(GOOD)
    assert load(GOOD, tmp_path).timeout == 5400


@pytest.mark.parametrize("change", BAD, ids=str)
def test_it_refuses_what_the_loader_refuses(validator, change, tmp_path):
    bad = GOOD | change
    assert not validator.is_valid(bad)
    with pytest.raises(Exception, match=r"x\.yaml"):
        load(bad, tmp_path)


def test_every_field_is_explained():
    schema = json_schema()
    maps = {"": schema, **schema["$defs"]}
    for where, one in maps.items():
        assert one["additionalProperties"] is False, where
        assert one["description"], where
        for name, about in one["properties"].items():
            assert len(about["description"]) > 15, f"{where}.{name}"
            assert about["examples"], f"{where}.{name}"
            assert "title" in about or "$ref" in about, f"{where}.{name}"


def test_examples_are_right():
    schema = json_schema()
    for where, one in {"": schema, **schema["$defs"]}.items():
        for name, about in one["properties"].items():
            for example in about["examples"]:
                part = {"$defs": schema["$defs"], **about}
                assert jsonschema.Draft202012Validator(part).is_valid(example), f"{where}.{name}: {example}"


@pytest.mark.parametrize(
    "path", sorted((GRIDS.parent / "examples").glob("*/grid.yaml")), ids=lambda path: path.parent.name
)
def test_it_accepts_the_examples(validator, path):
    assert list(validator.iter_errors(yaml.safe_load(path.read_text(encoding="utf-8")))) == []


@pytest.mark.parametrize(
    ("workload", "is_valid"),
    [
        ({"command": "python train.py"}, True),
        ({"command": ["sleep", 3, 0.5, True], "env": {"A": 1}, "json_lines": True, "smoke": ["-n", 3]}, True),
        ({"command": ["x"], "json_lines": {"epoch": "epoch"}}, True),
        ({"command": []}, False),
        ({"command": ""}, False),
        ({"comand": "x"}, False),
        ({"command": "x", "metrics": {"epoch": 3}}, False),
        (["x"], False),
    ],
)
def test_commands(validator, workload, is_valid):
    assert validator.is_valid({"name": "x", "workload": workload}) == is_valid
