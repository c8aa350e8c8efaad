"""A workload file whose functions return something else than they should."""

import numpy as np
import pytest

from raybench import Data, Split
from raybench.config import load_grid
from raybench.execution.inline import InlineExecutor
from raybench.run import Options, run_grid

FILE = """
import numpy as np
import torch
from raybench import Data, Split, Workload

inputs = np.random.default_rng(0).normal(size=(32, 4)).astype(np.float32)
targets = (inputs[:, 0] > 0).astype(int)
split = Split(inputs, targets)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.tensor(inputs), torch.tensor(targets)))

def model():
    return torch.nn.Linear(4, 2)

def fine(root):
    return Data(split, split)

def loaders(root):
    return Data(train=loader, val=loader)

def two(root):
    return split, split

def inside(root):
    return Data(Split(loader, loader), split)

def lists(root):
    given = Split(inputs.tolist(), targets.tolist())
    return Data(given, Split(torch.tensor(inputs), torch.tensor(targets)))

workload = Workload(model={MODEL}, data={DATA})
"""


def run(folder, model="model", data="fine"):
    (folder / "mine.py").write_text(FILE.replace("{MODEL}", model).replace("{DATA}", data))
    (folder / "grid.yaml").write_text("name: mine\nworkload: mine.py:workload\nepochs: 1\nbatch_size: 16\n")
    options = Options(folder / "results", tracking=None, checks=False, report=False)
    (attempt,) = run_grid(load_grid(folder / "grid.yaml"), InlineExecutor(), options=options).latest.values()
    return attempt


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"data": "loaders"}, "Data(train=…) needs a raybench.Split of inputs and targets, not a torch DataLoader"),
        (
            {"data": "two"},
            "the workload's function data returns a tuple, not a raybench.Data: "
            "return Data(train=Split(inputs, targets), val=Split(inputs, targets))",
        ),
        (
            {"data": "inside"},
            "Split(inputs=…) needs an array with the examples along its first axis, not a torch DataLoader",
        ),
        ({"model": "int"}, "the workload's model function returns a int, not a torch.nn.Module"),
    ],
    ids=["loaders", "tuple", "loader in a split", "model"],
)
def test_wrong_type_is_named(tmp_path, given, message):
    attempt = run(tmp_path, **given)
    assert (attempt.status, attempt.error["message"]) == ("failed", message)


def test_lists_and_tensors_are_arrays(tmp_path):
    assert run(tmp_path, data="lists").status == "completed"


@pytest.mark.parametrize("wrong", [["a", "b"], [[1, 2], [3]], [None, 1], np.array(3.0)])
def test_split_needs_arrays_of_numbers(wrong):
    with pytest.raises(TypeError, match=r"Split\(inputs=…\)"):
        Split(wrong, [0, 1])
    with pytest.raises(TypeError, match=r"Data\(val=…\)"):
        Data(Split([1.0], [0]), wrong)
