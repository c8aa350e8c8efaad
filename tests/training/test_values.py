"""Sizes of batches, and copies of numbers."""

from collections import UserDict

import numpy as np
import pytest
import torch

from raybench.training.values import copy_of, examples_in, number_of

INPUTS, TARGETS = np.zeros((6, 3)), np.zeros(6)


@pytest.mark.parametrize(
    "batch",
    [
        INPUTS,
        (INPUTS, TARGETS),
        [torch.zeros(6, 2), torch.zeros(6)],
        {"image": INPUTS, "label": TARGETS, "path": "a.png", "scale": 3},
        UserDict(tokens=INPUTS, nested={"mask": TARGETS, "temperature": np.float32(1)}),
    ],
)
def test_batch_size_is_the_common_first_dimension(batch):
    assert examples_in(batch, None)[0] == 6
    assert examples_in(batch, examples_in(batch, None)[1])[0] == 6


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ((INPUTS, TARGETS[:5]), r"\(tuple\) has arrays that begin with 5 and 6; .*examples=lambda batch"),
        (["a", "b"], r"\(list\) has no array; .*examples="),
        (object(), r"\(object\) has no array"),
    ],
)
def test_uncountable_batch_asks_for_the_number(batch, message):
    with pytest.raises(ValueError, match=message):
        examples_in(batch, None)


def test_a_copy_is_not_changed_by_later_steps():
    total, array = torch.tensor(1.0), np.array(2.0)
    copies = [copy_of(total), copy_of(array), copy_of(3), copy_of(np.float32(4)), copy_of(torch.tensor([5.0]))]
    total += 10
    array += 10
    assert [number_of(copy) for copy in copies] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("value", ["0.5", None, [0.5], np.zeros(2), torch.zeros(3)])
def test_what_is_no_number_is_refused(value):
    with pytest.raises(TypeError, match=f"not a {type(value).__name__}"):
        copy_of(value)
