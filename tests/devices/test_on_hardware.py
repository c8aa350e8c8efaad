"""Trials on real hardware: `pytest -m gpu` on a machine with a GPU, `pytest -m tpu` on a TPU host.

Each test runs under every framework that supports the kind of device and is installed, and also on the CPU (and on
XLA's CPU device), which shows that the test itself works. It needs torch, NumPy and, for NVIDIA's GPUs, nvidia-ml-py;
tests that need more skip if it is missing. On a machine without raybench's other dependencies:

    python -m pytest --noconftest -o addopts= -o filterwarnings= -m gpu tests/devices/test_on_hardware.py
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from support import WORKLOADS
from support.frameworks import accelerators_shown, call_on
from support.parity import differences, differing

from raybench.devices import KINDS, frameworks, missing_precision
from raybench.engines import FRAMEWORKS, unimplemented
from raybench.workloads import read_workload

GIB = 1 << 30
SIDE = "device_side"
CPU_MEMORY = GIB // 2
"""Memory that stands for that of an accelerator in the tests on the CPU."""

CPU_LIMIT = GIB
"""Memory limit of a trial on the CPU: that, and what the framework itself takes."""

EXAMPLES_IN_MEMORY = 64
"""Examples whose activations are as large as the memory."""

TOO_MANY = 2 * EXAMPLES_IN_MEMORY


HARDWARE_TOLERANCE = 10
"""Factor on the tolerances of parity.

They are for frameworks on one CPU; a GPU also has other algorithms for a convolution, which round more."""

LOSS_TOLERANCE = {"fp32": 2e-3, "tf32": 1e-2, "bf16": 5e-2, "fp16": 5e-2}
"""Largest relative difference of a loss of an epoch from the same training on the CPU in float32."""


@dataclass(frozen=True)
class Place:
    """A kind of device under a framework."""

    kind: str
    framework: str

    @property
    def on_host(self) -> bool:
        """Whether it computes on the host's cores."""
        return KINDS[self.kind].on_host

    def call(self, function: str, **arguments: Any) -> Any:
        """What a function of `device_side.py` returns, in a process that sees the accelerators."""
        return call_on(self.kind, self.framework, f"{SIDE}:{function}", **arguments)

    def events(self, folder: Path, workload: str = "small", **options: Any) -> list[dict[str, Any]]:
        """The events of one trial or check in a process of its own."""
        info = read_workload(f"on_device.py:{workload}", WORKLOADS)  # here: it needs more than a framework
        return list(self.call("events_of", folder=str(folder), workload=info.to_json(), **options))

    def reason_against(self, settings: Mapping[str, Any]) -> str:
        """The reason why it cannot train with these settings; empty if it can."""
        if ignored := {*settings} & FRAMEWORKS[self.framework].ignores:
            return f"{self.framework} ignores {', '.join(sorted(ignored))}"
        lacking = missing_precision(self.kind, settings.get("precision", "fp32"))
        return lacking or unimplemented(self.framework, settings)


def param(kind: str, framework: str, *marks: Any) -> Any:
    name = kind if framework == frameworks(kind)[0] else f"{kind} {framework}"
    return pytest.param(Place(kind, framework), id=name, marks=marks)


def places(*on_host: Any, without: tuple[str, ...] = ()) -> Any:
    """All kinds of accelerators under each framework, and the places on the host that prove the test."""
    accelerators = dict.fromkeys(("cuda", "rocm", "mps"), pytest.mark.gpu) | {"tpu": pytest.mark.tpu}
    params = [
        param(kind, framework, mark, pytest.mark.slow)
        for kind, mark in accelerators.items()
        for framework in frameworks(kind)
        if framework not in without
    ]
    return pytest.mark.parametrize("place", [*on_host, *params], indirect=True)


CPU = param("cpu", "torch", pytest.mark.slow)
CPU_LONG = param("cpu", "torch", pytest.mark.exhaustive)
TENSORFLOW_CPU = param("cpu", "tensorflow", pytest.mark.tensorflow, pytest.mark.exhaustive)
XLA_CPU = param("xla_cpu", "torch_xla", pytest.mark.xla, pytest.mark.exhaustive)


@cache
def reason_against(place: Place) -> str:
    """The reason why this machine cannot test a place; empty if it can."""
    kind = KINDS[place.kind]
    probe = KINDS[kind.hardware or kind.name].probe
    with mock.patch.dict(os.environ, accelerators_shown(), clear=True):
        if probe is None or not probe():
            return f"this machine has no {kind.label}"
    return str(place.call("reason_against"))  # which skips the test if the framework is not installed


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Place:
    """A place for which this machine has hardware and framework; else the test skips, with the reason."""
    reason = reason_against(request.param)
    if reason:
        pytest.skip(reason)
    place: Place = request.param
    return place


def losses(events: list[dict[str, Any]]) -> list[float]:
    end = events[-1]
    assert end["status"] == "completed", end["error"]
    return [event["metrics"]["train/loss"] for event in events if event["event"] == "epoch_ended"]


@places(CPU, TENSORFLOW_CPU, XLA_CPU)
def test_ten_steps_compute_what_the_cpu_computes(place: Place, tmp_path: Path) -> None:
    """Outputs, gradients, losses, updates and batch statistics, from the same weights and batches."""
    for side, name in ((on_the_cpu(place), "reference"), (place, "device")):
        options = {"workload": f"{WORKLOADS / 'on_device.py'}:small", "batch_size": 48, "learning_rate": 1.0}
        call_on(side.kind, side.framework, "parity_side:train", folder=str(tmp_path), name=name, root="", **options)
    assert differing(differences(tmp_path, "reference", "device"), HARDWARE_TOLERANCE) == set()


VARIANTS = {
    "fp32": {"precision": "fp32"},
    "tf32": {"precision": "tf32"},
    "bf16": {"precision": "bf16"},
    "fp16": {"precision": "fp16"},
    "channels last": {"channels_last": True},
    "batches from the host": {"input": "host"},
    "augmentation": {"augmentation": [{"crop": 1}, "flip", {"cutout": 2}]},
    "8 replicas": {"replicas": 8},
    "AdamW": {"optimizer": "adamw", "learning_rate": 1e-3, "weight_decay": 1e-2, "decay": "decoupled"},
    "gradient clipping": {"gradient_clipping": 0.5},
    "compiled": {"compile": "default"},
    "CUDA graphs": {"compile": "reduce-overhead"},
}


def on_the_cpu(place: Place) -> Place:
    """The CPU, under the framework in which the place's models are written."""
    return Place("cpu", FRAMEWORKS[place.framework].models)


@cache
def reference(place: Place, settings: str) -> list[float]:
    """The losses of a training; each is computed once."""
    with tempfile.TemporaryDirectory() as folder:
        return losses(place.events(Path(folder), **json.loads(settings)))


@pytest.mark.parametrize("variant", VARIANTS)
@places(CPU_LONG, TENSORFLOW_CPU, XLA_CPU)
def test_training_learns_as_on_the_cpu(place: Place, variant: str, tmp_path: Path) -> None:
    """The loss of each epoch, under every setting that takes another path through the engine."""
    if reason := place.reason_against(VARIANTS[variant]):
        pytest.skip(reason)
    settings = {"precision": "fp32", "learning_rate": 0.05, "momentum": 0.9, "epochs": 3} | VARIANTS[variant]
    paths = ("compile", "channels_last", "input")
    plain = {name: value for name, value in settings.items() if name not in paths} | {"precision": "fp32"}
    expected = reference(on_the_cpu(place), json.dumps(plain, sort_keys=True))
    events = place.events(tmp_path, **settings)
    np.testing.assert_allclose(losses(events), expected, rtol=LOSS_TOLERANCE[settings["precision"]])
    assert expected[-1] < 0.8 * expected[0]
    epochs = [event for event in events if event["event"] == "epoch_ended"]
    assert all(event["memory_peak_bytes"] > 0 for event in epochs)
    assert_compiled_once(epochs)
    assert events[-1]["warnings"] == []


def assert_compiled_once(epochs: list[dict[str, Any]]) -> None:
    """Check that nothing is compiled after the first epoch."""
    for event in epochs[1:]:
        assert (event.get("recompiles", 0), event["ledger"]["compile"]) == (0, 0.0), event
        assert not event["ledger"].get("compile_evaluate"), event


RULES = {
    "SGD": {"optimizer": "sgd", "momentum": 0.9, "nesterov": True},
    "SGD, decoupled": {"optimizer": "sgd", "decay": "decoupled"},
    "AdamW": {"optimizer": "adamw", "decay": "decoupled"},
    "8 replicas": {"replicas": 8, "decay_rule": "sum_over_replicas"},
    "SGD in bf16": {"precision": "bf16"},
    "SGD in fp16": {"precision": "fp16"},
}


@pytest.mark.parametrize("rule", RULES)
@places(CPU_LONG, TENSORFLOW_CPU)
def test_weight_decay_follows_its_closed_form(place: Place, rule: str, tmp_path: Path) -> None:
    if reason := place.reason_against(RULES[rule]):
        pytest.skip(reason)
    settings = {"precision": "fp32", "weight_decay": 1e-3} | RULES[rule]
    (event,) = place.events(tmp_path, check="weight_decay", **settings)
    assert event["error"] is None, event["error"]
    assert event["passed"], event


@places(CPU, TENSORFLOW_CPU, XLA_CPU)
def test_the_clock_waits_for_the_device(place: Place) -> None:
    """The time by the device's own clock is that by the host's clock, once the device is done."""
    times = place.call("clock")
    assert times["copy"] < 0.2 * times["wall"], times  # nothing was left in the queue
    if times["own_clock"]:
        assert times["submitted"] < 0.5 * times["wall"], times  # neither a call nor a mark waits
    if times["own_clock"] or times["synchronous"]:
        assert 0.9 * times["wall"] < times["device"] <= 1.01 * times["wall"], times


@places(CPU_LONG, TENSORFLOW_CPU)
def test_the_times_of_an_epoch_agree(place: Place, tmp_path: Path) -> None:
    events = place.events(tmp_path, epochs=4, precision="fp32", batch_size=8)
    losses(events)
    warm = [event for event in events if event["event"] == "epoch_ended"][1:]
    for event in warm:
        train_s = event["ledger"]["train"] + event["ledger"]["input_wait"]
        assert event["settle_s"]["train"] < max(0.2 * train_s, 2e-3), event
        if "device_s" in event:
            assert 0 < event["device_s"]["train"] <= 1.01 * train_s + 1e-3, event
        for step_s in event.get("step_s", []):
            assert 0 < step_s < train_s, event


def memory_of(place: Place) -> int:
    """Bytes of the device; on the host, those of a limit."""
    return CPU_MEMORY if place.on_host else int(place.call("describe")["memory_bytes"])


def large(place: Place, **settings: Any) -> dict[str, Any]:
    """The large workload, of which 64 examples have activations as large as the memory."""
    limit = {"memory_limit": CPU_LIMIT} if place.on_host else {}
    size = {"bytes_per_example": memory_of(place) // EXAMPLES_IN_MEMORY}
    return {"workload": "large", "model": size, "precision": "fp32", "learning_rate": 1e-6, **limit, **settings}


@places(CPU_LONG)
def test_too_large_batch_is_out_of_memory(place: Place, tmp_path: Path) -> None:
    """Not with TensorFlow on the CPU, whose kernels crash their process without memory."""
    end = place.events(tmp_path / "trial", **large(place, epochs=1, batch_size=TOO_MANY))[-1]
    assert (end["event"], end["status"]) == ("trial_ended", "oom"), end
    assert end["error"]["asked_bytes"] > 0, end["error"]


def needs(*modules: str) -> None:
    """Skip the test if a package is missing."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")


@pytest.fixture
def raybench(tmp_path: Path) -> Iterator[Any]:
    """The `raybench` command, with the accelerators that the user sees."""
    needs("ray", "mlflow", "pydantic")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "raybench", *arguments],
            cwd=tmp_path,
            env=accelerators_shown(),
            capture_output=True,
            text=True,
            timeout=280,
        )

    return run


def device_of(place: Place) -> str:
    limit = f", memory_limit: {CPU_LIMIT >> 20}MB" if place.on_host else ""
    return f"{{kind: {place.kind}, framework: {place.framework}, count: 1{limit}}}"


@places(CPU_LONG, TENSORFLOW_CPU)
def test_a_grid_of_the_device_and_the_cpu(place: Place, tmp_path: Path, raybench: Any) -> None:
    """Ray, trials with their checks, MLflow and the report."""
    (tmp_path / "grid.yaml").write_text(
        f"name: both\nworkload: {WORKLOADS / 'on_device.py'}:small\nepochs: 3\nrepeats: 2\nlearning_rate: 0.05\n"
        "axes: {device: [one, host], batch_size: [64]}\n"
        f"devices:\n  one: {device_of(place)}\n  host: {{kind: cpu, threads: 1}}\nbaseline: {{device: host}}\n"
    )
    done = raybench("grid", "grid.yaml", "--results", "results")
    assert done.returncode == 0, done.stdout + done.stderr
    files = (tmp_path / "results").glob("both/*/*/*.jsonl")
    events = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    ends = [event for event in events if event["event"] == "trial_ended"]
    assert [event["status"] for event in ends] == ["completed"] * 4, [event["error"] for event in ends]
    audits = [event for event in events if event["event"] == "trial_audited" and event.get("gpus")]
    assert len(audits) == 2 * bool(KINDS[place.kind].sensors)
    used = {event["cell"]["device"]["kind"] for event in events if event["event"] == "trial_started"}
    assert used == {place.kind, "cpu"}
    checks = [event for event in events if event["event"] == "check_ended"]
    assert [event["error"] for event in checks] == [None] * len(checks)
    assert all(event["passed"] for event in checks if event["check"] == "weight_decay")
    report = raybench("report", "grid.yaml", "--results", "results", "--json", "-")
    assert report.returncode == 0, report.stdout + report.stderr
    assert {"one", "host"} <= set(re.findall(r"\w+", report.stdout)), report.stdout
