"""A check runs in a trial's process and ends with one event, also after an error."""

from importlib import import_module

import pytest

from raybench.core.cell import Cell
from raybench.core.job import Job
from raybench.trial.run_check import MODULES, check


@pytest.mark.parametrize("name", MODULES)
def test_every_check_measures_by_its_name(name, monkeypatch):
    module = import_module(MODULES[name])
    monkeypatch.setattr(module, "measure", lambda job: {"echo": job.cell.framework})
    job = Job("echo-1", 1, 0, 0, Cell(framework="torch"), {"file": None}, "", "", check=name, labels={"subject": "a"})
    (event,) = check(job)
    assert (event["event"], event["check"], event["trial"]) == ("check_ended", name, "echo-1")
    assert (event["echo"], event["subject"], event["error"]) == ("torch", "a", None)
    monkeypatch.setattr(module, "measure", lambda job: 1 / 0)
    (event,) = check(job)
    assert event["error"]["type"] == "ZeroDivisionError" and "echo" not in event
