import os
import re

import pytest
import torch

from raybench.devices import Assignment, host, open_device
from raybench.devices.host import short_model_name, usable_cores


def test_cpu_trial_sees_cores_but_no_accelerator(monkeypatch):
    before = os.sched_getaffinity(0)
    threads = torch.get_num_threads()
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "HIP_VISIBLE_DEVICES"):
        monkeypatch.setenv(name, "7")
    try:
        device = open_device("cpu", "torch", Assignment([usable_cores()[0]], [], 1))
        device.hide_others()
        device.open("fp32")
        assert (os.environ["CUDA_VISIBLE_DEVICES"], os.environ["HIP_VISIBLE_DEVICES"]) == ("", "-1")
        assert (device.threads(), usable_cores()[1:]) == (1, [])
        assert torch.get_float32_matmul_precision() == "highest"
        assert device.describe().count == 1
    finally:
        os.sched_setaffinity(0, before)
        torch.set_num_threads(threads)


def test_the_adapter_of_the_cpu():
    device = open_device("cpu", "torch", Assignment([], [], 1))
    start = device.mark()
    sum(range(10**5))
    device.synchronize()
    assert device.elapsed(start, device.mark()) > 0
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 60)
    assert device.is_oom(caught.value)
    assert device.is_oom(MemoryError())
    assert not device.is_oom(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))


@pytest.mark.parametrize(
    ("kept", "visible", "shown"), [("1", ["0", "2"], "0,2"), ("1", [], "1"), ("", [], ""), (None, [], None)]
)
@pytest.mark.parametrize("framework", ["torch", "tensorflow"])
def test_visible_gpus_of_a_trial(monkeypatch, framework, kept, visible, shown):
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "7")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    if kept is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", kept)
    open_device("cuda", framework, Assignment([], visible, 1)).hide_others()
    assert os.environ.get("CUDA_VISIBLE_DEVICES") == shown


def test_a_machines_id_is_hashed(monkeypatch):
    raw = "3d1219c7c4c5404aaa1f6d2a48adfda4"
    monkeypatch.setattr(host.Path, "read_text", lambda path: f"{raw}\n")
    assert re.fullmatch(r"[0-9a-f]{12}", host.machine_id()) and host.machine_id() not in raw
    monkeypatch.setattr(host.Path, "read_text", lambda path: "uninitialized\n")  # as in the image of a machine
    assert host.machine_id() == ""


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz", "Intel Xeon Gold 6248"),
        ("Intel(R) Xeon(R) CPU @ 2.20GHz", "Intel Xeon @ 2.20GHz"),
        ("13th Gen Intel(R) Core(TM) i7-1360P", "13th Gen Intel Core i7-1360P"),
        ("AMD Ryzen 9 7950X 16-Core Processor", "AMD Ryzen 9 7950X"),
        ("AMD EPYC 7B12", "AMD EPYC 7B12"),
        ("AMD EPYC", "AMD EPYC"),
        ("Apple M3 Pro", "Apple M3 Pro"),
        ("x86_64", "x86_64"),
    ],
)
def test_a_processor_is_named_in_short(name, short):
    assert short_model_name(name) == short
