"""Scenes streamed by TensorFlow's input, told from inside a TensorFlow process."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from raybench.core.ledger import Ledger
from raybench.datasets import synthetic_scenes
from raybench.engines.batch_order import EpochPlan
from raybench.engines.tensorflow.inputs import HostInput


def streamed(index: list[list[int]]) -> bool:
    """Whether an epoch in calls of two steps brings the scenes of an index, of a million."""
    data = synthetic_scenes.read(Path("/nowhere"))
    taken = HostInput(data.train.first(1_000_000), data.val.first(50), None, Ledger())
    order = EpochPlan(np.array(index), None, None, None, None, None)
    fed = [step for call in taken.calls(order, 2) for step in zip(*(part.numpy() for part in call), strict=True)]
    wanted = [synthetic_scenes.render(np.array(row, np.uint64)) for row in index]
    pairs = zip(fed, wanted, strict=False)  # the last call is filled up with its last step
    return all(np.array_equal(*pair) for got, want in pairs for pair in zip(got, want, strict=True))
