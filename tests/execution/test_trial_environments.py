"""Each trial in the interpreter that its profile names, on one grid: this one and another."""

import json
import subprocess
import sys

import pytest
from support.frameworks import interpreter
from support.outcomes import run_counts, skips

from raybench.config import load_grid
from raybench.errors import ExecutionError
from raybench.execution.inline import InlineExecutor
from raybench.execution.process import ForkServer
from raybench.planning.node import probe_node
from raybench.planning.placement import ResourceRequest, find_placement
from raybench.run import Options, run_grid

WORKLOAD = """
import json, os, sys

import numpy as np
import torch

from raybench import Data, Split, Workload


def data(root):
    split = Split(np.linspace(-1, 1, 32, dtype=np.float32)[:, None], np.arange(32) % 2)
    return Data(split, split)


def model():
    found = {name: os.environ.get(name) for name in ("PYTHONPATH", "VIRTUAL_ENV")}
    print(json.dumps({"prefix": sys.prefix, "template": os.getppid(), "path": sys.path, **found}), flush=True)
    return torch.nn.Linear(1, 2)


looking = Workload(model=model, data=data)
"""

GRID = """
name: environments
workload: looking.py:looking
epochs: 1
batch_size: 16
repeats: 2
axes:
  device: [here, other, nowhere]
devices:
  here: {kind: cpu, threads: 1}
  other: {kind: cpu, threads: 2, environment: ./other}
  nowhere: {kind: cpu, environment: ./nowhere}
"""

TRIALS_ALONE = {"checks": False, "tracking": None, "report": False}


def make_other(folder):
    """An interpreter of its own, which finds this one's packages (torch is too large to install twice)."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    site = next((folder / "lib").glob("python3*/site-packages"))
    (site / "here.pth").write_text("".join(f"{path}\n" for path in sys.path if path.endswith("site-packages")))
    return folder


@pytest.fixture(scope="module")
def outcome(tmp_path_factory, ray_executor):
    folder = tmp_path_factory.mktemp("environments")
    make_other(folder / "other")
    (folder / "looking.py").write_text(WORKLOAD)
    (folder / "grid.yaml").write_text(GRID)
    return run_grid(load_grid(folder / "grid.yaml"), ray_executor, options=Options(folder / "results", **TRIALS_ALONE))


def seen(outcome):
    """What the trials of each profile saw, in the order of their repeats."""
    found = {}
    for trial in outcome.plan.trials:
        if trial.cell.fit:
            (output,) = (outcome.folder / "attempts" / trial.trial_id).glob("*/output.log")
            found.setdefault(trial.cell.profile, []).append(json.loads(output.read_text()))
    return found


@pytest.mark.slow
def test_every_trial_ran_where_its_profile_says(outcome):
    assert run_counts(outcome)[:2] == [(2, 2)] * 2
    grid = outcome.plan.spec.source_path.parent
    prefixes = {profile: {trial["prefix"] for trial in trials} for profile, trials in seen(outcome).items()}
    assert prefixes == {"here": {sys.prefix}, "other": {str(grid / "other")}}


@pytest.mark.slow
def test_what_cannot_be_had_is_skipped_with_its_reason(outcome):
    grid = outcome.plan.spec.source_path.parent
    said = skips(outcome)[2]
    assert said.startswith(f"{grid}/nowhere on ")
    assert said.endswith(": no such file")
    assert outcome.exit_status == 0, "the others could run"


@pytest.mark.slow
def test_nothing_of_the_driver_leaks_into_another_interpreter(outcome):
    for trial in seen(outcome)["other"]:
        assert trial["VIRTUAL_ENV"] is None
        assert trial["PYTHONPATH"] in trial["path"]
        assert "" not in trial["path"]


@pytest.mark.slow
def test_one_template_for_each_environment_however_they_take_turns(outcome):
    templates = {profile: {trial["template"] for trial in trials} for profile, trials in seen(outcome).items()}
    assert [len(pids) for pids in templates.values()] == [1, 1]
    assert len(set.union(*templates.values())) == 2


@pytest.mark.slow
def test_a_template_that_cannot_load_its_framework_names_its_python(tmp_path):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    with pytest.raises(ExecutionError, match="No module named 'torch'") as caught:
        ForkServer("torch", str(tmp_path / "bare" / "bin" / "python"))
    assert str(caught.value).startswith(f"torch: {tmp_path}/bare/bin/python could not load it")


@pytest.mark.slow
@pytest.mark.xla
def test_the_xla_environment_has_what_a_trial_needs():
    python = interpreter("torch_xla")
    assert (
        find_placement(
            ResourceRequest("xla_cpu", "torch_xla", "fp32", environment="xla"), [probe_node("", ["xla"])]
        ).environment
        == "xla"
    )
    template = ForkServer("torch_xla", python)
    assert template.alive
    template.close()


def test_trials_in_this_process_have_no_other_environment(tmp_path):
    (tmp_path / "looking.py").write_text(WORKLOAD)
    (tmp_path / "grid.yaml").write_text(GRID.replace("here, other, nowhere", "other"))
    options = Options(tmp_path / "r", **TRIALS_ALONE)
    result = run_grid(load_grid(tmp_path / "grid.yaml"), InlineExecutor(), options=options)
    assert skips(result)[0] == f"--inline cannot use {tmp_path}/other"
    assert result.exit_status == 3
