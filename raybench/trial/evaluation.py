"""Evaluation in batches that fit into memory.

The batch size does not change the result, so too little memory in evaluation does not end the trial.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping

from raybench.core.ledger import NANO, Ledger
from raybench.core.rank import current_rank
from raybench.devices import Device
from raybench.engines import Engine

MIN_BATCH = 32
"""The smallest evaluation batch after halving.

If fewer examples fit, a training batch hardly does."""


def evaluate(engine: Engine, device: Device, ledger: Ledger, warnings: list[str]) -> tuple[Mapping[str, float], int]:
    """Evaluate; if memory runs out, restart with half the batch.

    The engine keeps the smaller batch, and each halving adds a warning. The time of a failed pass is not evaluation
    time and is charged to `other`. If several ranks train together, the batch is not halved: they evaluate in step, and
    one that restarted would wait for the others forever.

    Returns:
        Means over the validation set, and the number of new shapes in the pass that succeeded.
    """
    while True:
        batch, seconds_before = engine.evaluation_batch, ledger.epoch()["evaluate"]
        try:
            return engine.evaluate()
        except Exception as error:
            if batch <= MIN_BATCH or current_rank().count > 1 or not device.is_oom(error):
                raise
        # Only here, after the exception is gone, are the frames freed that hold the failed batch.
        gc.collect()
        ledger.move(round((ledger.epoch()["evaluate"] - seconds_before) / NANO), "evaluate", "other")
        engine.evaluation_batch = max(MIN_BATCH, batch // 2)
        warnings.append(f"evaluation batch halved to {engine.evaluation_batch}: {batch} did not fit")
