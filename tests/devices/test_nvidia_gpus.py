"""NVIDIA GPUs as NVML lists them, and what CUDA_VISIBLE_DEVICES leaves of them."""

import importlib
import os
import sys
from types import SimpleNamespace

import pytest
import torch
from support.made_up_gpus import Nvml, install_nvml

from raybench.devices import Assignment, Hardware, cuda, open_device
from raybench.devices.program import open_for_program
from raybench.training.local import program_device

MIB, GIB = 1024**2, 1024**3
T4, T4_TOO = "GPU-74edc72b-204b-7996-59f6-bff24ec89c23", "GPU-74e1a0f0-7dd5-ab0d-0e2b-6b1b8e2c6a55"
A100, OLD_A100 = "GPU-5c89852c-d268-c3f3-1b07-005d5ae1dc3f", "GPU-e109d8d9-923e-7235-0429-96b7fdbcbd30"
HALF, SMALL = "MIG-c7384736-a75d-5afc-978f-d2f1294409fd", "MIG-a28ad590-3fda-56dd-84fc-0a0b96edc58d"
A100_NAME, HALF_NAME, SMALL_NAME = (f"NVIDIA A100-SXM4-40GB{end}" for end in ("", " MIG 3g.20gb", " MIG 1g.5gb"))

GPUS = (
    {"uuid": T4, "name": "Tesla T4", "mib": 15360},
    {"uuid": T4_TOO, "name": "Tesla T4", "mib": 15360},
    {
        "uuid": A100,
        "name": A100_NAME,
        "mib": 40960,
        "slices": [
            {"uuid": HALF, "name": HALF_NAME, "mib": 19968},
            {"uuid": SMALL, "name": SMALL_NAME, "mib": 4864},
        ],
    },
    {"uuid": OLD_A100, "name": A100_NAME, "mib": 40960, "slices": None},
)


@pytest.fixture
def environment(monkeypatch):
    """No variables and no NVML."""
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "HIP_VISIBLE_DEVICES", "JAX_PLATFORMS"):
        monkeypatch.setenv(name, "restored after the test")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    install_nvml(monkeypatch, None)


@pytest.fixture
def nvml(environment, monkeypatch):
    library = Nvml(list(GPUS))
    install_nvml(monkeypatch, library)
    return library


def ids():
    return {entry.model: entry.ids for entry in cuda.probe()}


def test_gpus_and_slices_are_grouped_by_model(nvml):
    assert cuda.probe() == [
        Hardware("cuda", "Tesla T4", 2, 15 * GIB, "550.54.15", ("0", "1")),
        Hardware("cuda", HALF_NAME, 1, 19968 * MIB, "550.54.15", (HALF,)),
        Hardware("cuda", SMALL_NAME, 1, 4864 * MIB, "550.54.15", (SMALL,)),
        Hardware("cuda", A100_NAME, 1, 40 * GIB, "550.54.15", ("3",)),
    ]
    assert nvml.open == 0, "the library is released"


@pytest.mark.parametrize(
    ("setting", "shown"),
    [
        ("1", {"Tesla T4": ("1",)}),
        ("3,0", {A100_NAME: ("3",), "Tesla T4": ("0",)}),
        ("1, 0", {"Tesla T4": ("1", "0")}),
        ("", {}),
        ("NoDevFiles", {}),
        ("0,-1,1", {"Tesla T4": ("0",)}),
        ("0,7,1", {"Tesla T4": ("0",)}),
        ("0,0", {"Tesla T4": ("0",)}),
        (T4_TOO, {"Tesla T4": (T4_TOO,)}),
        (f"{OLD_A100},{T4}", {A100_NAME: (OLD_A100,), "Tesla T4": (T4,)}),
        ("GPU-74e", {}),
        ("2", {HALF_NAME: (HALF,), SMALL_NAME: (SMALL,)}),
        (A100, {HALF_NAME: (HALF,), SMALL_NAME: (SMALL,)}),
        (SMALL, {SMALL_NAME: (SMALL,)}),
        (f"{SMALL},{HALF}", {SMALL_NAME: (SMALL,), HALF_NAME: (HALF,)}),
    ],
)
def test_the_variable_selects_by_any_name(nvml, monkeypatch, setting, shown):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", setting)
    assert ids() == shown


@pytest.mark.parametrize(
    ("gpus", "shown"),
    [
        ([{**GPUS[2], "slices": []}, GPUS[0]], {"Tesla T4": ("1",)}),
        ([GPUS[0], None, GPUS[1]], {"Tesla T4": ("0", "2")}),
        ([{**GPUS[0], "mib": None}], {"Tesla T4": ("0",)}),
        (None, {}),
    ],
    ids=["MIG mode without slices", "a lost GPU", "memory of the host", "no package"],
)
def test_incomplete_gpus(environment, monkeypatch, gpus, shown):
    install_nvml(monkeypatch, gpus and Nvml(gpus))
    assert ids() == shown


def test_without_a_driver_there_is_no_gpu(nvml, monkeypatch):
    def fail():
        raise nvml.NVMLError("NVML Shared Library Not Found")

    monkeypatch.setattr(nvml, "nvmlInit", fail)
    assert cuda.probe() == []


@pytest.mark.parametrize(
    ("names", "link"),
    [(("0", "1"), "NVLink"), (("0", "1", OLD_A100), "PCIe, several host bridges"), (("0",), ""), (("9", "0"), "")],
)
def test_slowest_link_between_gpus(nvml, names, link):
    assert cuda.KIND.link(names) == link
    assert nvml.open == 0


def test_the_made_up_library_has_real_functions():
    real = vars(importlib.import_module("pynvml"))
    assert [name for name in vars(Nvml) if name.startswith(("nvml", "NVML")) and name not in real] == []


@pytest.fixture
def torch_cuda(monkeypatch):
    """Calls of torch's interface to four GPUs, of which a program has tensors on some."""
    calls = SimpleNamespace(synchronized=[], recorded=[], reserved={})

    def event(device, enable_timing):
        return SimpleNamespace(record=lambda stream=None: calls.recorded.append((device, stream)))

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda number: calls.reserved.get(number, 0))
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda number: calls.reserved.get(number, 0) // 2)
    monkeypatch.setattr(torch.cuda, "memory_stats", lambda number: {"num_alloc_retries": number})
    monkeypatch.setattr(torch.cuda, "synchronize", lambda number=None: calls.synchronized.append(number))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda number: f"stream of {number}")
    monkeypatch.setattr(torch, "Event", event)
    return calls


@pytest.mark.parametrize(
    ("reserved", "waited_for", "peak"),
    [({}, [0], 0), ({2: 600}, [2], 300), ({1: 200, 3: 800}, [1, 3], 400)],
    ids=["none yet", "a rank that selects no GPU", "several"],
)
def test_program_is_measured_on_its_gpus(torch_cuda, reserved, waited_for, peak):
    torch_cuda.reserved.update(reserved)
    device = program_device("torch", "cuda")
    device.synchronize()
    device.mark()
    assert torch_cuda.synchronized == waited_for
    assert torch_cuda.recorded == [(f"cuda:{waited_for[0]}", f"stream of {waited_for[0]}")]
    assert device.peak_memory() == peak
    assert device.alloc_retries() == sum(waited_for)


@pytest.mark.parametrize(
    ("assigned", "name_in_torch", "model", "driver"),
    [
        ("0", "Tesla T4", "Tesla T4", "550.54.15"),
        (SMALL, SMALL_NAME, SMALL_NAME, "550.54.15"),
        (SMALL, A100_NAME, SMALL_NAME, "550.54.15"),
        (f"3,{SMALL}", A100_NAME, A100_NAME, "550.54.15"),
        ("0", "Quadro", "Quadro", None),
    ],
)
def test_trial_describes_its_gpu(nvml, monkeypatch, assigned, name_in_torch, model, driver):
    properties = SimpleNamespace(name=name_in_torch, total_memory=4750 * MIB)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    device = open_device("cuda", "torch", Assignment([], assigned.split(","), 1))
    device.hide_others()
    assert os.environ["CUDA_VISIBLE_DEVICES"] == assigned
    assert device.describe() == Hardware("cuda", model, 1, 4750 * MIB, driver)


@pytest.mark.parametrize("framework", ["jax", "tensorflow"])
@pytest.mark.parametrize(("in_framework", "memory"), [(SMALL_NAME, 4864 * MIB), (A100_NAME, 4864 * MIB), ("?", None)])
def test_other_frameworks_describe_a_slice_by_the_driver(nvml, monkeypatch, framework, in_framework, memory):
    details = SimpleNamespace(
        get_visible_devices=lambda _: ["GPU:0"],
        experimental=SimpleNamespace(get_device_details=lambda _: {"device_name": in_framework}),
    )
    monkeypatch.setitem(sys.modules, "tensorflow", SimpleNamespace(config=details))
    monkeypatch.setitem(
        sys.modules, "jax", SimpleNamespace(local_devices=lambda: [SimpleNamespace(device_kind=in_framework)])
    )
    device = open_device("cuda", framework, Assignment([], (SMALL,), 1))
    device.hide_others()
    model, driver = (SMALL_NAME, "550.54.15") if memory else ("?", None)
    assert device.describe() == Hardware("cuda", model, 1, memory, driver)


@pytest.mark.parametrize("name", ["1", T4_TOO])
def test_program_with_any_name_of_a_gpu(nvml, monkeypatch, name):
    monkeypatch.setenv("RAYBENCH_ACCELERATORS", "cuda")
    device = open_for_program("cuda", Assignment([], (name,), 1))
    device.hide_others()
    assert (device.describe().model, device.describe().count) == ("Tesla T4", 1)
