"""The sections of a training step: every moment in one of them, synchronised, and only in a profile."""

from __future__ import annotations

import time
from itertools import count
from typing import cast

import pytest
import torch
from support.small_training import RECIPE, pictures

from raybench.core.job import Recipe
from raybench.core.ledger import STEP_SECTIONS, Ledger
from raybench.datasets.splits import Data
from raybench.devices import Assignment, open_device
from raybench.engines import EngineParts, open_engine
from raybench.engines.step_profiler import StepSections
from raybench.engines.torch.engine import TorchEngine
from raybench.workloads.base import Workload


def network() -> torch.nn.Module:
    """Small, with statistics of its own."""
    convolution = torch.nn.Conv2d(3, 8, 3, padding=1)
    return torch.nn.Sequential(convolution, torch.nn.BatchNorm2d(8), torch.nn.Flatten(), torch.nn.Linear(8 * 64, 2))


WORKLOAD = Workload(model=network, dataset="digits", mean=(120.0, 125.0, 130.0), std=(60.0, 61.0, 62.0), name="test")


def make(monkeypatch: pytest.MonkeyPatch, **changes: object) -> tuple[TorchEngine, list[int]]:
    """An engine, and how often its device was waited for."""
    device = open_device("cpu", "torch", Assignment([], [], torch.get_num_threads()))
    waits, wait = [0], device.synchronize

    def counted() -> None:
        waits[0] += 1
        wait()

    monkeypatch.setattr(device, "synchronize", counted)
    engine = open_engine("torch", EngineParts(Recipe(**(RECIPE | changes)), WORKLOAD, device, Ledger(), seed=3))
    engine.load(Data(pictures(), pictures(70, seed=1)))
    engine.build()
    waits[0] = 0
    return cast(TorchEngine, engine), waits


def test_every_moment_is_in_one_section_and_every_boundary_waits_first() -> None:
    order: list[str] = []
    ticks = (number**2 * 1_000_000_000 for number in count())

    def clock() -> int:
        order.append("clock")
        return next(ticks)

    sections = StepSections(lambda: order.append("wait"), clock)
    sections.begin()
    for _ in range(3):
        for name in ("forward", "loss", "backward", "optimizer", "loss", "input"):
            sections.enter(name)
    assert order == ["wait", "clock"] * 19
    # The n-th interval takes 2n + 1 s, and the second of three steps has the intervals 6 to 11.
    assert sections.medians() == {
        "input": 13.0,
        "forward": 15.0,
        "loss": 17.0 + 23.0,
        "backward": 19.0,
        "optimizer": 21.0,
    }


@pytest.mark.parametrize("where", ["device", "host"])
def test_sections_take_time_and_together_no_more_than_a_step(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    engine, _ = make(monkeypatch, input=where)
    engine.train_epoch(1)
    begun = time.perf_counter()
    found = engine.profile(20)
    each = (time.perf_counter() - begun) / 20
    assert tuple(found) == STEP_SECTIONS and all(seconds > 0 for seconds in found.values())
    assert sum(found.values()) < 2 * each, "a median is at most twice the mean"


def test_the_device_is_waited_for_between_sections_in_a_profile_only(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, waits = make(monkeypatch)
    engine.train_epoch(1)
    for work, expected in ((lambda: engine.train_epoch(2), 2), (lambda: engine.profile(9), 1 + 6 * 9)):
        waits[0] = 0
        work()
        assert waits[0] == expected


def test_a_slow_model_is_slow_in_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    """The forward pass sleeps 0.05 s, and nothing else does."""
    engine, _ = make(monkeypatch)
    call = engine._call

    def slow(inputs: torch.Tensor) -> torch.Tensor:
        time.sleep(0.05)
        return cast(torch.Tensor, call(inputs))

    monkeypatch.setattr(engine, "_call", slow)
    found = engine.profile(5)
    assert found["forward"] >= 0.05
