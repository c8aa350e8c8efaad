"""Apple's GPU: its detection on a made-up Mac, and the adapter on a made-up `torch.mps`."""

import platform
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from raybench.devices import Assignment, Hardware, mps, open_device

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


@pytest.fixture
def gpu(monkeypatch):
    """A torch that sees the GPU, of which it holds 7 GiB."""
    monkeypatch.setattr(torch.mps, "driver_allocated_memory", lambda: 7 * GIB)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)


@pytest.fixture
def device():
    threads = torch.get_num_threads()
    yield open_device("mps", "torch", Assignment([], ("0",), 1))
    torch.set_num_threads(threads)


@pytest.mark.parametrize(
    ("system", "machine", "found"),
    [("Darwin", "arm64", [MAC]), ("Darwin", "x86_64", []), ("Linux", "arm64", []), ("Linux", "x86_64", [])],
)
def test_only_macs_with_apple_silicon_have_it(mac, monkeypatch, system, machine, found):
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert mps.probe() == found


def test_opening(gpu, device, monkeypatch):
    device.open("fp32")
    assert torch.get_num_threads() == device.threads() == 1
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(RuntimeError, match="sees no MPS device"):
        device.open("fp32")


def test_memory_and_hardware(mac, gpu, device):
    assert device.peak_memory() == 7 * GIB
    assert device.describe() == MAC
    assert device.is_oom(RuntimeError("MPS backend out of memory (MPS allocated: 30.00 GB). Tried to allocate 8.00 GB"))
    assert not device.is_oom(RuntimeError("MPS does not support float64"))
