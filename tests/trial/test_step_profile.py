"""The step profile: it follows the trial's result, changes nothing of it, and cannot lose it."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from support import WORKLOADS
from support.cells import make_cell

from raybench.core.job import Job
from raybench.core.ledger import STEP_SECTIONS
from raybench.core.settings import DEFAULTS
from raybench.devices.host import model_name, usable_cores
from raybench.engines.torch.engine import TorchEngine
from raybench.execution.process import ForkServer
from raybench.trial.phase import PROFILE, last
from raybench.trial.run import run
from raybench.trial.step_profile import END
from raybench.workloads import read_reference

HERE = WORKLOADS
MEASURED = ("metrics", "recompiles", "steps", "examples")


def make_job(folder: Path, attribute: str, steps: int, timeout: float = 300, **settings: Any) -> Job:
    info = read_reference(f"profiled.py:{attribute}", HERE)
    cores = usable_cores()[:1]
    cell = make_cell(
        workload=info.identity(),
        data={"name": info.name, "digest": None, "examples": {"train": None, "val": None}},
        device={"kind": "cpu", "model": model_name(), "count": 1, "replicas": 1, "threads": 1},
        engine={"name": "torch", "version": 1, "framework_version": metadata.version("torch")[:4]},
        resolved={**DEFAULTS, "framework": "torch", "epochs": 2, "batch_size": 16, **settings},
    )
    own = str(folder / "attempt")
    limits = {"timeout": timeout, "profile_steps": steps}
    return Job("t-r0", 1, 0, 0, cell, info.to_json(), str(folder), own, cores, **limits)


def epochs(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the epochs came to, without times."""
    return [{name: event[name] for name in MEASURED} for event in events if event["event"] == "epoch_ended"]


@pytest.mark.parametrize("where", ["device", "host"])
def test_it_is_in_the_trials_end_and_changes_no_result(tmp_path: Path, where: str) -> None:
    plain, profiled = (list(run(make_job(tmp_path / str(n), "fine", n, input=where))) for n in (0, 5))
    assert "step_profile" not in plain[-1]
    profile = profiled[-1]["step_profile"]
    assert profile["steps"] == 5
    assert tuple(profile["seconds"]) == STEP_SECTIONS and all(seconds > 0 for seconds in profile["seconds"].values())
    assert [event["event"] for event in profiled] == [event["event"] for event in plain]
    assert epochs(profiled) == epochs(plain)
    assert profiled[-1]["status"] == "completed" and profiled[-1]["warnings"] == plain[-1]["warnings"]
    assert not list(tmp_path.rglob(END))


def test_its_time_is_in_no_section_and_not_in_the_wall_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    def slow(self: TorchEngine, steps: int) -> dict[str, float]:
        order.append(last(tmp_path / "attempt"))
        time.sleep(0.2)
        return {}

    monkeypatch.setattr(TorchEngine, "profile", slow)
    begun = time.perf_counter()
    *_, ended = run(make_job(tmp_path, "fine", 5))
    assert time.perf_counter() - begun > ended["wall"] + 0.2
    assert sum(ended["ledger"].values()) == pytest.approx(ended["wall"], abs=1e-5)
    assert order == [PROFILE]


def test_an_error_in_it_is_a_warning(tmp_path: Path) -> None:
    events = list(run(make_job(tmp_path, "raising", 5)))
    assert (events[-1]["status"], events[-1]["error"]) == ("completed", None)
    assert events[-1]["warnings"] == ["no step profile: ValueError: not once more"]
    assert "step_profile" not in events[-1] and len(epochs(events)) == 2


def test_a_full_disk_loses_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    steps = run(make_job(tmp_path, "fine", 5))
    for event in steps:
        if event["event"] == "epoch_ended" and event["epoch"] == 2:
            monkeypatch.setattr(Path, "write_text", full)
    assert event["status"] == "completed" and "No space left" in event["warnings"][-1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("attribute", "timeout", "reason"),
    [
        ("leaving", 300, "Exit: the process exited with status 7"),
        pytest.param("hanging", 8, "Timeout: took longer than its timeout of 8 s", marks=pytest.mark.exhaustive),
    ],
)
def test_a_process_that_dies_in_it_has_its_result(
    fork_server: Callable[[], ForkServer], tmp_path: Path, attribute: str, timeout: float, reason: str
) -> None:
    *events, ended = fork_server().run(make_job(tmp_path, attribute, 5, timeout))
    assert (ended["event"], ended["status"], ended["error"]) == ("trial_ended", "completed", None)
    assert ended["warnings"] == [f"no step profile: {reason}"]
    assert len(epochs(events)) == 2 and sum(ended["ledger"].values()) == pytest.approx(ended["wall"], abs=1e-5)
