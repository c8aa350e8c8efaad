"""The sensors of NVIDIA GPUs, with a made-up driver behind the library's functions."""

import json
import sys
import time
from types import ModuleType, SimpleNamespace

import pytest
from support.made_up_gpus import Nvml, install_nvml

from raybench.core.cell import Cell, CellDevice
from raybench.core.job import Job
from raybench.devices.host import usable_cores
from raybench.monitoring import SAMPLES, Monitor, nvidia
from raybench.monitoring.accelerators import Unavailable, open_sensors


class NVMLError(Exception):
    """As the library's."""


class FunctionNotFound(NVMLError):
    """As the library's."""


class Library(ModuleType):
    """NVML over two GPUs; what it was asked is remembered."""

    NVMLError = NVMLError
    NVMLError_FunctionNotFound = FunctionNotFound
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    def __init__(self):
        super().__init__("pynvml")
        self.open, self.reasons, self.power = 0, 0x1, 350_000

    def nvmlInit(self):
        self.open += 1

    def nvmlShutdown(self):
        self.open -= 1

    def nvmlDeviceGetCount(self):
        return 2

    def nvmlDeviceGetHandleByIndex(self, index):
        if index >= 2:
            raise NVMLError("Invalid Argument")
        return index

    def nvmlDeviceGetHandleByUUID(self, name):
        return {"GPU-aaaa": 0, "GPU-bbbb": 1}[name]

    def nvmlDeviceGetClockInfo(self, gpu, which):
        return {self.NVML_CLOCK_SM: 1980, self.NVML_CLOCK_MEM: 2619}[which] - gpu

    def nvmlDeviceGetPowerUsage(self, gpu):
        if self.power is None:
            raise NVMLError("Not Supported")
        return self.power

    def nvmlDeviceGetTemperature(self, gpu, sensor):
        return 61

    def nvmlDeviceGetUtilizationRates(self, gpu):
        return SimpleNamespace(gpu=97, memory=40)

    def nvmlDeviceGetCurrentClocksEventReasons(self, gpu):
        return self.reasons


class Older(Library):
    """A driver that does not know the newer name."""

    def nvmlDeviceGetCurrentClocksEventReasons(self, gpu):
        raise FunctionNotFound

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, gpu):
        return self.reasons


@pytest.fixture(params=[Library, Older])
def library(request, monkeypatch):
    made = request.param()
    monkeypatch.setitem(sys.modules, nvidia.LIBRARY, made)
    return made


def test_quantities_are_in_the_units_they_are_named_for(library):
    (told,) = open_sensors("cuda", ["1"]).read()
    assert told == {
        "id": "1",
        "clock_mhz": 1979,
        "memory_clock_mhz": 2618,
        "power_w": 350.0,
        "temperature_c": 61,
        "utilization": 0.97,
        "throttled": [],
    }


def test_only_the_assigned_gpus_are_read(library):
    assert [gpu["id"] for gpu in open_sensors("cuda", ["GPU-bbbb"]).read()] == ["GPU-bbbb"]
    assert [gpu["id"] for gpu in open_sensors("cuda", []).read()] == ["0", "1"], "none named: all there are"


class PowerOfSlices(Nvml):
    """A driver that reports the power of each slice, and nothing else of a slice."""

    NVMLError_FunctionNotFound = FunctionNotFound
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    def nvmlDeviceGetPowerUsage(self, gpu):
        return gpu["power"] * 1000

    def __getattr__(self, name):
        def fail(*_):
            raise self.NVMLError("Not Supported")

        if name.startswith("nvmlDeviceGet"):
            return fail
        raise AttributeError(name)


@pytest.mark.parametrize(
    ("name", "power"), [("GPU-aa", 100), ("GPU-bbbb", 200), ("MIG-2222", 30), ("MIG-22", 30), ("MIG-GPU-bbbb/7/0", 40)]
)
def test_gpus_and_slices_are_read_by_every_name_that_cuda_accepts(monkeypatch, name, power):
    parts = [
        {"uuid": "MIG-2222", "name": "B MIG 3g.20gb", "mib": 1, "instances": (2, 0), "power": 30},
        {"uuid": "MIG-7777", "name": "B MIG 1g.5gb", "mib": 1, "instances": (7, 0), "power": 40},
    ]
    gpus = [{"uuid": "GPU-aaaa", "name": "A", "mib": 1, "power": 100}]
    gpus.append({"uuid": "GPU-bbbb", "name": "B", "mib": 1, "power": 200, "slices": parts})
    install_nvml(monkeypatch, PowerOfSlices(gpus))
    assert open_sensors("cuda", [name]).read() == [{"id": name, "power_w": power}]


@pytest.mark.parametrize("name", ["GPU-cccc", "GPU-"])
def test_a_name_of_no_gpu_or_of_two_is_reported_and_the_library_released(monkeypatch, name):
    gpus = [{"uuid": "GPU-aaaa", "name": "A", "mib": 1}, {"uuid": "GPU-bbbb", "name": "A", "mib": 1}]
    library = PowerOfSlices(gpus)
    install_nvml(monkeypatch, library)
    with pytest.raises(Unavailable, match="GPU sensors: Not Found"):
        open_sensors("cuda", [name])
    assert library.open == 0


@pytest.mark.parametrize(
    ("bits", "reasons"),
    [
        (0x0, []),
        (0x1, []),
        (0x4, ["power_cap"]),
        (0x48, ["hardware_slowdown", "hardware_thermal"]),
        (0x21, ["thermal"]),
    ],
)
def test_reasons_are_named_and_idleness_is_none(library, bits, reasons):
    library.reasons = bits
    assert open_sensors("cuda", ["0"]).read()[0]["throttled"] == reasons


def test_what_a_gpu_does_not_tell_is_left_out(library):
    library.power = None
    (told,) = open_sensors("cuda", ["0"]).read()
    assert "power_w" not in told and told["temperature_c"] == 61


def test_a_gpu_that_is_not_there_is_said_and_the_library_let_go(library):
    with pytest.raises(Unavailable, match="GPU sensors: Invalid Argument"):
        open_sensors("cuda", ["7"])
    assert library.open == 0


def test_a_driver_that_is_not_there_is_said(library, monkeypatch):
    def refused():
        raise NVMLError("Driver Not Loaded")

    monkeypatch.setattr(library, "nvmlInit", refused)
    with pytest.raises(Unavailable, match="Driver Not Loaded"):
        open_sensors("cuda", [])


def test_without_the_library_it_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, nvidia.LIBRARY, None)
    with pytest.raises(Unavailable, match="nvidia-ml-py is not installed"):
        open_sensors("cuda", [])


def test_other_kinds_have_no_sensors():
    assert open_sensors("cpu", []) is None


def audited(folder, seconds=0.4):
    import subprocess

    job = Job("t-r0", 1, 0, 0, Cell(device=CellDevice("cuda")), {}, "", str(folder), usable_cores(), ["0"])
    trial = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    try:
        with Monitor(job) as audit:
            audit.begin(trial.pid)
            time.sleep(seconds)
            return audit.end()
    finally:
        trial.kill()
        trial.wait()


def test_a_trials_gpus_are_in_its_samples_and_its_event(library, tmp_path):
    library.reasons = 0x4
    told = audited(tmp_path)
    (gpu,) = told["gpus"]
    assert gpu["power_w"] == {"mean": 350.0, "max": 350.0} and gpu["throttled"] == {"power_cap": 1.0}
    samples = [json.loads(line) for line in (tmp_path / SAMPLES).read_text().splitlines()]
    assert {sample["gpus"][0]["clock_mhz"] for sample in samples} == {1980}
    assert library.open == 0, "the driver is let go of"


def test_a_trial_on_gpus_without_sensors_says_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, nvidia.LIBRARY, None)
    told = audited(tmp_path)
    assert told["missing"] == ["GPU sensors: the package nvidia-ml-py is not installed"]
    assert told["gpus"] == [] and told["samples"] > 0
