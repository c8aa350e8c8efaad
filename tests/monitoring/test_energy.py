"""Energy counters: a made-up RAPL tree, a made-up NVML, and a made-up Zeus."""

import json
import subprocess
import sys
import threading
import time
from functools import partial
from types import ModuleType, SimpleNamespace

import pytest
from support.made_up_gpus import Nvml, NVMLError
from support.rapl import Rapl

from raybench.core import events
from raybench.core.cell import Cell, CellDevice
from raybench.core.job import Job, Target
from raybench.core.settings import Settings
from raybench.devices.host import usable_cores
from raybench.monitoring import SAMPLES, Monitor
from raybench.monitoring.accelerators import Unavailable
from raybench.monitoring.energy import Apple, EnergyMeter, ZeusGpus
from raybench.monitoring.energy import Rapl as Counters
from raybench.monitoring.energy_summary import EpochWindows, summarise_energy
from raybench.monitoring.nvidia import LIBRARY
from raybench.monitoring.summary import summarise

linux = pytest.mark.skipif(sys.platform != "linux", reason="RAPL is read under Linux")


class Library(Nvml):
    """NVML over two GPUs, with their millijoules."""

    def __init__(self):
        super().__init__([0, 1])
        self.mj = [5000, 9000]

    def nvmlDeviceGetTotalEnergyConsumption(self, gpu):
        if self.mj is None:
            raise NVMLError("Not Supported")
        return self.mj[gpu]


@pytest.fixture
def library(monkeypatch):
    made = Library()
    monkeypatch.setitem(sys.modules, LIBRARY, made)
    return made


@linux
def test_the_sockets_of_the_trials_cores_and_their_memory_are_read(tmp_path):
    rapl = Rapl(tmp_path, {0: [0, 1], 1: [2, 3]})
    meter = EnergyMeter("cpu", [], [2], tmp_path)
    rapl.set("intel-rapl:0", 7_001_000)
    rapl.set("intel-rapl:1", 4_001_000)
    rapl.set("intel-rapl:1:1", 2_001_000)
    assert meter.read() == {"cpu 1": 4.0, "dram 1": 2.0}
    assert meter.read() == {"cpu 1": 0.0, "dram 1": 0.0}, "joules since the last call"
    assert meter.missing == [] and meter.socket_cores == [2, 3]


@linux
def test_a_counter_that_starts_again_at_zero_keeps_its_joules(tmp_path):
    rapl = Rapl(tmp_path, {0: [0]}, range_uj=10_000_000, dram=False)
    rapl.set("intel-rapl:0", 9_000_000)
    meter = EnergyMeter("cpu", [], [0], tmp_path)
    rapl.set("intel-rapl:0", 500_000)
    assert meter.read() == {"cpu 0": 1.5}
    assert meter.longest_pause_s == pytest.approx(0.005), "it is read before it can wrap twice at 1000 W"


@linux
def test_a_machine_without_counters_is_not_measurable(tmp_path):
    meter = EnergyMeter("cpu", [], [0], tmp_path)
    assert meter.read() == {}
    assert meter.missing == ["energy of the CPU: this machine has no RAPL counters; virtual machines usually have none"]
    assert meter.no_counter == meter.missing
    assert summarise_energy([], windows(job(), (1, 9)), meter.period_s, meter.missing, meter.no_counter) == {
        "missing": meter.missing,
        "no_counter": meter.missing,
    }


@linux
def test_counters_of_the_administrator_alone_name_the_file(tmp_path, monkeypatch):
    rapl = Rapl(tmp_path, {0: [0]})
    allowed = type(rapl.folder).read_text

    def read_text(file, *arguments, **options):
        if file.name == "energy_uj":
            raise PermissionError(13, "Permission denied", str(file))
        return allowed(file, *arguments, **options)

    monkeypatch.setattr(type(rapl.folder), "read_text", read_text)
    with pytest.raises(Unavailable, match=r"no permission to read .*intel-rapl:0/energy_uj; .* chmod a\+r"):
        Counters([0], tmp_path)
    assert EnergyMeter("cpu", [], [0], tmp_path).no_counter == [], "a user can allow it"


@linux
def test_a_counter_that_disappears_is_not_read_again(tmp_path):
    rapl = Rapl(tmp_path, {0: [0]})
    meter = EnergyMeter("cpu", [], [0], tmp_path)
    rapl.file("intel-rapl:0").unlink()
    assert meter.read() == {} and meter.read() == {}
    (reason,) = meter.missing
    assert "No such file" in reason


@linux
def test_the_joules_of_a_trials_gpu_and_of_its_host_are_apart(library, tmp_path):
    rapl = Rapl(tmp_path, {0: [0]}, dram=False)
    meter = EnergyMeter("cuda", ["1"], [0], tmp_path)
    library.mj = [6000, 12_500]
    rapl.set("intel-rapl:0", 2_001_000)
    assert meter.read() == {"cpu 0": 2.0, "gpu 1": 3.5}
    meter.close()
    assert library.open == 0


@linux
def test_a_gpu_without_a_counter_and_one_that_runs_backwards(library, tmp_path):
    meter = EnergyMeter("cuda", ["0"], [0], tmp_path)
    library.mj = [4000, 0]
    assert meter.read() == {}
    assert meter.missing[-1] == "energy: the counter gpu 0 ran backwards" and library.open == 0
    library.mj = None
    assert EnergyMeter("cuda", ["0"], [0], tmp_path).missing[-1] == "energy of the GPU: Not Supported"


@linux
def test_kinds_without_a_counter_say_so(tmp_path):
    meter = EnergyMeter("tpu", ["0"], [0], tmp_path)
    assert meter.missing[-1] == "energy of the device: no counter is known for the device kind tpu"
    assert meter.no_counter == meter.missing


class ZeusDevice(ModuleType):
    """Zeus over an Apple chip."""

    def get_soc(self):
        parts = SimpleNamespace(cpu_total_mj=2000, dram_mj=None, gpu_mj=7000)
        return SimpleNamespace(get_total_energy_consumption=lambda: parts)


def test_zeus_reads_apples_chip(monkeypatch):
    monkeypatch.setitem(sys.modules, "zeus.device", ZeusDevice("zeus.device"))
    assert Apple().read() == {"cpu 0": 2.0, "gpu 0": 7.0}


class ZeusGpu(SimpleNamespace):
    """A GPU of Zeus with its index of HIP."""

    def supports_get_total_energy_consumption(self):
        return self.accurate

    def get_total_energy_consumption(self):
        return self.mj

    def get_name(self):
        return self.model


class ZeusAmd(ModuleType):
    """Zeus over the AMD GPUs with the indices 2 and 3, of which 3 has no accurate counter."""

    def __init__(self, model="AMD Instinct MI300X", available=True):
        super().__init__("zeus.device.gpu.amd")
        self.amdsmi_is_available = lambda: available
        self.opened = 0
        self.tried = [
            ZeusGpu(gpu_index=2, mj=1500, accurate=True, model=model),
            ZeusGpu(gpu_index=3, mj=9000, accurate=False, model=model),
        ]

    def AMDGPUs(self):
        self.opened += 1
        return SimpleNamespace(gpus=self.tried)


def zeus_amd(monkeypatch, **made):
    monkeypatch.delenv("ROCR_VISIBLE_DEVICES", raising=False)
    module = ZeusAmd(**made)
    monkeypatch.setitem(sys.modules, "zeus.device.gpu.amd", module)
    return module


def test_zeus_reads_the_trials_amd_gpus_alone_and_tries_them_once(monkeypatch):
    zeus = zeus_amd(monkeypatch)
    assert ZeusGpus(["2"]).read() == {"gpu 2": 1.5}, "another GPU's counter does not matter"
    zeus.tried[1].accurate = True
    assert ZeusGpus([]).read() == {"gpu 2": 1.5, "gpu 3": 9.0}
    assert zeus.opened == 1


@pytest.mark.parametrize(
    ("visible", "made", "reason"),
    [
        (["2", "3"], {}, "not accurate"),
        (["0"], {}, "Zeus finds no GPU with the index 0"),
        (["GPU-a1"], {}, "not UUIDs"),
        (["2"], {"available": False}, "amdsmi cannot be loaded"),
        (["2"], {"model": "AMD INSTINCT MI250 (MCM) OAM AC MBA"}, "have one counter together"),
    ],
)
def test_amd_gpus_that_cannot_be_measured_have_a_reason(monkeypatch, visible, made, reason):
    zeus_amd(monkeypatch, **made)
    with pytest.raises(Unavailable, match=f"energy of the GPU: .*{reason}"):
        ZeusGpus(visible)


def test_an_index_among_those_that_rocr_leaves_is_not_one_of_amds_library(monkeypatch):
    zeus_amd(monkeypatch)
    monkeypatch.setenv("ROCR_VISIBLE_DEVICES", "2,3")
    with pytest.raises(Unavailable, match="select them with HIP_VISIBLE_DEVICES"):
        ZeusGpus(["2"])


class AmdSmi(ModuleType):
    """AMD's library over three GPUs, in another order than HIP's, of which the last in HIP runs at 300 W."""

    AmdSmiInitFlags = SimpleNamespace(INIT_AMD_GPUS=2)

    class AmdSmiException(Exception):
        """The base of its errors."""

    class AmdSmiLibraryException(AmdSmiException):
        """An error of the driver."""

    def __init__(self):
        super().__init__("amdsmi")
        self.watts, self.hip = {"c": 300, "a": 100, "b": 100}, {"c": 2, "a": 0, "b": 1}
        self.begun = time.perf_counter()

    def amdsmi_init(self, flag):
        pass

    def amdsmi_shut_down(self):
        pass

    def amdsmi_get_processor_handles(self):
        return list(self.hip)

    def amdsmi_get_gpu_enumeration_info(self, handle):
        return {"hip_id": self.hip[handle]}

    def amdsmi_get_gpu_asic_info(self, handle):
        return {"market_name": "AMD Instinct MI300X"}

    def amdsmi_get_power_info(self, handle):
        return {"current_socket_power": self.watts[handle], "average_socket_power": self.watts[handle]}

    def amdsmi_get_energy_count(self, handle):
        joules = self.watts[handle] * (time.perf_counter() - self.begun)
        return {"energy_accumulator": joules * 1e6, "counter_resolution": 1.0}


def test_without_zeus_the_extra_is_named(monkeypatch):
    for name in ("zeus.device", "zeus.device.gpu.amd"):
        monkeypatch.setitem(sys.modules, name, None)
    for opened in (Apple, lambda: ZeusGpus([])):
        with pytest.raises(Unavailable, match=r"the package zeus is not installed; install raybench\[energy\]"):
            opened()


def job(folder="", kind="cpu", target=None, epochs=None):
    settings = Settings() if epochs is None else Settings(epochs=epochs)
    return Job("t-r0", 1, 0, 0, Cell(device=CellDevice(kind), settings=settings), {}, "", str(folder), target=target)


def stamp(second):
    return f"2026-01-01T00:{int(second) // 60:02d}:{second % 60:06.3f}Z"


def samples(watts, seconds=1.0, **more):
    """One sample for each number of watts, by counter."""
    return [
        {"t": stamp((number + 1) * seconds), "seconds": seconds, **more}
        | {"energy_j": {name: power * seconds for name, power in each.items()}}
        for number, each in enumerate(watts)
    ]


def windows(own, *epochs, **metrics):
    found = EpochWindows(own)
    for number, (begin, end) in enumerate(epochs, 1):
        values = {name: each[number - 1] for name, each in metrics.items()}
        event = events.epoch_ended("t-r0", 1, epoch=number, ledger={"train": end - begin}, metrics=values)
        found.see(event | {"t": stamp(end)})
    return found


def test_each_epoch_has_the_joules_of_its_time():
    read = samples([{"cpu 0": 100.0}] * 10 + [{"cpu 0": 50.0}] * 10)
    energy = summarise_energy(read, windows(job(), (1, 7), (8, 13.5), (13.5, 19)), 0.001, [])
    assert energy["each"]["1"] == {"seconds": 6.0, "device_j": 600.0}
    assert energy["each"]["2"]["device_j"] == pytest.approx(200 + 3.5 * 50)
    assert energy["steady"] == {"count": 2, "seconds": 11.0, "device_j": pytest.approx(200 + 9 * 50)}
    assert energy["epochs"]["count"] == 3 and energy["counters"] == {"cpu 0": 900 + 450}
    assert energy["missing"] == []


def test_epochs_shorter_than_five_readings_have_only_their_sum():
    read = samples([{"cpu 0": 10.0}] * 20)
    energy = summarise_energy(read, windows(job(), *((at, at + 2) for at in range(1, 19, 2))), 0.001, [])
    assert energy["each"] == {}
    assert energy["steady"] == {"count": 8, "seconds": 16.0, "device_j": 160.0}


def test_too_short_a_trial_is_not_measurable_and_not_zero():
    energy = summarise_energy(samples([{"cpu 0": 10.0}] * 20), windows(job(), (1, 2), (2, 3)), 0.001, [])
    assert "epochs" not in energy and "steady" not in energy and energy["each"] == {}
    assert energy["missing"] == ["energy: the epochs took 2 s, less than 5 times the 1 s between two readings"]


def test_a_counter_that_was_lost_in_an_epoch_has_no_joules_there():
    read = samples([{"gpu 0": 300.0, "cpu 0": 100.0}] * 10 + [{"cpu 0": 100.0}] * 10)
    energy = summarise_energy(read, windows(job(kind="cuda"), (1, 9), (9, 18)), 0.1, ["lost"])
    assert energy["each"] == {
        "1": {"seconds": 8.0, "device_j": 2400.0, "host_j": 800.0},
        "2": {"seconds": 9.0, "host_j": 900.0},
    }
    assert energy["epochs"]["host_j"] == 1700.0 and "device_j" not in energy["epochs"]
    assert energy["missing"] == ["lost"]


def test_a_counter_that_stands_still_has_measured_nothing():
    energy = summarise_energy(samples([{"cpu 0": 0.0}] * 20), windows(job(), (1, 18)), 0.001, [])
    assert "epochs" not in energy


def test_the_energy_to_the_target_ends_with_its_epoch():
    epochs = [(1, 7), (7, 13), (13, 19)]
    own = job(target=Target("val/loss", at_most=0.5))
    found = windows(own, *epochs, **{"val/loss": [0.9, 0.4, 0.3]})
    assert summarise_energy(samples([{"cpu 0": 10.0}] * 20), found, 0.001, [])["target"] == {
        "count": 2,
        "seconds": 12.0,
        "device_j": 120.0,
    }
    missed = windows(own, *epochs, **{"val/loss": [0.9, 0.8, 0.7]})
    assert "target" not in summarise_energy(samples([{"cpu 0": 10.0}] * 20), missed, 0.001, [])


def test_steady_epochs_are_those_of_the_times():
    assert windows(job(epochs=2.5), (1, 7), (7, 13), (13, 15)).steady == [2], "the last epoch is shorter"
    resumed = EpochWindows(job())
    for number in (4, 5, 6):
        event = events.epoch_ended("t-r0", 1, epoch=number, ledger={"train": 1.0}, metrics={})
        resumed.see(event)
    assert resumed.steady == [5, 6], "a process that resumed has a warm-up of its own"


def test_the_part_of_other_processes_on_the_sockets_is_known():
    read = samples([{"cpu 0": 100.0}] * 10, own_cpu_s=3.0, socket_busy_s=4.0)
    assert summarise_energy(read, windows(job(), (1, 9)), 0.001, [])["others_share"] == 0.25


def test_epochs_without_samples_are_not_measurable_and_not_too_low():
    read = samples([{"cpu 0": 100.0}] * 10)
    energy = summarise_energy(read, windows(job(), (1, 10), (10, 19)), 0.001, [])
    assert energy.keys() == {"each", "missing"} and energy["each"] == {"1": {"seconds": 9.0, "device_j": 900.0}}
    assert energy["missing"] == ["energy: the counters were read in 9 of the 18 s of the epochs"]


def test_samples_that_begin_late_cost_the_first_epoch_alone():
    read = [{**each, "t": stamp(number + 2.0)} for number, each in enumerate(samples([{"cpu 0": 100.0}] * 100))]
    energy = summarise_energy(read, windows(job(), (0, 10), (10, 100)), 0.001, [])
    assert energy["each"] == {"2": {"seconds": 90.0, "device_j": 9000.0}}
    assert energy["epochs"]["device_j"] == 10_000, "the second without a sample is one of a hundred"
    assert energy["missing"] == ["energy: the counters were read in 9 of the 10 s of epoch 1"]


def test_the_joules_after_the_end_of_a_process_are_not_conditions():
    read = samples([{"cpu 0": 100.0}] * 5, own_cpu_s=0.5, busy_s=0.75)
    tail = {"t": stamp(6), "seconds": 1.0, "energy_j": {"cpu 0": 100.0}}
    assert summarise([*read, tail]) == summarise(read)


class CountedSample(dict):
    """A sample that counts how often it is read."""

    reads = 0

    def __getitem__(self, name):
        CountedSample.reads += 1
        return super().__getitem__(name)


def whole(file, text):
    """Write in one step, so that the file is never read half."""
    draft = file.with_suffix(".draft")
    draft.write_text(text)
    draft.replace(file)


@pytest.fixture
def burning(tmp_path, monkeypatch):
    """A monitored machine whose cores take 50 W."""
    rapl = Rapl(tmp_path, {0: usable_cores()}, dram=False)
    monkeypatch.setattr("raybench.monitoring.sampler.EnergyMeter", partial(EnergyMeter, root=tmp_path))
    monkeypatch.setattr("raybench.monitoring.energy_summary.LEAST_PERIODS", 1)  # for a short test
    over, begun = threading.Event(), time.perf_counter()

    def burn():
        while not over.wait(0.005):
            whole(rapl.file("intel-rapl:0"), str(1000 + int(50e6 * (time.perf_counter() - begun))))

    thread = threading.Thread(target=burn)
    thread.start()
    yield
    over.set()
    thread.join()


@pytest.fixture
def trial():
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


def samples_in(folder):
    return [json.loads(line) for line in (folder / SAMPLES).read_text().splitlines()]


@linux
def test_a_monitored_trial_has_energy_in_its_samples_and_its_event(tmp_path, burning, trial):
    with Monitor(job(tmp_path)) as audit:
        audit.begin(trial.pid)
        time.sleep(2.6)
        audit.see(events.epoch_ended("t-r0", 1, epoch=1, ledger={"train": 2.4}))
        time.sleep(0.1)
        energy = audit.end()["energy"]
    read = samples_in(tmp_path)
    assert sum(sample["energy_j"]["cpu 0"] for sample in read) == pytest.approx(50 * read[-1]["at"], rel=0.1)
    assert all("socket_busy_s" in sample for sample in read)
    assert energy["epochs"]["device_j"] == pytest.approx(120, rel=0.1)
