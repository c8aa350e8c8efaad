"""The device of a process that only starts programs: it is described, and nothing is loaded."""

import os

import pytest

from raybench.devices import Assignment
from raybench.devices.base import Hardware
from raybench.devices.host import usable_cores
from raybench.devices.program import open_for_program


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "JAX_PLATFORMS", "OMP_NUM_THREADS", "NPROC"):
        monkeypatch.setenv(name, "before")
    monkeypatch.setattr(os, "sched_setaffinity", lambda *_: None)


def test_a_cpu_hides_accelerators():
    device = open_for_program("cpu", Assignment([0], (), 3))
    device.hide_others()
    device.open("")
    assert (os.environ["CUDA_VISIBLE_DEVICES"], os.environ["JAX_PLATFORMS"]) == ("", "cpu")
    assert (device.describe().kind, device.describe().count) == ("cpu", 1)
    assert device.threads() == 3


def test_gpus_are_the_assigned_ones(monkeypatch):
    gpus = [Hardware("cuda", "A", 2, 1 << 30, "550", ("0", "1")), Hardware("cuda", "B", 1, ids=("2",))]
    monkeypatch.setattr("raybench.devices.program.probe", lambda: [Hardware("cpu", "C", 2), *gpus])
    device = open_for_program("cuda", Assignment(usable_cores(), ("1",), 1))
    device.hide_others()
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "1"
    described = device.describe()
    assert (described.model, described.count, described.driver) == ("A", 1, "550")
    assert open_for_program("cuda", Assignment([], ("2",), 1)).describe().model == "B"
    open_for_program("cuda", Assignment([], (), 1)).hide_others()
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "1", "those that the caller sees stay visible"
