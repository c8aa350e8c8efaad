"""Every adapter of a device: the clock of an epoch waits for the work that the host has submitted.

A new adapter needs an entry in `QUEUES`, which gives its framework a queue of work that ends after its submission.
"""

import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from support.recorded_trial import make_trial

from raybench.core.job import Budget
from raybench.devices import KINDS, UNKNOWN, Assignment, open_device
from raybench.engines import loop_facts
from raybench.training.local import open_clock, program_device

KIND_OF = {
    path: (kind.name, framework)
    for kind in KINDS.values()
    for framework, path in {**kind.adapters, **kind.loop_adapters}.items()
} | {path: ("", framework) for framework, path in UNKNOWN.items()}
BATCHES = [(np.zeros((4, 2)), np.zeros(4))] * 5


def cuda(patch, wait, due_s):
    def event(*_, **__):
        made = SimpleNamespace(at=0.0)
        made.record = lambda stream=None: setattr(made, "at", max(due_s[0], time.perf_counter()))
        made.synchronize = lambda: wait(made.at)
        made.elapsed_time = lambda other: 1000 * (other.at - made.at)  # torch's are in milliseconds
        return made

    patch.setattr(torch, "Event", event)
    for name, value in {"device_count": 1, "current_device": 0, "memory_reserved": 0, "current_stream": None}.items():
        patch.setattr(torch.cuda, name, lambda *_, value=value: value)
    patch.setattr(torch.cuda, "synchronize", lambda number=None: wait())


def mps(patch, wait, due_s):
    patch.setattr(torch.mps, "synchronize", wait)


def accelerator(patch, wait, due_s):
    patch.setattr(torch.accelerator, "current_accelerator", lambda: "xpu")
    patch.setattr(torch.accelerator, "synchronize", wait)


def torch_tpu(patch, wait, due_s):
    patch.setattr(torch.accelerator, "synchronize", lambda: None)  # documented for copies to the host alone
    patch.setattr(torch, "zeros", lambda *_, device: SimpleNamespace(add_=lambda _: SimpleNamespace(cpu=wait)))


def xla(patch, wait, due_s):
    names = ("torch_xla", "torch_xla.core", "torch_xla.core.xla_model")
    module = SimpleNamespace(sync=lambda wait=False: None, wait_device_ops=wait, __path__=[])
    module.core = module.xla_model = module
    for name in names:
        patch.setitem(sys.modules, name, module)


def tensorflow(patch, wait, due_s):
    experimental = SimpleNamespace(experimental=SimpleNamespace(sync_devices=wait))
    patch.setitem(sys.modules, "tensorflow", SimpleNamespace(test=experimental))


def jax(patch, wait, due_s):
    patch.setitem(sys.modules, "jax", SimpleNamespace(live_arrays=list, block_until_ready=lambda arrays: wait()))


QUEUES = {
    "cuda:Cuda": cuda,
    "rocm:Rocm": cuda,
    "mps:Mps": mps,
    "cpu:OtherAccelerator": accelerator,
    "torch_tpu:TorchTpu": torch_tpu,
    "tpu:Tpu": xla,
    "xla:Xla": xla,
    "xla:XlaCpu": xla,
    "tensorflow:Cuda": tensorflow,
    "tensorflow:Asynchronous": tensorflow,
    "jax:Cpu": jax,
    "jax:Cuda": jax,
    "jax:JaxDevice": jax,
}
SYNCHRONOUS = {"cpu:Cpu", "tensorflow:Cpu", "no_framework:Cpu"}
"""Adapters whose work is done when a call returns."""


def test_every_adapter_is_here():
    names = {path.removeprefix("raybench.devices.") for path in KIND_OF}
    assert names == QUEUES.keys() | SYNCHRONOUS, "add the new adapter to QUEUES"
    for path, (kind, framework) in KIND_OF.items():
        if path.removeprefix("raybench.devices.") in SYNCHRONOUS:
            assert open_device(kind, framework, Assignment([], (), 1)).synchronous and KINDS[kind].on_host


@pytest.fixture
def opened(monkeypatch, sleep):
    """Opens a device whose work waits in a queue; returns it, and a function that submits a step of 2 s."""

    def open_queue(name):
        due_s = [0.0]

        def wait(until=0.0):
            sleep(max(0.0, (until or due_s[0]) - time.perf_counter()))

        def submit():
            due_s[0] = max(due_s[0], time.perf_counter()) + 2

        QUEUES[name](monkeypatch, wait, due_s)
        kind, framework = KIND_OF[f"raybench.devices.{name}"]
        return program_device(framework, kind), submit

    return open_queue


@pytest.mark.parametrize("name", QUEUES)
def test_an_epoch_waits_for_its_device(name, opened):
    device, submit = opened(name)
    assert type(device).__qualname__ == name.partition(":")[2] and not device.synchronous
    trial, kept, _ = make_trial(2, device=device)
    for _ in trial.epochs():
        for _ in trial.steps(BATCHES):
            submit()
    for epoch in kept.epochs:
        assert epoch["ledger"]["train"] + epoch["ledger"]["compile"] == 10
        assert epoch.get("device_s", {"train": 10})["train"] == 10


@pytest.mark.parametrize(("name", "steps"), [("mps:Mps", 9), ("cuda:Cuda", 11)])
def test_a_budget_waits_for_its_device(name, steps, opened, sleep):
    """A CUDA GPU, whose steps can be waited for one by one, works while the host takes its 0.3 s."""
    device, submit = opened(name)
    trial, kept, _ = make_trial(None, device=device, budget=Budget(seconds=20))
    for epoch in trial.epochs(1):
        for _ in trial.steps(BATCHES * 9 if epoch else BATCHES):  # the first waits for steps of new shapes
            sleep(0.3)
            submit()
    assert sum(epoch["steps"] for epoch in kept.epochs) == steps


def test_device_is_idle_while_it_waits_for_input_or_is_evaluated(opened, sleep):
    def slow():
        for batch in BATCHES:
            sleep(3)
            yield batch

    device, submit = opened("cuda:Cuda")
    trial, kept, _ = make_trial(1, device=device)
    for _ in trial.epochs():
        for number, _ in enumerate(trial.steps(slow())):
            submit()
            if number == 3:
                with trial.evaluation():
                    sleep(50)
    # The host waits for the first step, which has a new shape, before it loads the next batch.
    assert kept.epochs[0]["device_s"] == {"train": 2 + 3 + 2 * 3 + 2 + 2, "input_wait": 3 + 2 * 1, "evaluate": 50}
    assert kept.epochs[0]["ledger"]["input_wait"] == 5 * 3


@pytest.mark.parametrize(
    ("has", "kind", "adapter"),
    [
        ({"cuda"}, "cuda", "Cuda"),
        ({"cuda", "hip"}, "rocm", "Rocm"),
        ({"mps"}, "mps", "Mps"),
        ({"xpu"}, "", "OtherAccelerator"),
        (set(), "cpu", "Cpu"),
    ],
)
def test_a_script_is_timed_on_the_device_that_its_framework_uses(monkeypatch, has, kind, adapter):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: "cuda" in has)
    monkeypatch.setattr(torch.version, "hip", "6.4" if "hip" in has else None)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: "mps" in has)
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: bool(has))
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: next(iter(has), None))
    assert loop_facts.available_kind("torch") == kind
    assert type(open_clock("torch").device).__name__ == adapter
