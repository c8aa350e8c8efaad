"""Reports of workloads whose metrics are their own."""

import pytest

from raybench.config import load_grid
from raybench.core.options import GridOptions
from raybench.execution.inline import InlineExecutor
from raybench.run import run_grid

FILE = """
import numpy as np
import torch
from raybench import Data, Split, Workload

def data(root):
    inputs = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
    split = Split(inputs, (inputs[:, 0] > 0).astype(int))
    return Data(split, split)

def right(outputs, targets):
    return (outputs.argmax(-1) == targets).float()

def model():
    return torch.nn.Linear(4, 2)

percent = Workload(model=model, data=data, metrics=lambda outputs, targets: {"accuracy": 100 * right(outputs, targets)})
auc = Workload(model=model, data=data, metrics=lambda outputs, targets: {"auc": right(outputs, targets)})
"""


@pytest.fixture
def report(tmp_path):
    """Runs a workload of the file with a target and returns its report."""
    (tmp_path / "mine.py").write_text(FILE)

    def of(workload, target):
        (tmp_path / "grid.yaml").write_text(
            f"name: {workload}\nworkload: mine.py:{workload}\nepochs: 2\nthreads: 1\ntarget: {target}\n"
            "baseline: {batch_size: 16}\naxes: {batch_size: [16, 32]}\nrepeats: 2\n"
        )
        options = GridOptions(results=tmp_path / "results", tracking=None, checks=False)
        return run_grid(load_grid(tmp_path / "grid.yaml"), InlineExecutor(), options=options).report

    return of


@pytest.mark.slow
@pytest.mark.parametrize("bound", [90, 0.9])
def test_accuracy_in_percent_is_shown_as_a_fraction(report, bound):
    found = report("percent", f"{{metric: val/accuracy, at_least: {bound}}}")
    assert all(0.2 < row.quality.value <= 1 for row in found.answer.configurations)
    assert found.answer.target.at_least == 0.9


@pytest.mark.slow
def test_a_metric_of_another_name_stands_for_quality(report):
    found = report("auc", "{metric: val/auc, at_least: 0.1}")
    assert found.answer.metric == "val/auc"
    assert all(0.2 < row.quality.value <= 1 for row in found.answer.configurations)
