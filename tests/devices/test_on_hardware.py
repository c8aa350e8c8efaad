"""Trials on real hardware: `pytest -m gpu` on a machine with a GPU, `pytest -m tpu` on a TPU host.

Each test also runs on the CPU (and on XLA's CPU device), which shows that the test itself works. It needs torch and
NumPy; tests that need more skip if it is missing. On a machine without raybench's other dependencies:

    python -m pytest --noconftest -o addopts= -o filterwarnings= -m gpu tests/devices/test_on_hardware.py
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from support import WORKLOADS
from support.frameworks import accelerators_shown, call_on

from raybench.checks.parity.judge import SideMeasurement, compare
from raybench.checks.parity.measure import RESULT, START, read_arrays
from raybench.core.ledger import STEP_SECTIONS
from raybench.devices import KINDS, frameworks
from raybench.workloads.base import PARITY_TOLERANCE

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


def kinds(*on_host: Any) -> list[Any]:
    """All kinds of accelerators, and those kinds on the host that prove the test."""
    gpus = [pytest.param(kind, marks=[pytest.mark.gpu, pytest.mark.slow]) for kind in ("cuda", "rocm", "mps")]
    return [*on_host, *gpus, pytest.param("tpu", marks=[pytest.mark.tpu, pytest.mark.slow])]


CPU = pytest.param("cpu", marks=pytest.mark.slow)
CPU_LONG = pytest.param("cpu", marks=pytest.mark.exhaustive)
XLA_CPU = pytest.param("xla_cpu", marks=[pytest.mark.xla, pytest.mark.exhaustive])


@cache
def reason_against(kind: str) -> str:
    """The reason why this machine cannot test a kind; empty if it can."""
    probe = KINDS[KINDS[kind].hardware or kind].probe
    with mock.patch.dict(os.environ, accelerators_shown(), clear=True):
        if probe is None or not probe():
            return f"this machine has no {KINDS[kind].label}"
    return call_on(kind, f"{SIDE}:reason_against")


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> str:
    """A kind of which this machine has hardware; else the test skips, with the reason."""
    reason = reason_against(request.param)
    if reason:
        pytest.skip(reason)
    return str(request.param)


on = partial(pytest.mark.parametrize, "kind", indirect=True)


def events_on(kind: str, folder: Path, **options: Any) -> list[dict[str, Any]]:
    """The events of one trial or check in a process of its own."""
    return list(call_on(kind, f"{SIDE}:events_of", folder=str(folder), **options))


def supports(kind: str, precision: str) -> bool:
    return precision in KINDS[kind].precisions


def losses(events: list[dict[str, Any]]) -> list[float]:
    end = events[-1]
    assert end["status"] == "completed", end["error"]
    return [event["metrics"]["train/loss"] for event in events if event["event"] == "epoch_ended"]


@on([*kinds(CPU, XLA_CPU)])
def test_the_device_is_what_the_driver_lists(kind: str) -> None:
    described = call_on(kind, f"{SIDE}:describe")
    assert described["model"]
    assert described["memory_bytes"] is None or described["memory_bytes"] > GIB // 4


@on([*kinds(CPU, XLA_CPU)])
def test_ten_steps_compute_what_the_cpu_computes(kind: str, tmp_path: Path) -> None:
    """Outputs, gradients, losses, updates and batch statistics, from the same weights and batches."""
    sides = []
    for place, name in (("cpu", "reference"), (kind, "device")):
        folder = tmp_path / name
        folder.mkdir()
        if sides:
            (folder / START).symlink_to(tmp_path / "reference" / START)
        settings = {"epochs": 10, "steps_per_epoch": 1, "batch_size": 64, "learning_rate": 0.01, "precision": "fp32"}
        (event,) = events_on(place, folder, check="parity", **settings)
        assert event["error"] is None, event["error"]
        sides.append(SideMeasurement(place, event["parameters"], event["mismatch"], read_arrays(folder / RESULT)))
    tolerance = {name: HARDWARE_TOLERANCE * value for name, value in PARITY_TOLERANCE.items()}
    rows = list(compare(*sides, tolerance))
    assert [row for row in rows if not row.same] == []
    assert len(rows) == 7


VARIANTS = {
    "fp32": {"precision": "fp32"},
    "tf32": {"precision": "tf32"},
    "bf16": {"precision": "bf16"},
    "bf16 weights": {"precision": "bf16", "master_weights": False},
    "fp16": {"precision": "fp16"},
    "fp16 weights": {"precision": "fp16", "master_weights": False},
    "channels last": {"channels_last": True},
    "batches from the host": {"input": "host"},
    "augmentation": {"augmentation": [{"crop": 1}, "flip", {"cutout": 2}]},
    "8 replicas": {"replicas": 8},
    "AdamW": {"optimizer": "adamw", "learning_rate": 1e-3, "weight_decay": 1e-2, "decay": "decoupled"},
    "gradient clipping": {"gradient_clipping": 0.5},
    "compiled": {"compile": "default"},
}
ONLY_ON_TORCH = {"fp16 weights", "bf16 weights", "channels last", "compiled", "gradient clipping", "8 replicas"}
"""Variants that PyTorch/XLA does not have in this form."""

reference = cache(lambda settings, folder: losses(events_on("cpu", folder, **json.loads(settings))))


@pytest.mark.parametrize("variant", VARIANTS)
@on([*kinds(CPU_LONG)])
def test_training_learns_as_on_the_cpu(kind: str, variant: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The loss of each epoch, under every setting that takes another path through the engine."""
    settings = {"precision": "fp32", "learning_rate": 0.05, "momentum": 0.9, "epochs": 3} | VARIANTS[variant]
    if not supports(kind, settings["precision"]):
        pytest.skip(f"{kind} has no {settings['precision']}")
    if kind == "tpu" and variant in ONLY_ON_TORCH:
        pytest.skip(f"not with torch_xla: {variant}")
    plain = {name: value for name, value in settings.items() if name not in ("master_weights", "compile")}
    plain |= {"precision": "fp32", "input": "device", "channels_last": False}
    expected = reference(json.dumps(plain), tmp_path_factory.mktemp("cpu"))
    events = events_on(kind, tmp_path_factory.mktemp(kind), **settings)
    np.testing.assert_allclose(losses(events), expected, rtol=LOSS_TOLERANCE[settings["precision"]])
    assert expected[-1] < 0.8 * expected[0]
    epochs = [event for event in events if event["event"] == "epoch_ended"]
    assert all(event["memory_peak_bytes"] > 0 for event in epochs)
    compute = {"bf16": "bfloat16", "fp16": "float16"}.get(settings["precision"], "float32")
    assert {event["precision"]["compute"] for event in epochs} == {compute}
    assert events[-1]["warnings"] == []


RULES = {
    "SGD": {"optimizer": "sgd", "momentum": 0.9, "nesterov": True},
    "SGD, decoupled": {"optimizer": "sgd", "decay": "decoupled"},
    "AdamW": {"optimizer": "adamw", "decay": "decoupled"},
    "8 replicas": {"replicas": 8, "decay_rule": "sum_over_replicas"},
    "SGD in bf16": {"precision": "bf16"},
    "SGD in fp16": {"precision": "fp16"},
}


@pytest.mark.parametrize("rule", RULES)
@on([*kinds(CPU_LONG)])
def test_weight_decay_follows_its_closed_form(kind: str, rule: str, tmp_path: Path) -> None:
    settings = {"precision": "fp32", "weight_decay": 1e-3} | RULES[rule]
    if not supports(kind, settings["precision"]):
        pytest.skip(f"{kind} has no {settings['precision']}")
    (event,) = events_on(kind, tmp_path, check="weight_decay", **settings)
    assert event["error"] is None, event["error"]
    assert event["passed"], event


@on([*kinds(CPU, XLA_CPU)])
def test_the_clock_waits_for_the_device(kind: str) -> None:
    """The time by the device's own clock is that by the host's clock, once the device is done."""
    times = call_on(kind, f"{SIDE}:clock")
    assert times["copy"] < 0.2 * times["wall"], times  # nothing was left in the queue
    if times["own_clock"]:
        assert times["submitted"] < 0.5 * times["wall"], times  # neither a call nor a mark waits
    if times["own_clock"] or times["synchronous"]:
        assert 0.9 * times["wall"] < times["device"] <= 1.01 * times["wall"], times


@on([*kinds(CPU_LONG)])
def test_the_times_of_an_epoch_agree(kind: str, tmp_path: Path) -> None:
    events = events_on(kind, tmp_path, epochs=4, precision="fp32", batch_size=8)
    losses(events)
    warm = [event for event in events if event["event"] == "epoch_ended"][1:]
    for event in warm:
        train_s = event["ledger"]["train"] + event["ledger"]["input_wait"]
        assert event["settle_s"]["train"] < max(0.2 * train_s, 2e-3), event
        if "device_s" in event:
            assert 0 < event["device_s"]["train"] <= 1.01 * train_s + 1e-3, event
        for step_s in event.get("step_s", []):
            assert 0 < step_s < train_s, event


@on([*kinds(CPU_LONG)])
def test_a_step_has_sections(kind: str, tmp_path: Path) -> None:
    if kind == "tpu":
        pytest.skip("a step of PyTorch/XLA is one graph")
    events = events_on(kind, tmp_path, precision="fp32", profile_steps=4)
    losses(events)
    seconds = events[-1]["step_profile"]["seconds"]
    assert set(seconds) == set(STEP_SECTIONS)
    assert all(value > 0 for value in seconds.values()), seconds


def memory_of(kind: str) -> int:
    """Bytes of the device; on the host, those of a limit."""
    return CPU_MEMORY if KINDS[kind].on_host else int(call_on(kind, f"{SIDE}:describe")["memory_bytes"])


def large(kind: str, **settings: Any) -> dict[str, Any]:
    """The large workload, of which 64 examples have activations as large as the memory."""
    limit = {"memory_limit": CPU_LIMIT} if KINDS[kind].on_host else {}
    size = {"bytes_per_example": memory_of(kind) // EXAMPLES_IN_MEMORY}
    return {"workload": "large", "model": size, "precision": "fp32", "learning_rate": 1e-6, **limit, **settings}


@on([*kinds(CPU_LONG)])
def test_a_batch_that_does_not_fit_is_out_of_memory(kind: str, tmp_path: Path) -> None:
    end = events_on(kind, tmp_path / "trial", **large(kind, epochs=1, batch_size=TOO_MANY))[-1]
    assert (end["event"], end["status"]) == ("trial_ended", "oom"), end
    assert end["error"]["asked_bytes"] > 0, end["error"]
    probe = partial(events_on, kind, check="max_batch", epochs=1, steps_per_epoch=3)
    (refused,) = probe(tmp_path / "large", **large(kind, batch_size=TOO_MANY))
    assert refused["error"]["type"] == "OutOfMemory", refused
    (fits,) = probe(tmp_path / "small", **large(kind, batch_size=EXAMPLES_IN_MEMORY // 8))
    assert (fits["error"], fits["fits"]) == (None, True), fits
    assert fits["peak_bytes"] > memory_of(kind) // 16


@on([*kinds(CPU_LONG)])
def test_a_loop_with_a_cuda_graph_is_timed(kind: str, tmp_path: Path) -> None:
    """The user's own loop; on a GPU each step is the replay of a graph, elsewhere an ordinary step."""
    events = events_on(kind, tmp_path, workload="graph_loop", epochs=3)
    values = losses(events)
    assert values[-1] < values[0]
    for event in events:
        if event["event"] == "epoch_ended":
            assert event["ledger"]["train"] > 0
            assert event["steps"] == 8
            assert "device_s" not in event or 0 < event["device_s"]["train"] <= 1.01 * event["ledger"]["train"] + 1e-3


@on([*kinds(CPU_LONG)])
def test_a_forked_trial_is_monitored(kind: str, tmp_path: Path) -> None:
    needs("psutil")
    epochs = 3 if KINDS[kind].on_host else 100  # long enough for a sample of the sensors
    events = call_on(kind, f"{SIDE}:through_fork_server", folder=str(tmp_path), epochs=epochs, precision="fp32")
    losses(events)
    (audit,) = [event for event in events if event["event"] == "trial_audited"]
    if KINDS[kind].sensors:
        needs("pynvml")
        (gpu,) = audit["gpus"]
        assert any(name.startswith("clock_mhz") for name in gpu), audit


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


def journal(folder: Path) -> list[dict[str, Any]]:
    (file,) = folder.glob("results/*/journal.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()]


def device_of(kind: str) -> str:
    limit = f", memory_limit: {CPU_LIMIT >> 20}MB" if KINDS[kind].on_host else ""
    return f"{{kind: {kind}, framework: {frameworks(kind)[0]}, count: 1{limit}}}"


@on([*kinds(CPU_LONG)])
def test_the_largest_batch_of_a_grid(kind: str, tmp_path: Path, raybench: Any) -> None:
    """The search through a grid: a few processes, of which some run out of the device's memory."""
    (tmp_path / "grid.yaml").write_text(
        f"name: largest\nworkload: {WORKLOADS / 'on_device.py'}:large\n"
        f"model: {{bytes_per_example: {memory_of(kind) // EXAMPLES_IN_MEMORY}}}\n"
        f"epochs: 1\nlearning_rate: 1.0e-6\nbatch_size: {EXAMPLES_IN_MEMORY // 2}\naxes: {{device: [one]}}\n"
        f"devices: {{one: {device_of(kind)}}}\n"
    )
    done = raybench("grid", "grid.yaml", "--find-max-batch", "--results", "results")
    assert done.returncode == 0, done.stdout + done.stderr
    probes = [event for event in journal(tmp_path) if event["event"] == "check_ended"]
    fitting = [event["batch_size"] for event in probes if not event["error"]]
    refused = [event["batch_size"] for event in probes if event["error"]]
    assert {event["error"]["type"] for event in probes if event["error"]} == {"OutOfMemory"}, probes
    assert EXAMPLES_IN_MEMORY // 8 <= max(fitting) < min(refused) <= TOO_MANY
    assert f" {max(fitting)} " in done.stdout


@on([*kinds(CPU_LONG)])
def test_a_grid_of_the_device_and_the_cpu(kind: str, tmp_path: Path, raybench: Any) -> None:
    """Ray, trials with their checks, MLflow and the report."""
    (tmp_path / "grid.yaml").write_text(
        f"name: both\nworkload: {WORKLOADS / 'on_device.py'}:small\nepochs: 3\nrepeats: 2\nlearning_rate: 0.05\n"
        "axes: {device: [one, host], batch_size: [64]}\n"
        f"devices:\n  one: {device_of(kind)}\n  host: {{kind: cpu, threads: 1}}\nbaseline: {{device: host}}\n"
    )
    done = raybench("grid", "grid.yaml", "--results", "results")
    assert done.returncode == 0, done.stdout + done.stderr
    events = journal(tmp_path)
    ends = [event for event in events if event["event"] == "trial_ended"]
    assert [event["status"] for event in ends] == ["completed"] * 4, [event["error"] for event in ends]
    used = {event["cell"]["device"]["kind"] for event in events if event["event"] == "trial_started"}
    assert used == {kind, "cpu"}
    checks = [event for event in events if event["event"] == "check_ended"]
    assert [event["error"] for event in checks] == [None] * len(checks)
    assert all(event["passed"] for event in checks if event["check"] == "weight_decay")
    report = raybench("report", "grid.yaml", "--results", "results", "--json", "-")
    assert report.returncode == 0, report.stdout + report.stderr
    assert {"one", "host"} <= set(re.findall(r"\w+", report.stdout)), report.stdout
