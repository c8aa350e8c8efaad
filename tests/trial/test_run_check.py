"""A check is a folder: the function `measure` of its module `measure`."""

import sys
from importlib import import_module
from pathlib import Path

import pytest

from raybench import checks
from raybench.core.cell import Cell
from raybench.core.job import Job
from raybench.trial.run_check import check

MEASURED = sorted(path.parent.name for path in Path(checks.__path__[0]).glob("*/measure.py"))


def job(name):
    return Job("echo-1", 1, 0, 0, Cell(framework="torch"), {"file": None}, "", "", check=name, labels={"subject": "a"})


@pytest.mark.parametrize("name", MEASURED)
def test_every_check_is_called_as_its_folder(name):
    module = import_module(f"raybench.checks.{name}.measure")
    assert callable(module.measure)
    assert getattr(module, "NAME", name) == name


def test_a_new_check_is_one_folder(tmp_path, monkeypatch):
    (tmp_path / "echo").mkdir()
    (tmp_path / "echo" / "measure.py").write_text("def measure(job):\n    return {'echo': job.cell.framework}\n")
    monkeypatch.setattr(checks, "__path__", [*checks.__path__, str(tmp_path)])
    try:
        (event,) = check(job("echo"))
    finally:
        for name in [name for name in sys.modules if name.startswith("raybench.checks.echo")]:
            del sys.modules[name]
    assert (event["event"], event["check"], event["trial"]) == ("check_ended", "echo", "echo-1")
    assert (event["echo"], event["subject"], event["error"]) == ("torch", "a", None)


def test_an_unknown_check_ends_with_its_name():
    (event,) = check(job("nonsense"))
    assert event["error"]["type"] == "ModuleNotFoundError"
    assert "raybench.checks.nonsense" in event["error"]["message"]
