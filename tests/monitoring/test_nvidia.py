"""The sensors of NVIDIA GPUs, with a made-up driver behind the library's functions."""

from types import SimpleNamespace

import pytest
from support.made_up_gpus import Nvml, NVMLError, install_nvml
from support.monitored import Process, audited

from raybench.core.cell import Cell, CellDevice
from raybench.core.job import Job
from raybench.devices.energy import Unavailable
from raybench.devices.host import usable_cores
from raybench.monitoring.nvidia import NvidiaEnergy
from raybench.monitoring.sampler import open_sensors


class Sensors(Nvml):
    """NVML with sensors and counters."""

    reasons = 0x1

    def nvmlDeviceGetTotalEnergyConsumption(self, gpu):
        return gpu["power"] * 1000

    def nvmlDeviceGetCurrentClocksEventReasons(self, gpu):
        return self.reasons

    def nvmlDeviceGetUtilizationRates(self, gpu):
        return SimpleNamespace(gpu=97)


SLICES = [
    {"uuid": "MIG-2222", "name": "B MIG 3g.20gb", "mib": 1, "power": 30},
    {"uuid": "MIG-7777", "name": "B MIG 1g.5gb", "mib": 1, "power": 40},
]
GPUS = [
    {"uuid": "GPU-aaaa", "name": "A", "mib": 1, "power": 100},
    {"uuid": "GPU-bbbb", "name": "B", "mib": 1, "power": 200, "slices": SLICES},
    {"uuid": "GPU-abcd", "name": "A", "mib": 1, "power": 300},
]


@pytest.fixture
def library(monkeypatch):
    made = Sensors(GPUS)
    install_nvml(monkeypatch, made)
    return made


@pytest.mark.parametrize(
    ("names", "power"),
    [
        (["1"], {"1": 200}),
        (["GPU-aaaa"], {"GPU-aaaa": 100}),
        (["MIG-2222"], {"MIG-2222": 30}),
        ([], {"0": 100, "1": 200, "2": 300}),
    ],
)
def test_gpus_and_slices_by_name(library, names, power):
    assert NvidiaEnergy(names).read() == {f"gpu {name}": joules for name, joules in power.items()}


def test_an_unknown_name_is_reported(library):
    with pytest.raises(Unavailable, match="Not Found"):
        open_sensors("cuda", ["GPU-cccc"])
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
def test_throttling_reasons(library, bits, reasons):
    library.reasons = bits
    assert open_sensors("cuda", ["0"]).read()[0]["throttled"] == reasons


def test_without_a_driver(library, monkeypatch):
    def refused():
        raise NVMLError("Driver Not Loaded")

    monkeypatch.setattr(library, "nvmlInit", refused)
    with pytest.raises(Unavailable, match="Driver Not Loaded"):
        open_sensors("cuda", [])


def test_other_kinds_have_no_sensors():
    assert open_sensors("cpu", []) is None


@pytest.mark.parametrize("has_package", [True, False])
def test_a_monitored_trial(tmp_path, monkeypatch, has_package):
    library = Sensors(GPUS) if has_package else None
    install_nvml(monkeypatch, library)
    job = Job("t-r0", 1, 0, 0, Cell(device=CellDevice("cuda")), {}, "", str(tmp_path), usable_cores(), ["0"])
    if library:
        library.reasons = 0x4
    with Process() as trial:
        summary = audited(job, trial.pid, 0.4)
    if library is None:
        assert summary["missing"] == ["GPU sensors: the package nvidia-ml-py is not installed"]
        assert summary["gpus"] == []
        return
    (gpu,) = summary["gpus"]
    assert gpu["throttled"] == {"power_cap": 1.0} and gpu["busy"] == 0.97
    assert library.open == 0
