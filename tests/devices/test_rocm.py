"""AMD GPUs as amd-smi lists them, and the adapter on a torch that says it was built for ROCm."""

import json
import os
from types import SimpleNamespace

import pytest
import torch
from support.made_up_gpus import install_program

from raybench.devices import Assignment, Hardware, open_device, rocm
from raybench.devices.program import open_for_program

MIB = 1024**2
MI300X, MI210, MI210_TOO = "GPU-de8287300da37c72", "GPU-76a08c022586fed6", "GPU-76f9ddefa2d60f55"
VARIABLES = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")


def static(number, name, size):
    asic = {"market_name": name, "vendor_id": "0x1002", "vendor_name": "Advanced Micro Devices Inc. [AMD/ATI]"}
    vram = {"type": "HBM3", "vendor": "N/A", "size": size, "bit_width": 8192}
    return {"gpu": number, "asic": asic, "driver": {"name": "amdgpu", "version": "6.10.5"}, "vram": vram}


def identity(number, hsa, hip, uuid):
    path = {"render": f"renderD{128 + number}", "card": f"card{number}"}
    return {"gpu": number, "bdf": f"0000:{number + 1:02}:00.0", **path, "hsa_id": hsa, "hip_id": hip, "hip_uuid": uuid}


STATIC = [
    static(0, "AMD Instinct MI210", {"value": 65520, "unit": "MB"}),
    static(1, "AMD Instinct MI300X", {"value": 196592, "unit": "MB"}),
    static(2, "AMD Instinct MI210", {"value": 65520, "unit": "MB"}),
]
# HIP's order is MI300X, MI210, MI210_TOO; ROCR's is MI210, MI300X, MI210_TOO.
IDENTITIES = [identity(0, 2, 1, MI210), identity(1, 3, 0, MI300X), identity(2, 4, 2, MI210_TOO)]


@pytest.fixture
def programs(tmp_path, monkeypatch):
    for name in (*VARIABLES, "CUDA_DEVICE_ORDER", "JAX_PLATFORMS"):
        monkeypatch.setenv(name, "restored after the test")
    for name in VARIABLES:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def install(folder, static=STATIC, identities=IDENTITIES):
    outputs = {"static --asic --vram --driver --json": static, "list -e --json": identities}
    install_program(folder, "amd-smi", {arguments: json.dumps(output) for arguments, output in outputs.items()})


@pytest.fixture
def smi(programs):
    install(programs)


@pytest.fixture
def build(monkeypatch):
    """A torch that was built for ROCm and sees one GPU."""
    monkeypatch.setattr(torch.version, "hip", "6.4.43482", raising=False)
    properties = SimpleNamespace(name="AMD Radeon Graphics", total_memory=191 * 1024 * MIB)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)


@pytest.mark.parametrize("wrapped", [False, True])
def test_gpus_are_grouped_in_hips_order(programs, wrapped):
    install(programs, {"gpu_data": STATIC} if wrapped else STATIC)
    assert rocm.probe() == [
        Hardware("rocm", "AMD Instinct MI300X", 1, 196592 * MIB, "6.10.5", ("0",)),
        Hardware("rocm", "AMD Instinct MI210", 2, 65520 * MIB, "6.10.5", ("1", "2")),
    ]


@pytest.mark.parametrize(
    ("rocr", "hip", "cuda", "shown"),
    [
        (None, "0", None, {"MI300X": ("0",)}),
        (None, None, "1", {"MI210": ("1",)}),
        (None, "-1", None, {}),
        (None, f"{MI210_TOO},0", None, {"MI210": (MI210_TOO,), "MI300X": ("0",)}),
        ("0", None, None, {"MI210": ("0",)}),
        ("1", None, None, {"MI300X": ("0",)}),
        (MI300X, None, None, {"MI300X": ("0",)}),
        ("0", "1", None, {}),
    ],
)
def test_hip_counts_what_rocr_leaves(smi, monkeypatch, rocr, hip, cuda, shown):
    for name, value in zip(VARIABLES, (rocr, hip, cuda), strict=True):
        if value is not None:
            monkeypatch.setenv(name, value)
    assert {entry.model.removeprefix("AMD Instinct "): entry.ids for entry in rocm.probe()} == shown


@pytest.mark.parametrize("identities", [[], [{"gpu": 0}], [identity(0, 2, "N/A", MI210)], "no list", None])
def test_incomplete_output_shows_no_gpu(programs, identities):
    assert rocm.probe() == [], "no amd-smi"
    install(programs, identities=identities)
    assert rocm.probe() == []
    install_program(programs, "amd-smi", {"static --asic --vram --driver --json": json.dumps(STATIC)})
    assert rocm.probe() == [], "before ROCm 6.4"


@pytest.mark.parametrize(
    ("before", "assigned", "after"),
    [
        ({}, ["1", "2"], "1,2"),
        ({"HIP_VISIBLE_DEVICES": "0"}, ["1"], "1"),
        ({"HIP_VISIBLE_DEVICES": "0"}, [], "0"),
        ({"CUDA_VISIBLE_DEVICES": "2"}, [], "2"),
        ({}, [], None),
    ],
)
def test_trial_sees_assigned_or_inherited_gpus(programs, monkeypatch, before, assigned, after):
    monkeypatch.setenv("ROCR_VISIBLE_DEVICES", "0,1,2")
    for name, value in before.items():
        monkeypatch.setenv(name, value)
    open_device("rocm", "torch", Assignment([], assigned, 1)).hide_others()
    seen = {name: os.environ.get(name) for name in VARIABLES}
    assert seen == {
        "ROCR_VISIBLE_DEVICES": "0,1,2",
        "HIP_VISIBLE_DEVICES": after,
        "CUDA_VISIBLE_DEVICES": None,
    }


@pytest.mark.parametrize(
    ("is_listed", "model", "driver"), [(True, "AMD Instinct MI300X", "6.10.5"), (False, "AMD Radeon Graphics", None)]
)
def test_hardware_of_a_trial(programs, build, is_listed, model, driver):
    if is_listed:
        install(programs)
    device = open_device("rocm", "torch", Assignment([], ["0"], 1))
    device.hide_others()
    assert device.describe() == Hardware("rocm", model, 1, 191 * 1024 * MIB, driver)


@pytest.mark.parametrize(("hip", "is_available"), [(None, True), ("6.4", False)])
def test_a_torch_without_rocm_or_driver_is_refused(monkeypatch, hip, is_available):
    monkeypatch.setattr(torch.version, "hip", hip, raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: is_available)
    with pytest.raises(RuntimeError, match=r"sees no AMD GPU \(a build without ROCm, or no driver\)"):
        open_device("rocm", "torch", Assignment([], ["0"], 1)).open("fp32")


def test_a_program_sees_its_gpu(smi, monkeypatch):
    monkeypatch.setenv("RAYBENCH_ACCELERATORS", "rocm")
    device = open_for_program("rocm", Assignment([], ("1",), 1))
    device.hide_others()
    assert (os.environ["HIP_VISIBLE_DEVICES"], os.environ["JAX_PLATFORMS"]) == ("1", "rocm")
    assert device.describe() == Hardware("rocm", "AMD Instinct MI210", 1, 65520 * MIB, "6.10.5", ("1",))
