"""Energy counters: a made-up RAPL tree, a made-up NVML, and a made-up Zeus."""

import re
import sys
import threading
import time
from functools import partial

import pytest
from support.made_up_gpus import Nvml, NVMLError
from support.monitored import Process

from raybench.core import events
from raybench.core.cell import Cell, CellDevice
from raybench.core.job import Job, Target
from raybench.core.settings import Settings
from raybench.devices.energy import EnergyMeter
from raybench.devices.host import usable_cores
from raybench.monitoring import Monitor
from raybench.monitoring.energy_summary import EpochWindows, summarize_energy

linux = pytest.mark.skipif(sys.platform != "linux", reason="RAPL is read under Linux")


def write_file(file, value):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{value}\n")


class Rapl:
    """Sockets under `root`, each with its cores, a counter of its own and one of its memory."""

    def __init__(self, root, sockets, range_uj=262_143_328_850, dram=True):
        self.root, self.dram = root, dram
        self.folder = root / "sys/class/powercap"
        for socket, cores in sockets.items():
            self._zone(f"intel-rapl:{socket}", f"package-{socket}", range_uj)
            self._zone(f"intel-rapl:{socket}:0", "core", range_uj)
            if dram:
                self._zone(f"intel-rapl:{socket}:1", "dram", range_uj)
            for core in cores:
                write_file(root / f"sys/devices/system/cpu/cpu{core}/topology/physical_package_id", socket)
        self._zone("intel-rapl:9", "psys", range_uj)
        self._zone("intel-rapl-mmio:0", "package-0", range_uj)

    def _zone(self, zone, name, range_uj):
        write_file(self.folder / zone / "name", name)
        write_file(self.folder / zone / "max_energy_range_uj", range_uj)
        write_file(self.folder / zone / "energy_uj", 1000)

    def file(self, zone):
        return self.folder / zone / "energy_uj"

    def set(self, zone, microjoules):
        self.file(zone).write_text(f"{microjoules}\n")


@linux
def test_sockets_of_the_cores_and_their_memory(tmp_path):
    rapl = Rapl(tmp_path, {0: [0, 1], 1: [2, 3]})
    meter = EnergyMeter("cpu", [], [2], tmp_path)
    before = meter.read()
    rapl.set("intel-rapl:0", 7_001_000)
    rapl.set("intel-rapl:1", 4_001_000)
    rapl.set("intel-rapl:1:1", 2_001_000)
    after = meter.read()
    assert {name: after[name] - before[name] for name in after} == {"cpu 1": 4.0, "dram 1": 2.0}
    assert meter.missing == [] and meter.socket_cores == [2, 3]


@linux
def test_a_wrapped_counter_keeps_its_joules(tmp_path):
    rapl = Rapl(tmp_path, {0: [0]}, range_uj=10_000_000, dram=False)
    rapl.set("intel-rapl:0", 9_000_000)
    meter = EnergyMeter("cpu", [], [0], tmp_path)
    meter.read()
    rapl.set("intel-rapl:0", 500_000)
    assert meter.read() == {"cpu 0": 1.5}


@linux
@pytest.mark.parametrize(
    ("counter", "reason"),
    [(None, "this machine has no RAPL counters"), ("protected", r"no permission .*energy_uj.* chmod a\+r"), ("", "")],
    ids=["none", "for administrators only", "unreadable"],
)
def test_unreadable_rapl_is_missing_with_a_reason(tmp_path, monkeypatch, counter, reason):
    if counter is not None:
        file = Rapl(tmp_path, {0: [0]}).file("intel-rapl:0")
        file.write_text(counter)
        if counter:
            read_text = type(file).read_text
            monkeypatch.setattr(type(file), "read_text", lambda path: denied(path, read_text))
    meter = EnergyMeter("cpu", [], [0], tmp_path)
    assert meter.read() == meter.read() == {}
    (missing,) = meter.missing
    assert re.match(f"energy of the CPU: .*{reason}", missing)


def denied(path, read_text):
    text = read_text(path)
    if text == "protected":
        raise PermissionError(13, "Permission denied", str(path))
    return text


@linux
def test_gpu_and_host_have_separate_counters(tmp_path, monkeypatch):
    library = Nvml(["first", "second"])
    library.nvmlDeviceGetTotalEnergyConsumption = {"first": 5000, "second": 9000}.__getitem__
    monkeypatch.setitem(sys.modules, "pynvml", library)
    Rapl(tmp_path, {0: [0]}, dram=False)
    meter = EnergyMeter("cuda", ["1"], [0], tmp_path)
    assert meter.read() == {"cpu 0": 0.0, "gpu 1": 9.0}
    meter.close()
    assert library.open == 0

    def unsupported(_):
        raise NVMLError("Not Supported")

    library.nvmlDeviceGetTotalEnergyConsumption = unsupported
    meter = EnergyMeter("cuda", ["0"], [0], tmp_path)
    assert meter.read().keys() == {"cpu 0"}
    assert meter.missing == ["energy of the device: Not Supported"] and library.open == 0


def test_a_kind_without_counters(tmp_path):
    missing = EnergyMeter("tpu", ["0"], [0], tmp_path).missing
    assert "energy of the device: no counter is known for the device kind tpu" in missing


def job(folder="", kind="cpu", target=None, epochs=None):
    settings = Settings() if epochs is None else Settings(epochs=epochs)
    return Job("t-r0", 1, 0, 0, Cell(device=CellDevice(kind), settings=settings), {}, "", str(folder), target=target)


def windows(own, *epochs, losses=(), first=1, partial=False):
    found = EpochWindows(own)
    for number, (begin, end) in enumerate(epochs, first):
        metrics = {"val/loss": losses[number - 1]} if losses else {}
        event = events.epoch_ended("t-r0", 1, epoch=number, ledger={"train": end - begin}, metrics=metrics)
        is_partial = partial and number == first + len(epochs) - 1
        found.see(event | {"t": f"1970-01-01T00:00:{end:06.3f}Z", "partial": is_partial})
    return found


def readings(begin=0, end=20, **counters):
    """Readings once per second of counters with a constant power."""
    return [
        (float(second), {f"{name} 0": 7 + watts * second for name, watts in counters.items()})
        for second in range(begin, end + 1)
    ]


@pytest.mark.parametrize(
    ("epochs", "each"),
    [
        ([(1, 7), (8, 13.5), (13.5, 19)], {"1": 60.0, "2": 55.0, "3": 55.0}),
        ([(1, 3), (3, 5), (5, 19)], {"3": 140.0}),
        ([(1, 3), (3, 5)], {}),
        ([(1, 19), (19, 29)], {"1": 180.0}),
        ([(1, 7), (20, 20.3)], {"1": 60.0}),
        ([(1, 20.3)], {"1": 193.0}),
    ],
    ids=[
        "long",
        "two shorter than five readings",
        "all too short",
        "one without readings",
        "end not read",
        "last reading before the end",
    ],
)
def test_epochs_have_the_energy_of_their_time(epochs, each):
    energy = summarize_energy(readings(cpu=10), windows(job(), *epochs), [], {})
    assert {number: sums["device_j"] for number, sums in energy["each"].items()} == pytest.approx(each)


def test_sums_over_all_and_steady_epochs():
    shorts = [(second, second + 2) for second in range(1, 19, 2)]
    energy = summarize_energy(readings(cpu=10, dram=5), windows(job(), *shorts), [], {})
    assert energy["epochs"] == {"count": 9, "device_j": 270.0}
    assert energy["steady"] == {"count": 8, "device_j": 240.0}
    assert energy["missing"] == [] and energy["each"] == {}


@pytest.mark.parametrize("epochs", [[(1, 2), (2, 3)], [(10, 29)]], ids=["short", "not read"])
def test_energy_that_was_not_measured_is_missing(epochs):
    energy = summarize_energy(readings(cpu=10), windows(job(), *epochs), ["reason"], {})
    assert energy.keys() == {"each", "missing"}
    assert energy["missing"][0] == "reason" and "too short, or" in energy["missing"][1]


def test_a_gpu_counter_lost_during_training():
    read = [
        (second, joules if second <= 10 else {"cpu 0": joules["cpu 0"]}) for second, joules in readings(gpu=3, cpu=1)
    ]
    energy = summarize_energy(read, windows(job(kind="cuda"), (1, 9), (9, 18)), ["lost"], {})
    assert energy["each"] == {"1": {"device_j": 24.0, "host_j": 8.0}, "2": {"host_j": 9.0}}
    assert energy["epochs"] == {"count": 2, "host_j": 17.0}


@pytest.mark.parametrize(("losses", "target"), [((0.9, 0.4, 0.3), {"count": 2, "device_j": 120.0}), ((0.9,) * 3, None)])
def test_energy_to_the_target(losses, target):
    own = job(target=Target("val/loss", at_most=0.5))
    found = windows(own, (1, 7), (7, 13), (13, 19), losses=losses)
    assert summarize_energy(readings(cpu=10), found, [], {}).get("target") == target


def test_steady_epochs_follow_each_warm_up():
    assert windows(job(epochs=2.5), (1, 7), (7, 13), (13, 15)).steady == [2], "the last epoch is shorter"
    assert windows(job(), (1, 2), (2, 3), (3, 4), first=4).steady == [5, 6], "a process that resumed"
    assert windows(job(), (1, 7), (7, 13), (13, 15), partial=True).steady == [2], "a budget ended the last epoch"


@pytest.mark.parametrize(("used_s", "share"), [(3.0, 0.7), (11.0, 0.0)])
def test_the_share_of_other_processes(used_s, share):
    host = {"own_cpu_s": used_s, "socket_busy_s": 10.0}
    assert summarize_energy(readings(cpu=10), windows(job(), (1, 9)), [], host)["others_share"] == share


@pytest.mark.slow
@linux
def test_a_monitored_trial_has_energy(tmp_path, monkeypatch):
    rapl = Rapl(tmp_path, {0: usable_cores()}, dram=False)
    monkeypatch.setattr("raybench.monitoring.sampler.EnergyMeter", partial(EnergyMeter, root=tmp_path))
    monkeypatch.setattr("raybench.monitoring.energy_summary.MIN_INTERVALS", 1)  # for a short test
    file, over, begun = rapl.file("intel-rapl:0"), threading.Event(), time.perf_counter()

    def burn():
        while not over.wait(0.005):  # replaced in one step, so that it is never read half
            draft = file.with_suffix(".draft")
            draft.write_text(str(1000 + int(50e6 * (time.perf_counter() - begun))))
            draft.replace(file)

    thread = threading.Thread(target=burn)
    thread.start()
    try:
        with Process() as trial, Monitor(job(tmp_path)) as audit:
            audit.begin(trial.pid)
            time.sleep(2.6)
            audit.see(events.epoch_ended("t-r0", 1, epoch=1, ledger={"train": 2.4}))
            time.sleep(0.1)
            summary = audit.end()
    finally:
        over.set()
        thread.join()
    assert summary["energy"]["epochs"]["device_j"] == pytest.approx(120, rel=0.3)
    assert 0 <= summary["energy"]["others_share"] <= 1
