"""Each trial in the interpreter that its profile names, on one grid: this one and another."""

import json
import subprocess
import sys

import pytest
from support.outcomes import run_counts, skips
from support.project import run_trials

from raybench.errors import ExecutionError
from raybench.execution.process import ForkServer

WORKLOAD = """
import json, os, sys


def train(trial):
    found = {name: os.environ.get(name) for name in ("PYTHONPATH", "VIRTUAL_ENV")}
    print(json.dumps({"prefix": sys.prefix, "template": os.getppid(), "path": sys.path, **found}), flush=True)
    for _ in trial.epochs(1):
        pass
"""

GRID = """
name: environments
workload: looking.py:train
repeats: 2
axes:
  device: [here, other, nowhere]
devices:
  here: {kind: cpu, threads: 1}
  other: {kind: cpu, threads: 2, environment: ./other}
  nowhere: {kind: cpu, environment: ./nowhere}
"""


def run(folder, executor=None, text=GRID):
    (folder / "looking.py").write_text(WORKLOAD)
    return run_trials(folder, text, executor)


@pytest.mark.slow
def test_trials_run_where_their_profile_says(tmp_path, ray_executor):
    """The other interpreter finds this one's packages."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "other"], check=True)
    site = next((tmp_path / "other" / "lib").glob("python3*/site-packages"))
    (site / "here.pth").write_text("".join(f"{path}\n" for path in sys.path if path.endswith("site-packages")))
    outcome = run(tmp_path, ray_executor)
    assert run_counts(outcome)[:2] == [(2, 2)] * 2
    assert skips(outcome)[2].startswith(f"{tmp_path}/nowhere on ") and skips(outcome)[2].endswith(
        "cannot be run (No such file or directory)"
    )
    assert outcome.exit_status == 0, "the others could run"
    seen = {"here": [], "other": []}
    for trial in outcome.plan.trials:
        if trial.cell.fit:
            (output,) = (outcome.folder / "attempts" / trial.trial_id).glob("*/output.log")
            seen[trial.cell.profile].append(json.loads(output.read_text()))
    assert {trial["prefix"] for trial in seen["here"]} == {sys.prefix}
    assert {trial["prefix"] for trial in seen["other"]} == {str(tmp_path / "other")}
    assert [len({trial["template"] for trial in trials}) for trials in seen.values()] == [1, 1]
    for trial in seen["other"]:  # nothing of the driver's interpreter is there
        assert trial["VIRTUAL_ENV"] is None and trial["PYTHONPATH"] in trial["path"] and "" not in trial["path"]


@pytest.mark.slow
def test_framework_missing_in_an_environment(tmp_path):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    with pytest.raises(ExecutionError, match="No module named 'torch'") as caught:
        ForkServer("torch", str(tmp_path / "bare" / "bin" / "python"))
    assert str(caught.value).startswith(f"torch: {tmp_path}/bare/bin/python could not load it")


def test_inline_trials_have_no_other_environment(tmp_path):
    result = run(tmp_path, text=GRID.replace("here, other, nowhere", "other"))
    assert skips(result)[0] == f"--inline cannot use {tmp_path}/other"
    assert result.exit_status == 3
