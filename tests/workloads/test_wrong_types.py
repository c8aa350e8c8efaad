"""A workload file whose functions return something else than they should."""

import pytest
from support.project import run_trials

FILE = """
import numpy as np
from raybench import Data, Split, Workload

inputs = np.random.default_rng(0).normal(size=(32, 4)).astype(np.float32)
targets = (inputs[:, 0] > 0).astype(int)
split = Split(inputs, targets)

def loader():
    import torch  # not when the file is imported, which takes seconds
    from torch.utils.data import DataLoader, TensorDataset
    return DataLoader(TensorDataset(torch.tensor(inputs), torch.tensor(targets)))

def model():
    from torch import nn
    return nn.Linear(4, 2)

def fine(root):
    return Data(split, split)

def loaders(root):
    return Data(train=loader(), val=loader())

def two(root):
    return split, split

def inside(root):
    return Data(Split(loader(), loader()), split)

def lists(root):
    import torch
    return Data(Split(inputs.tolist(), targets.tolist()), Split(torch.tensor(inputs), torch.tensor(targets)))

loader_splits = Workload(model=model, data=loaders)
no_data = Workload(model=model, data=two)
loader_inputs = Workload(model=model, data=inside)
no_module = Workload(model=int, data=fine)
lists_and_tensors = Workload(model=model, data=lists)
"""


@pytest.fixture(scope="module")
def attempt_of(tmp_path_factory):
    """Runs a workload of the file, which is imported once for all."""
    folder = tmp_path_factory.mktemp("workloads")
    (folder / "mine.py").write_text(FILE)

    def run(workload):
        text = f"name: mine\nworkload: mine.py:{workload}\nepochs: 1\nbatch_size: 16\n"
        (attempt,) = run_trials(folder, text, results=folder / workload).latest.values()
        return attempt

    return run


@pytest.mark.parametrize(
    ("workload", "message"),
    [
        ("loader_splits", "Data(train=…) needs a raybench.Split of inputs and targets, not a torch DataLoader"),
        (
            "no_data",
            "the workload's function data returns a tuple, not a raybench.Data: "
            "return Data(train=Split(inputs, targets), val=Split(inputs, targets))",
        ),
        (
            "loader_inputs",
            "Split(inputs=…) needs an array with the examples along its first axis, not a torch DataLoader",
        ),
        ("no_module", "the workload's model function returns a int, not a torch.nn.Module"),
    ],
)
def test_wrong_type_is_named(attempt_of, workload, message):
    attempt = attempt_of(workload)
    assert (attempt.status, attempt.error["message"]) == ("failed", message)


def test_lists_and_tensors_are_arrays(attempt_of):
    assert attempt_of("lists_and_tensors").status == "completed"
