"""TPUs found on a made-up host, their adapter's environment, and XLA on the host's cores."""

import os

import pytest
from support.frameworks import call

from raybench.core.rank import Rank
from raybench.devices import (
    KINDS,
    Assignment,
    Hardware,
    frameworks,
    hosted,
    open_device,
    tpu,
)
from raybench.devices.host import model_name, usable_cores
from raybench.planning.node import Node
from raybench.planning.replication import Replication, resolve_replication

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


def test_four_chips_of_the_second_generation(host):
    host("0x1237", vendor="0x8086")
    for chip in range(4):
        host("0x0027", "0x004e", accel=chip)
    assert tpu.probe(host.root) == [Hardware("tpu", "TPU v2", 4, 16 * GIB, ids=("0", "1", "2", "3"))]


@pytest.mark.parametrize(
    ("device", "subsystem", "model", "cores"),
    [
        ("0x0027", "0x004f", "TPU v3", 2),
        ("0x005e", "0x0000", "TPU v4", 1),
        ("0x0062", "0x0000", "TPU v5p", 1),
        ("0x0063", "0x0000", "TPU v5e", 1),
        ("0x006f", "0x0000", "TPU v6e", 1),
        ("0x0076", "0x0000", "TPU7x", 1),
    ],
)
def test_a_generation_is_known_by_its_number(host, device, subsystem, model, cores):
    host(device, subsystem, group=7)
    (found,) = tpu.probe(host.root)
    assert (found.model, found.count) == (model, 1)
    assert KINDS["tpu"].devices_per_accelerator(model) == cores


def test_what_cannot_be_opened_or_was_hidden_is_not_there(host, monkeypatch):
    host("0x0063", group=3)
    host("0x0063")  # on the bus, but no device file: another container has it
    host("0x0063", group=5)
    host("0x0063", "0x1234", vendor="0x10de", group=6)
    host("0xffff", group=8)
    assert [entry.ids for entry in tpu.probe(host.root)] == [("0", "2")]
    monkeypatch.setenv("TPU_VISIBLE_CHIPS", "2,3")
    assert [entry.ids for entry in tpu.probe(host.root)] == [("2",)]
    monkeypatch.setenv("TPU_VISIBLE_CHIPS", "")
    assert tpu.probe(host.root) == []


def test_a_host_without_such_a_bus_has_no_tpu(tmp_path):
    assert tpu.probe(tmp_path) == []


def test_xla_cpu_is_the_processor_by_another_name():
    assert KINDS["xla_cpu"].virtual and not KINDS["tpu"].virtual
    assert hosted("xla_cpu") and not hosted("tpu")
    assert frameworks("xla_cpu") == ("torch_xla",)
    node = Node("box", (Hardware("cpu", "AMD EPYC", 8),))
    assert node.find("xla_cpu") == [Hardware("xla_cpu", "AMD EPYC", 8)]


def test_counts_and_cores():
    assert KINDS["tpu"].counts == (1, 2, 4, 8)
    assert not KINDS["cuda"].counts
    for kind, model in (("cuda", "Tesla T4"), ("tpu", "TPU v9")):
        assert KINDS[kind].devices_per_accelerator(model) == 1


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


def test_a_trial_that_was_given_no_numbers_sees_what_its_caller_sees(host, monkeypatch):
    monkeypatch.setenv("TPU_VISIBLE_CHIPS", "1")
    open_device("tpu", "torch_xla", Assignment([], [], 1)).hide_others()
    assert [os.environ.get(name) for name in NAMES] == ["TPU", "1", None, None]


def test_ranks_know_the_places_of_one_another(host, monkeypatch):
    monkeypatch.setattr(tpu, "current_rank", lambda: Rank(2, 4))
    names = ("TPU_PROCESS_ADDRESSES", "TPU_PROCESS_PORT", "CLOUD_TPU_TASK_ID")
    ranks = ("PJRT_LOCAL_PROCESS_RANK", "PJRT_LOCAL_PROCESS_COUNT")
    for name in (*names, *ranks):
        monkeypatch.setenv(name, "")
    open_device("tpu", "torch_xla", Assignment([], ["6"], 1)).hide_others()  # the third of chips 4 to 7
    assert [os.environ[name] for name in NAMES] == ["TPU", "6", "1,1,1", "2,2,1"]
    places = "localhost:8480,localhost:8481,localhost:8482,localhost:8483"
    assert [os.environ[name] for name in names] == [places, "8482", "2"]
    assert [os.environ[name] for name in ranks] == ["2", "4"]


@on_xla
@pytest.mark.parametrize(
    ("kind", "host", "chips"),
    [
        ("v4-8", "2,2,1", 4),
        ("v5litepod-4", "2,2,1", 4),
        ("v5litepod-8", "2,4,1", 8),
        ("v6e-8", "2,4,1", 8),
        ("tpu7x-8", "2,2,1", 8),
    ],
)
def test_ranks_start_as_those_of_torch_xla(kind, host, chips):
    """With the variables that `torch_xla.launch` sets in each process of a host; on the host's metadata, not on it."""
    for theirs, ours in call("torch_xla", "xla_side:launched", kind=kind, host=host, chips=chips):
        assert ours == theirs


@pytest.mark.parametrize(
    ("model", "count", "asked", "made"),
    [
        ("TPU v2", 4, None, Replication("spmd", 8)),
        ("TPU v2", 4, "grouped", Replication("grouped", 1)),
        ("TPU v5e", 8, None, Replication("devices", 8)),
        ("TPU v5e", 8, "spmd", Replication("spmd", 8)),
        ("TPU v5e", 1, None, Replication("grouped", 1)),
    ],
)
def test_eight_replicas_on_a_tpu(model, count, asked, made):
    assert resolve_replication("tpu", "torch_xla", model, 8, count, asked) == made


def test_two_devices_of_a_chip_are_of_one_process():
    said = resolve_replication("tpu", "torch_xla", "TPU v3", 8, 4, "devices")
    assert said.endswith("a TPU v3 is 2 devices; set replication: spmd")


def test_xla_cpu_spreads_a_batch_by_one_program_only():
    assert resolve_replication("xla_cpu", "torch_xla", "AMD EPYC", 8, 8, "spmd") == Replication("spmd", 8)
    assert resolve_replication("xla_cpu", "torch_xla", "AMD EPYC", 8, 1, None) == Replication("grouped", 1)
    assert "torch_xla has no replication: devices on xla_cpu" in resolve_replication(
        "xla_cpu", "torch_xla", "AMD EPYC", 8, 8, None
    )


@pytest.mark.parametrize(
    ("said", "meaning"),
    [
        (
            "ABORTED: The TPU is already in use by process with pid 4711. Not attempting to load libtpu.so",
            "process 4711",
        ),
        ('Internal error when accessing libtpu multi-process lockfile. Run "$ sudo rm /tmp/libtpu_lockfile".', "lock"),
        ("libtpu.so already in use by another process probably owned by another user.", "lock"),
    ],
)
def test_a_lock_is_named_with_what_to_do(said, meaning):
    told = tpu.explain(RuntimeError(said))
    if meaning == "lock":
        assert "/tmp/libtpu_lockfile" in told and "sudo rm /tmp/libtpu_lockfile" in told
    else:
        assert meaning in told


@on_xla
def test_the_adapter_says_what_it_runs_on():
    found = call("torch_xla", "xla_side:described")
    assert (found["kind"], found["model"]) == ("xla_cpu", model_name())
    assert found["runtime_conditions"] == {
        "threads": 2,
        "thread_waiting": "passive",
        "cores": usable_cores(),
        "visible": [],
        "tf32": False,
        "niceness": os.nice(0),
        "float32_products": "default",
    }
    assert (found["type"], found["devices"]) == ("CPU", 1)
    assert 50e6 < found["peak"] < 8 * GIB
    assert "highest" not in found["program"], "another precision than fp32 leaves XLA's default"


@on_xla
def test_fp32_multiplies_in_float32():
    found = call("torch_xla", "xla_side:described", precision="fp32")
    assert found["runtime_conditions"]["float32_products"] == "highest"
    assert "operand_precision={highest,highest}" in found["program"]


@on_xla
def test_virtual_devices():
    assert call("torch_xla", "xla_side:described", devices=8)["devices"] == 8


@on_xla
@pytest.mark.parametrize("precision", ["fp16", "tf32"])
def test_a_precision_xla_has_not_is_refused(precision):
    assert f"precision {precision}" in call("torch_xla", "xla_side:refused", precision=precision)


@on_xla
def test_memory_that_runs_out_is_told_from_other_errors():
    ran_out, another, said = call("torch_xla", "xla_side:out_of_memory")
    assert ran_out and not another, said
