"""A language model on the source code of Python: its data, its loss, the tokens that it counts."""

from pathlib import Path

import numpy as np
import pytest
import torch
from support.declared import Training

from raybench import datasets, workloads
from raybench.datasets import python_code
from raybench.datasets.splits import Data
from raybench.devices import Assignment, open_device
from raybench.errors import DataError

SMALL = {"layers": 2, "width": 64, "heads": 2, "context": 64}


@pytest.fixture(scope="module")
def data():
    return datasets.get("python-code").load(Path())


def test_examples_are_the_code_and_its_next_byte(data):
    code = python_code.source_code()
    assert bytes(data.train.inputs[1, :50]) == code[256:306]
    assert bytes(data.train.targets[1, -50:]) == code[256 + 4096 + 1 - 50 : 256 + 4096 + 1]
    assert {name: len(split) for name, split in vars(data).items()} == datasets.get("python-code").examples
    assert bytes(data.val.targets[-1, -10:]) == code[-10:]
    distance = data.val.inputs.ctypes.data - data.train.targets[-1].ctypes.data
    assert distance >= 4096, "no example to validate on overlaps one to train on"


def test_short_texts_are_refused(monkeypatch):
    with pytest.raises(DataError, match="5,000 tokens are too few"):
        python_code.windows(np.zeros(5000, np.uint8))
    monkeypatch.setattr(python_code, "source_code", lambda: b"import this")
    with pytest.raises(DataError, match=r"Python 3\S+ has 11 of"):
        python_code.read(Path())


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"context": 5000}, "model.context: 5000 is not from 1 to 4096"),
        ({"vocabulary": 100}, "model.vocabulary: 100 is not above 2.., the highest token"),
        ({"heads": 5}, "model.width: 384 is not a multiple of the 5 heads"),
    ],
)
def test_impossible_sizes_are_refused(options, problem, data):
    workload = workloads.get("gpt").with_options(options)
    with pytest.raises(ValueError, match=problem):
        workload.prepare_data(data)
        workload.build_model("torch")


def test_loss_falls_below_that_of_frequencies_and_tokens_are_counted(data):
    """Bytes of equal frequency have a loss of 5.55, of their own frequency 3.3."""
    workload = workloads.get("gpt").with_options(SMALL)
    prepared = workload.prepare_data(data)
    part = Data(prepared.train.first(640), prepared.val.first(64))
    device = open_device("cpu", "torch", Assignment([], [], torch.get_num_threads()))
    settings = workload.defaults | {"batch_size": 8, "epochs": 2, "decay": "decoupled"}
    first, last = Training("torch", workload, part, device, **settings).epochs()
    assert first["units"] == {"tokens": 640 * 64}
    assert last["metrics"].keys() == {"train/loss", "val/loss"}
    assert last["metrics"]["val/loss"] < 3.0


def test_tokens_see_those_before_them_only():
    model = workloads.get("gpt").with_options(SMALL).build_model("torch").eval()
    tokens = torch.randint(0, 256, (2, 64))
    changed = tokens.clone()
    changed[:, 20:] = 0
    before, after = model(tokens), model(changed)
    torch.testing.assert_close(before[:, :20], after[:, :20])
    assert (before[:, 20:] - after[:, 20:]).abs().max() > 1e-3
