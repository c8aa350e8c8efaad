"""The command in this process: exactly what the script does, without half a second for each."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from support import ROOT

from raybench.cli import main
from raybench.execution.inline import InlineExecutor


@dataclass
class Said:
    """How a command ended, and what it said where."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """What a person reads, without the space at the ends of lines."""
        return [line.rstrip() for line in (self.out + self.err).splitlines()]


@pytest.fixture(autouse=True)
def _own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working folder, a cache and a store of its own, whatever this machine's environment names."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("RAYBENCH_ENVIRONMENTS", str(tmp_path / "environments"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep))
    for name in ("RAYBENCH_DATA", "MLFLOW_TRACKING_URI", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


def pytest_runtest_setup() -> None:
    """Trials train on one core: several threads of several test processes only wait for each other."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
        os.sched_setaffinity(0, {cores[worker % len(cores)]})


@pytest.fixture
def raybench(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """Runs the command and tells how it ended; whatever else it raises is a traceback that a person would see."""

    def run(*arguments: object) -> Said:
        monkeypatch.setattr(sys, "argv", ["raybench", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return Said(int(ended.value.code or 0), out, err)

    return run


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trials run in this process, as with `--inline`, but as results of the grid itself."""
    monkeypatch.setattr("raybench.execution.base.make_executor", lambda *_, **__: InlineExecutor())


@pytest.fixture
def grid(raybench: Callable[..., Said], monkeypatch: pytest.MonkeyPatch, in_process: None) -> Callable[..., Said]:
    """Runs a grid in this process, without checks, MLflow and figures."""
    monkeypatch.setattr("raybench.reporting.figures.rendered_figures", lambda *_: {})

    def run(*arguments: object) -> Said:
        return raybench("grid", *arguments, "--no-checks", "--tracking", "none")

    return run


@pytest.fixture
def store(tmp_path: Path, migrated_database: Path) -> Path:
    """An empty MLflow store in the results folder."""
    path = tmp_path / "raybench-results" / "mlflow.db"
    path.parent.mkdir()
    return Path(shutil.copy(migrated_database, path))


@pytest.fixture(scope="session")
def digits_text() -> str:
    """A grid of two trials that take no time."""
    return (
        "name: digits\nworkload: digits_cnn\nepochs: 1\nsteps_per_epoch: 3\nexamples: {train: 256, val: 64}\n"
        "axes:\n  device: [cpu]\n  batch_size: [32, 64]\n"
    )


@pytest.fixture
def digits(tmp_path: Path, digits_text: str) -> Path:
    """Its file."""
    path = tmp_path / "digits.yaml"
    path.write_text(digits_text)
    return path
