"""A loop outside of raybench."""

import os
import re
import subprocess
import sys

import pytest

import raybench
from raybench.training.local import program_device

SCRIPT = """
import numpy as np
import pytest

import raybench
from raybench.training.local import program_device


def train(trial, *, batch_size):
    weights = np.zeros(3)
    for epoch in trial.epochs(5):
        for (inputs,) in trial.steps([(np.ones((batch_size, 3)),)] * 4):
            weights += inputs.mean(0)
        with trial.evaluation():
            accuracy = weights.sum() / 100
        trial.log({"val/accuracy": accuracy})
    trial.log({"test/accuracy": 0.5})
    print("told:", trial.device, trial.seed, trial.rank, trial.world_size)


train(raybench.current_trial(epochs=2), batch_size=8)
"""


def run(tmp_path, **environment):
    (tmp_path / "mine.py").write_text(SCRIPT)
    return subprocess.run(
        [sys.executable, "mine.py"],
        cwd=tmp_path,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )


def test_plain_loop_prints_a_line_per_epoch(tmp_path):
    done = run(tmp_path)
    first, second, later, told = done.stdout.splitlines()
    assert re.fullmatch(r"epoch 1  train [\d.e-]+ s.*  [\d,]+ examples/s  val/accuracy 0.12", first)
    assert re.fullmatch(r"epoch 2  .*val/accuracy 0.24", second)
    assert later == "test/accuracy 0.5"
    assert told == "told: cpu 0 0 1"
    assert done.stderr == ""


def test_helper_reports_to_the_open_trial(capsys):
    def helper():
        raybench.current_trial().log({"val/accuracy": 0.5})

    trial = raybench.current_trial(epochs=1)
    assert raybench.current_trial() is not trial, "its training has not begun"
    for _ in trial.epochs(3):
        assert raybench.current_trial() is trial
        assert raybench.current_trial(epochs=2) is not trial, "another training"
        helper()
    assert raybench.current_trial() is not trial, "another training"
    assert "val/accuracy 0.5" in capsys.readouterr().out


def test_a_new_trial_after_an_error(monkeypatch):
    trial = raybench.current_trial(epochs=2)
    epochs = trial.epochs()
    next(epochs)  # the traceback of an error refers to the iterator, in a notebook
    monkeypatch.setattr(sys, "last_value", ValueError(), raising=False)
    assert raybench.current_trial() is not trial


@pytest.mark.parametrize(
    ("framework", "kind", "computes_on", "devices"),
    [("torch", "cuda", "cuda", 2), ("torch", "cpu", "cpu", 1), ("jax", "unknown", "cpu", 1)],
)
def test_a_program_has_all_of_its_accelerators(framework, kind, computes_on, devices):
    device = program_device(framework, kind, devices=2)
    assert (device.kind, device.assignment.devices) == (computes_on, devices)
