"""TPUs found on a made-up host, their adapter's environment, and XLA on the host's cores."""

import os

import pytest
from support.frameworks import call

from raybench.devices import KINDS, Assignment, Hardware, frameworks, hosted, open_device, tpu
from raybench.devices.host import model_name
from raybench.planning.node import Node
from raybench.planning.placement import ResourceRequest, devices_and_replicas

GIB = 1024**3


def on_xla(test):
    """Marks a test that runs torch_xla in a process of its own."""
    return pytest.mark.slow(pytest.mark.xla(test))


NAMES = ("PJRT_DEVICE", "TPU_VISIBLE_CHIPS", "TPU_CHIPS_PER_PROCESS_BOUNDS", "TPU_PROCESS_BOUNDS")


@pytest.fixture
def host(tmp_path, monkeypatch):
    """A root folder to which PCI devices are added; nothing of the real environment shows."""
    for name in (*NAMES, "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)

    def add(device, subsystem="0x0000", vendor="0x1ae0", accel=None, group=None):
        place = tmp_path / f"sys/bus/pci/devices/0000:{len(list(tmp_path.glob('sys/bus/pci/devices/*'))):02x}:04.0"
        place.mkdir(parents=True)
        for name, value in (("vendor", vendor), ("device", device), ("subsystem_device", subsystem)):
            (place / name).write_text(value + "\n")
        if accel is not None:
            (tmp_path / "dev").mkdir(exist_ok=True)
            (tmp_path / f"dev/accel{accel}").touch()
        if group is not None:
            (tmp_path / f"sys/kernel/iommu_groups/{group}").mkdir(parents=True)
            (place / "iommu_group").symlink_to(tmp_path / f"sys/kernel/iommu_groups/{group}")
            (tmp_path / "dev/vfio").mkdir(parents=True, exist_ok=True)
            (tmp_path / f"dev/vfio/{group}").touch()

    add.root = tmp_path
    return add


@pytest.mark.parametrize(
    ("device", "subsystem", "model", "memory_gib", "devices"),
    [
        ("0x0027", "0x004e", "TPU v2", 16, 2),
        ("0x0027", "0x004f", "TPU v3", 32, 2),
        ("0x005e", "0x0000", "TPU v4", 32, 1),
        ("0x0062", "0x0000", "TPU v5p", 95, 1),
        ("0x0063", "0x0000", "TPU v5e", 16, 1),
        ("0x006f", "0x0000", "TPU v6e", 32, 1),
        ("0x0076", "0x0000", "TPU7x", 192, 2),
    ],
)
def test_generations(host, device, subsystem, model, memory_gib, devices):
    host("0x1237", vendor="0x8086")
    host(device, subsystem, group=7)
    host(device, subsystem, accel=1)
    if model == "TPU7x":  # each half of a chip is on the bus
        host(device, subsystem, group=8)
        host(device, subsystem, group=9)
    assert tpu.probe(host.root) == [Hardware("tpu", model, 2, memory_gib * GIB, ids=("0", "1"))]
    assert KINDS["tpu"].devices_per_accelerator(model) == devices


@pytest.mark.parametrize(("setting", "ids"), [(None, [("0", "2")]), ("2,3", [("2",)]), ("", [])])
def test_hidden_and_unusable_chips_are_left_out(host, monkeypatch, setting, ids):
    host("0x0063", group=3)
    host("0x0063")  # on the bus, but no device file: a different container has it
    host("0x0063", group=5)
    host("0x0063", "0x1234", vendor="0x10de", group=6)
    host("0xffff", group=8)
    if setting is not None:
        monkeypatch.setenv("TPU_VISIBLE_CHIPS", setting)
    assert [entry.ids for entry in tpu.probe(host.root)] == ids


def test_xla_cpu_is_the_processor():
    assert KINDS["xla_cpu"].virtual and not KINDS["tpu"].virtual
    assert hosted("xla_cpu") and not hosted("tpu")
    assert frameworks("xla_cpu") == ("torch_xla",)
    node = Node("box", (Hardware("cpu", "AMD EPYC", 8),))
    assert node.find("xla_cpu") == [Hardware("xla_cpu", "AMD EPYC", 8)]


@pytest.mark.parametrize(
    ("chips", "bounds"), [(["2"], "1,1,1"), (["0", "1"], "1,2,1"), (list("4567"), "2,2,1"), (list("01234567"), "2,4,1")]
)
def test_a_trial_sees_its_chips_only(host, monkeypatch, chips, bounds):
    for name in tpu.PEERS:
        monkeypatch.setenv(name, "7")
    open_device("tpu", "torch_xla", Assignment([], chips, 1)).hide_others()
    assert [os.environ[name] for name in NAMES] == ["TPU", ",".join(chips), bounds, "1,1,1"]
    assert not set(tpu.PEERS) & set(os.environ), "the caller's processes are not its own"
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ""


def test_without_assigned_chips_the_callers_are_visible(host, monkeypatch):
    monkeypatch.setenv("TPU_VISIBLE_CHIPS", "1")
    open_device("tpu", "torch_xla", Assignment([], [], 1)).hide_others()
    assert [os.environ.get(name) for name in NAMES] == ["TPU", "1", None, None]


@pytest.mark.parametrize(
    ("kind", "model", "count", "replicas", "result"),
    [
        ("tpu", "TPU v2", 4, None, (8, 8)),
        ("tpu", "TPU v2", 1, 8, (2, 8)),
        ("tpu", "TPU v5e", 8, None, (8, 8)),
        ("tpu", "TPU v5e", 1, 8, (1, 8)),
        ("xla_cpu", "AMD EPYC", 8, None, (8, 8)),
    ],
)
def test_devices_and_replicas(kind, model, count, replicas, result):
    need = ResourceRequest(kind, "torch_xla", "fp32", count=count, replicas=replicas)
    assert devices_and_replicas(need, model) == result


@on_xla
def test_hardware_and_conditions():
    found = call("torch_xla", "xla_side:described")
    assert (found["kind"], found["model"]) == ("xla_cpu", model_name())
    assert found["threads"] == 2
    assert (found["type"], found["devices"]) == ("CPU", 1)
    assert 50e6 < found["peak"] < 8 * GIB
    assert "highest" not in found["program"], "another precision than fp32 leaves XLA's default"


@on_xla
def test_fp32_multiplies_in_float32():
    found = call("torch_xla", "xla_side:described", precision="fp32")
    assert "operand_precision={highest,highest}" in found["program"]
