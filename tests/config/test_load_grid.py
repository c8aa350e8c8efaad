"""Values of valid grid files."""

import jsonschema
import pytest
from pydantic import ValidationError
from support import ROOT

from raybench.config import DeviceProfile, GridSpec, Settings, load_grid
from raybench.config.yaml_document import read_yaml
from raybench.core.settings import SETTINGS

GRIDS = [*sorted((ROOT / "grids").glob("*.yaml")), *sorted((ROOT / "examples").glob("*/grid.yaml"))]
HEAD = "name: x\nworkload: digits_cnn\n"
EXAMPLE = """\
name: cifar_tpu_vs_gpu
workload: davidnet
epochs: 24
target: {metric: val/accuracy, at_least: 0.94}
axes:                        # any setting may be an axis
  device: [gpu, tpu]
  batch_size: [64, 128, 512]
  weight_decay: [1.25e-4, 2.5e-4, 5.0e-4]
repeats: 3
exclude:
  - {device: tpu, batch_size: 64}
overrides:
  - when: {device: tpu}
    set: {precision: bf16}
devices:
  gpu: {kind: cuda, price_per_hour: 0.35}          # accelerator_type: T4 pins one model
  tpu: {kind: tpu, framework: torch_xla, environment: xla, replicas: 8, price_per_hour: 4.50}
baseline: {device: gpu}
"""


@pytest.fixture
def load(tmp_path):
    def load(text, *changes):
        (tmp_path / "grid.yaml").write_text(text, encoding="utf-8")
        return load_grid(tmp_path / "grid.yaml", changes)

    return load


def test_an_example(load, tmp_path):
    spec = load(EXAMPLE)
    assert (spec.name, spec.workload, spec.epochs, spec.repeats) == ("cifar_tpu_vs_gpu", "davidnet", 24, 3)
    assert list(spec.axes) == ["device", "batch_size", "weight_decay"]
    assert spec.axes["weight_decay"] == [1.25e-4, 2.5e-4, 5.0e-4]
    assert spec.exclude == [{"device": ["tpu"], "batch_size": [64]}]
    assert spec.overrides[0].when == {"device": ["tpu"]}
    assert spec.overrides[0].set.model_fields_set == {"precision"}
    assert (spec.target.at_least, spec.baseline) == (0.94, {"device": "gpu"})
    assert (spec.profile("tpu").replicas, spec.profile("gpu").price_per_hour) == (8, 0.35)
    assert (spec.source_text, spec.source_path) == (EXAMPLE, tmp_path / "grid.yaml")
    with pytest.raises(ValidationError):
        spec.repeats = 3


@pytest.mark.parametrize("path", GRIDS, ids=lambda path: str(path.relative_to(ROOT)))
def test_grids_of_the_repository(path):
    if path.parent.name == "grids":  # the examples import large libraries
        assert load_grid(path).name == path.stem
    jsonschema.validate(read_yaml(path.read_text(encoding="utf-8"), "").value, GridSpec.model_json_schema())


def test_defaults(load):
    spec = load(HEAD)
    assert spec.model_fields_set == {"name", "workload"}
    assert (spec.axes, spec.repeats, spec.seed, spec.retries, spec.stop_at_target) == ({}, 1, 0, 2, False)
    assert spec.learning_rate is None
    assert spec.profile("cuda") == DeviceProfile(kind="cuda")
    with pytest.raises(LookupError, match="gpu"):
        spec.profile("gpu")


def test_each_setting_may_stand_in_a_grid_file():
    assert list(Settings.model_fields) == list(SETTINGS)
    for name, one in SETTINGS.items():
        for example in one.examples:
            assert Settings.model_validate({name: example}).model_fields_set == {name}


def test_axes_have_plain_values_in_order(load):
    axes = {
        "steps_per_epoch": ("[1, null]", [1, None]),
        "device": ("available", "available"),
        "timeout": ("[1h30m, 45]", [5400.0, 45.0]),
        "memory_limit": ("[512MiB, 1.5GB, 2 GiB, 8]", [1 << 29, 1_500_000_000, 1 << 31, 8]),
        "learning_rate": ("[1, 1e-3]", [1.0, 0.001]),
        "augmentation": ("[[], [crop, flip, {cutout: 8}]]", [[], ["crop", "flip", {"cutout": 8}]]),
        "schedule": (
            "[constant, {points: [[0, 0], [5, 1]], name: piecewise_linear}]",
            ["constant", {"name": "piecewise_linear", "points": [[0.0, 0.0], [5.0, 1.0]]}],
        ),
        "examples": ("[{train: 100}]", [{"train": 100}]),
    }
    spec = load(HEAD + "axes:\n" + "".join(f"  {name}: {text}\n" for name, (text, _) in axes.items()))
    assert list(spec.axes.items()) == [(name, values) for name, (_, values) in axes.items()]


@pytest.mark.parametrize(
    ("rule", "values"),
    [
        ("{batch_size: 8}", {"batch_size": [8]}),
        ("{batch_size: [8, 16]}", {"batch_size": [8, 16]}),
        ("{timeout: 1m}", {"timeout": [60.0]}),
        ("{augmentation: []}", {"augmentation": [[]]}),
        ("{augmentation: [crop]}", {"augmentation": [["crop"]]}),
        ("{augmentation: [[], [crop]]}", {"augmentation": [[], ["crop"]]}),
        ("{betas: [0.9, 0.99]}", {"betas": [[0.9, 0.99]]}),
    ],
)
def test_conditions_are_lists_of_values(load, rule, values):
    axes = "axes: {batch_size: [8, 16], timeout: [60, 2h], augmentation: [[], [crop]], betas: [[0.9, 0.99]]}\n"
    assert load(f"{HEAD}{axes}exclude: [{rule}]\n").exclude == [values]


def test_rules_may_name_values_of_include(load):
    rules = """\
axes: {batch_size: [8]}
include: [{batch_size: 1024, threads: 4}]
overrides: [{when: {batch_size: 1024, threads: 4}, set: {learning_rate: 0.4}}]
baseline: {batch_size: 1024}
"""
    assert load(HEAD + rules).include == [{"batch_size": 1024, "threads": 4}]


def test_yaml_1_2_and_windows_files(load, tmp_path):
    spec = load(HEAD + "weight_decay: 5e-4\ndescription: on\n")
    assert (spec.weight_decay, spec.description) == (0.0005, "on")
    (tmp_path / "grid.yaml").write_bytes(b"\xef\xbb\xbf" + HEAD.replace("\n", "\r\n").encode())
    assert load_grid(tmp_path / "grid.yaml").name == "x"


def test_changes(load):
    spec = load(EXAMPLE, "axes.batch_size=[64,32]", "repeats = 5", "devices.gpu.kind=mps", "target.at_least=0.5")
    assert spec.axes["batch_size"] == [64, 32] and list(spec.axes)[:2] == ["device", "batch_size"]
    assert (spec.repeats, spec.target.at_least, spec.profile("gpu").kind) == (5, 0.5, "mps")


def test_changes_make_missing_maps(load, tmp_path):
    spec = load(HEAD + "axes:\n", "axes.epochs=[1]", "devices.cpu.kind=cpu")
    assert (spec.axes, list(spec.devices)) == ({"epochs": [1]}, ["cpu"])
    (tmp_path / "my.py").write_text("def train(trial, *, hidden, start=0): hidden, start\n")
    spec = load("name: x\nworkload: my.py:train\n", "params.start=1", "axes.params.hidden=[1,2]")
    assert (spec.params, spec.axes) == ({"start": 1}, {"params.hidden": [1, 2]})
