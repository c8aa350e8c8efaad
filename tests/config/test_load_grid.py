"""Files that are right: what comes out of them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pydantic import ValidationError

from raybench.config import DeviceProfile, load_grid
from raybench.errors import GridFileError

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
MINIMAL = "name: x\nworkload: digits_cnn\n"
SHIPPED = sorted((Path(__file__).parents[2] / "grids").glob("*.yaml"))


@pytest.fixture
def grid_file(tmp_path):
    def write(text: str, name: str = "grid.yaml") -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_the_example(grid_file):
    path = grid_file(EXAMPLE)
    spec = load_grid(path)
    assert (spec.name, spec.workload, spec.epochs, spec.repeats) == ("cifar_tpu_vs_gpu", "davidnet", 24, 3)
    assert list(spec.axes) == ["device", "batch_size", "weight_decay"]
    assert spec.axes["weight_decay"] == [1.25e-4, 2.5e-4, 5.0e-4]
    assert spec.exclude == [{"device": ["tpu"], "batch_size": [64]}]
    assert spec.overrides[0].when == {"device": ["tpu"]}
    assert spec.overrides[0].set.model_fields_set == {"precision"}
    assert spec.target.at_least == 0.94
    assert spec.baseline == {"device": "gpu"}
    assert spec.profile("tpu").replicas == 8
    assert spec.profile("gpu").price_per_hour == 0.35
    assert (spec.source_text, spec.source_path) == (EXAMPLE, path)


def test_the_price_and_the_co2_of_energy(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text(MINIMAL + "price_per_kwh: 0.3\ngCO2_per_kwh: 380\n")
    spec = load_grid(path)
    assert (spec.price_per_kwh, spec.gCO2_per_kwh) == (0.3, 380)
    path.write_text(MINIMAL + "price_per_kwh: -1\n")
    with pytest.raises(GridFileError, match="price_per_kwh: "):
        load_grid(path)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_the_shipped_grids(path):
    assert load_grid(path).name == path.stem


def test_what_is_not_said(grid_file):
    spec = load_grid(grid_file(MINIMAL))
    assert spec.model_fields_set == {"name", "workload"}
    assert (spec.axes, spec.repeats, spec.seed, spec.retries, spec.stop_at_target) == ({}, 1, 0, 2, False)
    assert spec.learning_rate is None


def test_axes_keep_the_order_of_the_file(grid_file):
    spec = load_grid(grid_file(MINIMAL + "axes:\n  threads: [2]\n  device: [cpu]\n  batch_size: [8]\n  epochs: [1]\n"))
    assert list(spec.axes) == ["threads", "device", "batch_size", "epochs"]


def test_every_axis_holds_plain_values_of_its_setting(grid_file):
    axes = """\
axes:
  device: available
  timeout: [1h30m, 45]
  steps_per_epoch: [1, null]
  learning_rate: [1, 1e-3]
  augmentation: [[], [crop, flip, {cutout: 8}]]
  schedule: [constant, {points: [[0, 0], [5, 1]], name: piecewise_linear}]
  examples: [{train: 100}]
"""
    spec = load_grid(grid_file(MINIMAL + axes))
    assert spec.axes == {
        "device": "available",
        "timeout": [5400.0, 45.0],
        "steps_per_epoch": [1, None],
        "learning_rate": [1.0, 0.001],
        "augmentation": [[], ["crop", "flip", {"cutout": 8}]],
        "schedule": ["constant", {"name": "piecewise_linear", "points": [[0.0, 0.0], [5.0, 1.0]]}],
        "examples": [{"train": 100}],
    }


@pytest.mark.parametrize(
    ("written", "meant"),
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
def test_a_condition_is_a_list_of_values_for_each_axis(grid_file, written, meant):
    axes = "axes: {batch_size: [8, 16], timeout: [60, 2h], augmentation: [[], [crop]], betas: [[0.9, 0.99]]}\n"
    assert load_grid(grid_file(MINIMAL + axes + f"exclude: [{written}]\n")).exclude == [meant]


def test_a_rule_may_name_what_include_adds(grid_file):
    rules = """\
axes: {batch_size: [8]}
include: [{batch_size: 1024, threads: 4}]
overrides: [{when: {batch_size: 1024, threads: 4}, set: {learning_rate: 0.4}}]
baseline: {batch_size: 1024}
"""
    assert load_grid(grid_file(MINIMAL + rules)).include == [{"batch_size": 1024, "threads": 4}]


def test_a_bare_kind_has_an_implied_profile(grid_file):
    spec = load_grid(grid_file(MINIMAL + "devices: {cpu: {kind: cpu, threads: 3}}\n"))
    assert spec.profile("cuda") == DeviceProfile(kind="cuda")
    assert spec.profile("cuda").count == 1
    assert spec.profile("cpu").threads == 3
    with pytest.raises(LookupError, match="gpu"):
        spec.profile("gpu")


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("30m", 1800), ("2h", 7200), ("1h30m", 5400), ("0.5", 0.5)])
def test_timeouts(grid_file, text, seconds):
    assert load_grid(grid_file(f"{MINIMAL}timeout: {text}\n")).timeout == seconds


@pytest.mark.parametrize(
    ("text", "size"),
    [("1024", 1024), ("512MiB", 1 << 29), ("2GiB", 1 << 31), ("2 GiB", 1 << 31), ("1.5GB", 1_500_000_000)],
)
def test_memory_limits(grid_file, text, size):
    assert load_grid(grid_file(f"{MINIMAL}memory_limit: {text}\n")).memory_limit == size
    profile = f"devices: {{small: {{kind: cpu, memory_limit: {text}}}}}\n"
    assert load_grid(grid_file(MINIMAL + profile)).profile("small").memory_limit == size


def test_a_grid_cannot_be_changed(grid_file):
    with pytest.raises(ValidationError):
        load_grid(grid_file(MINIMAL)).repeats = 3


def test_yaml_values_are_those_of_yaml_1_2(grid_file):
    anchors = "axes: &axes {batch_size: [0x10, 0o20]}\nexclude: [{batch_size: 16}]\n"
    with pytest.raises(GridFileError, match=r"grid\.yaml:3:33: axes\.batch_size\[1\]: 16 is on the axis twice"):
        load_grid(grid_file(MINIMAL + anchors))
    spec = load_grid(
        grid_file(MINIMAL + "weight_decay: 5e-4\ndescription: on\naxes: {device: &d [cpu]}\nexclude: [{device: *d}]")
    )
    assert (spec.weight_decay, spec.description, spec.exclude) == (0.0005, "on", [{"device": ["cpu"]}])


def test_windows_files(tmp_path):
    path = tmp_path / "grid.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + MINIMAL.replace("\n", "\r\n").encode())
    assert load_grid(path).name == "x"


def test_changes(grid_file):
    changes = [
        "axes.batch_size=[64,32]",
        "repeats = 5",
        "devices.gpu.kind=cuda",
        "target.at_least=0.5",
        "axes.device=[gpu]",
    ]
    spec = load_grid(
        grid_file(EXAMPLE.replace("exclude:\n  - {device: tpu, batch_size: 64}\n", "").replace("tpu}", "gpu}")), changes
    )
    assert spec.axes["batch_size"] == [64, 32]
    assert (spec.repeats, spec.target.at_least) == (5, 0.5)
    assert spec.profile("gpu").kind == "cuda"
    assert list(spec.axes)[:2] == ["device", "batch_size"]


def test_changes_make_the_maps_on_the_way(grid_file):
    spec = load_grid(grid_file(MINIMAL + "axes:\n"), ["axes.epochs=[1]", "devices.a.kind=cpu"])
    assert (spec.axes, list(spec.devices)) == ({"epochs": [1]}, ["a"])


@pytest.mark.exhaustive
def test_a_hundred_lines_load_at_once(grid_file):
    text = EXAMPLE + "include:\n" + "".join(f"  - {{device: gpu, batch_size: {n}}}\n" for n in range(1000, 1090))
    path = grid_file(text)
    load_grid(path)
    began = time.process_time()
    load_grid(path)
    spent = time.process_time() - began
    began = time.process_time()
    subprocess_like = json.loads(json.dumps(list(range(200_000))))
    yardstick = time.process_time() - began
    assert len(subprocess_like) == 200_000
    assert spent < 100 * yardstick


def test_it_is_light():
    heavy = ["torch", "ray", "mlflow", "pandas", "scipy", "tensorflow", "click", "rich"]
    code = f"import sys, raybench.config; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
