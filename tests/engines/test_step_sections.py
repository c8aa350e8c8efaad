"""The sections of a training step: every moment in one of them, the same training, only where they are asked for."""

from __future__ import annotations

from itertools import count

import pytest
import torch
from small_training import RECIPE, pictures

from raybench.datasets.base import Data
from raybench.devices import Assignment, open_device
from raybench.engines import EngineParts, open_engine
from raybench.engines.base import Engine
from raybench.engines.sections import StepSections, WholeSteps
from raybench.trial.job import Recipe
from raybench.trial.ledger import STEP_SECTIONS, Ledger
from raybench.workloads.base import Workload

STEPS = 6


def network() -> torch.nn.Module:
    """Small, with statistics of its own."""
    convolution = torch.nn.Conv2d(3, 8, 3, padding=1)
    return torch.nn.Sequential(convolution, torch.nn.BatchNorm2d(8), torch.nn.Flatten(), torch.nn.Linear(8 * 64, 2))


WORKLOAD = Workload(model=network, dataset="digits", mean=(120.0, 125.0, 130.0), std=(60.0, 61.0, 62.0), name="test")


def make(monkeypatch: pytest.MonkeyPatch, **changes: object) -> tuple[Engine, Ledger, list[int]]:
    """An engine, its ledger, and how often its device was waited for."""
    device = open_device("cpu", "torch", Assignment([], [], torch.get_num_threads()))
    waits, wait = [0], device.synchronize

    def counted() -> None:
        waits[0] += 1
        wait()

    monkeypatch.setattr(device, "synchronize", counted)
    ledger = Ledger()
    engine = open_engine("torch", EngineParts(Recipe(**(RECIPE | changes)), WORKLOAD, device, ledger, seed=3))
    engine.load(Data(pictures(), pictures(70, seed=1)))
    engine.build()
    waits[0] = 0
    return engine, ledger, waits


def test_every_moment_is_in_one_section_and_every_boundary_waits_first() -> None:
    order: list[str] = []
    ticks = count(0, 1_000_000_000)

    def clock() -> int:
        order.append("clock")
        return next(ticks)

    sections = StepSections(lambda: order.append("wait"), clock)
    sections.begin()
    for name in ("forward", "loss", "backward", "step", "loss", "data"):
        sections.enter(name)
    assert sections.end() == {"data": 2.0, "forward": 1.0, "loss": 2.0, "backward": 1.0, "step": 1.0}
    assert order == ["clock", *["wait", "clock"] * 7]
    sections.enter("loss")
    assert len(order) == 15, "outside of training nobody listens"
    sections.begin()
    assert sum(sections.end().values()) == 1.0, "each epoch has its own account"


def test_without_them_no_clock_is_read_and_nothing_is_told() -> None:
    whole = WholeSteps()
    whole.begin()
    whole.enter("forward")
    assert whole.end() == {}


@pytest.mark.parametrize("where", ["device", "host"])
def test_sections_add_up_to_the_training_of_the_epoch(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    engine, ledger, _ = make(monkeypatch, sections=True, input=where)
    for epoch in (1, 2):
        ledger.begin_epoch()
        found = engine.train_epoch(epoch).sections
        engine.evaluate()
        spent = ledger.epoch()
        assert tuple(found) == STEP_SECTIONS
        assert all(seconds > 0 for seconds in found.values())
        whole = spent["compile"] + spent["train"] + spent["input_wait"]
        assert sum(found.values()) == pytest.approx(whole, rel=0.01, abs=0.005)
        assert found["data"] >= spent["input_wait"]


def test_a_run_by_sections_learns_what_any_run_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, apart = (make(monkeypatch, sections=asked)[0] for asked in (False, True))
    for epoch in (1, 2):
        assert apart.train_epoch(epoch).metrics == whole.train_epoch(epoch).metrics
        assert apart.evaluate()[0] == whole.evaluate()[0]


def test_the_device_is_waited_for_between_sections_only_where_they_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits = {}
    for asked in (False, True):
        engine, _, counted = make(monkeypatch, sections=asked)
        for epoch in (1, 2):
            counted[0] = 0
            engine.train_epoch(epoch)
            waits[asked, epoch] = counted[0]
    assert waits[False, 2] == 2, "at the edges of the epoch"
    assert [waits[True, epoch] - waits[False, epoch] for epoch in (1, 2)] == [6 * STEPS + 1] * 2


def test_a_slow_model_is_slow_in_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sleep is real: 0.05 s in each of six forward passes, and nowhere else."""
    import time

    engine, _, _ = make(monkeypatch, sections=True)
    call = engine._call

    def slow(inputs: torch.Tensor) -> torch.Tensor:
        time.sleep(0.05)
        return call(inputs)

    monkeypatch.setattr(engine, "_call", slow)
    found = engine.train_epoch(1).sections
    assert found["forward"] >= 0.05 * STEPS
