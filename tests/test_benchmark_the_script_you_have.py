"""The how-to page for one's own script: its script and its grid do what it says."""

import re
import subprocess
import sys

import pytest
from support import ROOT

from raybench.config import load_grid
from raybench.config.command import Command
from raybench.execution.inline import InlineExecutor
from raybench.run import Options, run_grid
from raybench.training.trial import Trial
from raybench.workloads.static_command import SPECIAL

PAGE = (ROOT / "docs" / "how_to" / "benchmark_the_script_you_have.md").read_text()


@pytest.fixture
def project(tmp_path):
    for language, name in (("python", "my.py"), ("yaml", "grid.yaml")):
        (tmp_path / name).write_text(re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL).group(1))
    return tmp_path


@pytest.mark.slow
def test_the_script_runs_by_itself(project):
    done = subprocess.run([sys.executable, "my.py"], cwd=project, capture_output=True, text=True, check=True)
    assert [line.split("  ")[0] for line in done.stdout.splitlines()] == ["epoch 1", "epoch 2"]


@pytest.mark.slow
def test_the_grid_runs(project):
    options = Options(project / "results", tracking=None, checks=False, report=False)
    outcome = run_grid(load_grid(project / "grid.yaml"), InlineExecutor(), options=options)
    attempts = outcome.latest.values()
    assert {attempt.status for attempt in attempts} == {"completed"}
    assert len(attempts) == 8
    assert all(attempt.metric("val/accuracy") > 0.7 for attempt in attempts)
    codes = {finding.code for findings in outcome.report.results.findings.values() for finding in findings}
    assert not codes & {"no_effect", "seed_unused", "other_batch_size", "optimizer_unchanged"}


def test_a_scheduler_knows_the_length_of_the_training(tmp_path):
    (tmp_path / "my.py").write_text(
        "def train(trial, *, batch_size: int, epochs: int):\n"
        "    batches = trial.steps([0] * 5, examples=batch_size)\n"
        "    for epoch in trial.epochs():\n"
        "        list(batches)\n"
        "        trial.log({'train/steps': epochs * len(batches), 'train/epochs': epoch + 1})\n"
    )
    (tmp_path / "grid.yaml").write_text(
        "name: g\nworkload: my.py:train\nbatch_size: 8\nepochs: 3\nsteps_per_epoch: 4\n"
    )
    options = Options(tmp_path / "results", tracking=None, checks=False, report=False)
    (attempt,) = run_grid(load_grid(tmp_path / "grid.yaml"), InlineExecutor(), options=options).latest.values()
    assert attempt.status == "completed", attempt.error
    assert (attempt.metric("train/steps"), attempt.metric("train/epochs")) == (12, 3)


def test_every_method_is_on_the_page():
    public = [name for name in vars(Trial) if not name.startswith("_")]
    users = {"epochs", "steps", "evaluation", "section", "log", "count", "checkpoint", "device", "output_dir"}
    assert users <= set(public)
    assert [name for name in users if f"trial.{name}" not in PAGE] == []


SCRIPT = """
import argparse
parser = argparse.ArgumentParser()
for name, kind in (("lr", float), ("hidden", int), ("epochs", int)):
    parser.add_argument(f"--{name}", type=kind)
options = parser.parse_args()
for epoch in range(options.epochs):
    print(f"epoch {epoch + 1} loss={options.lr / (epoch + 1)} acc={options.hidden / 1000}")
"""


def test_the_command_runs(tmp_path):
    grids = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "grid.yaml").write_text(grids[1])
    (tmp_path / "train.py").write_text(SCRIPT)
    options = Options(tmp_path / "results", tracking=None, checks=False, report=False)
    spec = load_grid(tmp_path / "grid.yaml")
    outcome = run_grid(spec, InlineExecutor(), options=options)
    assert {attempt.status for attempt in outcome.latest.values()} == {"completed"}
    results = {(each.cell.settings.learning_rate, each.cell.params["hidden"]): each for each in outcome.latest.values()}
    assert results[0.1, 256].metric("val/accuracy") == 0.256
    assert results[0.05, 64].metric("train/loss") == 0.0125
    assert all(len(attempt.epochs) == 4 for attempt in results.values())
    smoke = run_grid(spec.as_smoke(), InlineExecutor(), options=options)
    assert {len(attempt.epochs) for attempt in smoke.latest.values()} == {1}


def test_every_name_in_braces_is_on_the_page():
    assert [name for name in SPECIAL if f"`{{{name}}}`" not in PAGE] == []
    assert [name for name in Command.model_fields if name not in PAGE] == []
