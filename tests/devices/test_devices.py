import os
import re
import subprocess
import sys

import pytest
import torch

from raybench.devices import Assignment, host, open_device, probe
from raybench.devices.host import short_model_name, usable_cores
from raybench.planning.node import Node, probe_node

GIB = 1024**3


def test_this_machine_has_one_processor():
    (cpu,) = [entry for entry in probe() if entry.kind == "cpu"]
    assert cpu.count == len(cpu.ids) == len(usable_cores()) > 0
    assert cpu.memory_bytes > GIB / 2
    assert cpu.model


def test_a_node_is_read_from_its_json():
    node = probe_node("10.0.0.1")
    assert Node.from_json(node.to_json()) == node
    assert node.cores == len(usable_cores())
    assert node.packages["torch"].startswith(torch.__version__.split("+")[0])


def test_a_cpu_trial_sees_its_cores_and_no_accelerator(monkeypatch):
    before = os.sched_getaffinity(0)
    threads = torch.get_num_threads()
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "HIP_VISIBLE_DEVICES"):
        monkeypatch.setenv(name, "7")
    try:
        device = open_device("cpu", "torch", Assignment([usable_cores()[0]], [], 1))
        device.hide_others()
        device.open("fp32")
        assert (os.environ["CUDA_VISIBLE_DEVICES"], os.environ["HIP_VISIBLE_DEVICES"]) == ("", "-1")
        assert device.runtime_conditions() == {
            "threads": 1,
            "cores": [usable_cores()[0]],
            "visible": [],
            "tf32": False,
            "niceness": os.nice(0),
            "thread_waiting": "passive",  # as the tests' surroundings have it
            "float32_products": "highest",
        }
        assert device.describe().count == 1
    finally:
        os.sched_setaffinity(0, before)
        torch.set_num_threads(threads)


def test_the_adapter_of_the_cpu():
    device = open_device("cpu", "torch", Assignment([], [], 1))
    with pytest.raises(ValueError, match="precision tf32 is not available on cpu, only on cuda"):
        device.open("tf32")
    start = device.mark()
    sum(range(10**5))
    device.synchronize()
    assert device.elapsed(start, device.mark()) > 0
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 60)
    assert device.is_oom(caught.value)
    assert device.is_oom(MemoryError())
    assert not device.is_oom(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))


def test_peak_memory_rises():
    """In a process of its own: the peak of this one may lie far above what it holds now."""
    code = (
        "from raybench.devices.host import peak_resident\n"
        "before = peak_resident()\n"
        "block = bytes(range(256)) * (1 << 18)\n"
        "print(peak_resident() - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 32 << 20 < int(done.stdout) < 256 << 20, "64 MiB"


def test_a_kind_without_an_adapter():
    with pytest.raises(LookupError, match="no adapter for device kind tpu"):
        open_device("tpu", "torch", Assignment([], [], 1))


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
