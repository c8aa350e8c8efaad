"""Examples that are made as they are read: batches are taken of them, and the whole is never made."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np
import pytest
from support.frameworks import call

from raybench.core.ledger import Ledger
from raybench.datasets import synthetic_scenes
from raybench.devices import Assignment, open_device
from raybench.devices.base import TorchDevice
from raybench.engines.batch_order import EpochPlan
from raybench.engines.torch.inputs import HostInput

INDEX = [[3, 7], [999_999, 1], [5, 6]]


def test_torch_streams_a_million_scenes() -> None:
    data = synthetic_scenes.read(Path("/nowhere"))
    device = cast(TorchDevice, open_device("cpu", "torch", Assignment([], [], 1)))
    taken = HostInput(data.train.first(1_000_000), data.val.first(5), None, device, Ledger())
    batches = list(taken.train(EpochPlan(np.array(INDEX), None, None, None, None, None)))
    for (inputs, targets), row in zip(batches, INDEX, strict=True):
        pictures, wanted = synthetic_scenes.render(np.array(row, np.uint64))
        assert np.array_equal(inputs.numpy(), pictures)
        assert np.array_equal(targets.numpy(), wanted)
    assert [counts for *_, counts in taken.evaluate(4)] == [4, 1]


@pytest.mark.slow
@pytest.mark.tensorflow
def test_tensorflow_streams_a_million_scenes() -> None:
    assert call("tensorflow", "scenes_side:streamed", index=INDEX)
