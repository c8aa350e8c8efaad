"""Apple's GPU: its detection on a made-up Mac, and the adapter on a made-up `torch.mps`."""

import os
import platform
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from support.small_training import RECIPE, pictures

from raybench.core.job import Recipe
from raybench.core.ledger import Ledger
from raybench.datasets.splits import Data
from raybench.devices import Assignment, Hardware, missing_precision, mps, open_device
from raybench.devices.mps import Mps
from raybench.engines import EngineParts, open_engine
from raybench.workloads.base import Workload

GIB = 1 << 30
MAC = Hardware("mps", "Apple M3 Max GPU", 1, 48 * GIB, "15.1", ("0",))


@pytest.fixture
def mac(monkeypatch):
    """A Mac with Apple silicon, which has no /proc."""
    read_text = Path.read_text

    def without_proc(path, *args, **kwargs):
        if path.is_relative_to("/proc"):
            raise FileNotFoundError(path)
        return read_text(path, *args, **kwargs)

    answers = {"machdep.cpu.brand_string": "Apple M3 Max\n"}
    monkeypatch.setattr(Path, "read_text", without_proc)
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    monkeypatch.setattr(platform, "mac_ver", lambda: ("15.1", ("", "", ""), "arm64"))
    monkeypatch.setattr(subprocess, "run", lambda command, **_: SimpleNamespace(stdout=answers[command[-1]]))
    monkeypatch.setattr(mps, "total_memory", lambda: 48 * GIB)


class Queue:
    """Torch's interface to the GPU: what was submitted, and whether it is done."""

    def __init__(self):
        self.waits, self.held = 0, 0

    def synchronize(self):
        self.waits += 1

    def driver_allocated_memory(self):
        return self.held


@pytest.fixture
def queue(monkeypatch):
    """A torch that sees the GPU."""
    queue = Queue()
    monkeypatch.setattr(torch.mps, "synchronize", queue.synchronize)
    monkeypatch.setattr(torch.mps, "driver_allocated_memory", queue.driver_allocated_memory)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    return queue


@pytest.fixture
def device():
    threads = torch.get_num_threads()
    yield open_device("mps", "torch", Assignment([], ("0",), 1))
    torch.set_num_threads(threads)


def test_the_gpu_of_a_mac_is_found_and_shares_its_memory(mac):
    assert mps.probe() == [MAC]


@pytest.mark.parametrize(("system", "machine"), [("Darwin", "x86_64"), ("Linux", "arm64"), ("Linux", "x86_64")])
def test_other_machines_have_none(mac, monkeypatch, system, machine):
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert mps.probe() == []


def test_a_trial_opens_it_with_its_threads(queue, device):
    device.open("fp32")
    assert torch.get_num_threads() == device.threads() == 1
    assert (device.torch_name, device.kind) == ("mps", "mps")


def test_a_torch_that_does_not_see_it_is_refused(device):
    with pytest.raises(RuntimeError, match=f"torch {torch.__version__} sees no MPS device".replace("+", r"\+")):
        device.open("fp32")


def test_tf32_is_refused(queue, device):
    assert missing_precision("mps", "tf32") == "precision tf32 is not available on mps, only on cuda"
    with pytest.raises(ValueError, match="precision tf32 is not available on mps"):
        device.open("tf32")


def test_it_is_described_as_it_was_planned(mac, device):
    assert device.describe() == MAC


def test_the_clock_is_read_after_the_queue_is_empty(queue, device, monkeypatch):
    monkeypatch.setattr(mps.time, "perf_counter_ns", lambda: 1000 * queue.waits)
    device.synchronize()
    start = device.mark()
    assert (start, queue.waits) == (2000, 2)
    assert device.elapsed(start, device.mark()) == 1000
    assert not device.synchronous and not device.own_clock, "only the first steps may be marked: a mark waits"


def test_the_memory_is_what_the_driver_holds(queue, device):
    queue.held = 7 * GIB
    assert device.peak_memory() == 7 * GIB
    device.begin_search()
    assert not device.end_search(), "the driver records no peak to leave out"


def test_conditions_and_environment(queue, device, monkeypatch):
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "HIP_VISIBLE_DEVICES"):
        monkeypatch.setenv(name, "0")  # restored after the test
    device.hide_others()
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ""
    assert device.runtime_conditions()["visible"] == ["0"]


def test_memory_that_runs_out_is_recognised(device):
    message = "MPS backend out of memory (MPS allocated: 30.00 GB, max allowed: 36.00 GB). Tried to allocate 8.00 GB"
    assert device.is_oom(RuntimeError(message))
    assert not device.is_oom(RuntimeError("MPS does not support float64"))


def network():
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.Flatten(), torch.nn.Linear(288, 2)
    )


def test_the_engine_waits_for_it_at_the_edges_of_an_epoch_alone(queue, monkeypatch):
    """The adapter's part, with the computation on the CPU."""
    monkeypatch.setattr(Mps, "torch_name", "cpu")
    queue.held = 5 * GIB
    workload = Workload(model=network, dataset="digits", mean=(120.0,) * 3, std=(60.0,) * 3, name="test")
    trained = {}
    for kind in ("cpu", "mps"):
        device = open_device(kind, "torch", Assignment([], [], torch.get_num_threads()))
        engine = open_engine("torch", EngineParts(Recipe(**RECIPE), workload, device, Ledger(), 0))
        engine.load(Data(pictures(), pictures(70, seed=1)))
        engine.build()
        first = engine.train_epoch(1)
        queue.waits = 0
        second = engine.train_epoch(2)
        trained[kind] = first.metrics, second.metrics
        if kind == "mps":
            assert queue.waits == 2
            assert (list(second.step_s), first.peak_known) == ([], True), "steps are not timed one by one"
            assert device.peak_memory() == 5 * GIB
    assert trained["mps"] == trained["cpu"]
