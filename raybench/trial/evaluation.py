"""Evaluation in batches that fit: their size changes no result, so that too little memory there ends no trial."""

from __future__ import annotations

import gc
from collections.abc import Mapping

from raybench.core.ledger import NANO, Ledger
from raybench.core.rank import current_rank
from raybench.devices import Device
from raybench.engines import Engine

SMALLEST = 32
"""The evaluation batch that is not halved any more: where fewer examples are all that fits, hardly a batch to train on
does."""


def evaluate(engine: Engine, device: Device, ledger: Ledger, warnings: list[str]) -> tuple[Mapping[str, float], int]:
    """Evaluate; where memory runs out, from the start again with half the batch, which the engine keeps.

    Each halving is a warning. What a try that failed took is no evaluation's time, and is charged to `other`. Where
    several ranks train together none halves: they evaluate in step, and one that began again would wait for the others
    for ever.

    Returns:
        Means over the validation set, and the number of new shapes in the pass that succeeded.
    """
    while True:
        batch, seconds_before = engine.evaluation_batch, ledger.epoch()["evaluate"]
        try:
            return engine.evaluate()
        except Exception as error:
            if batch <= SMALLEST or current_rank().count > 1 or not device.is_oom(error):
                raise
        # Only here, with the exception gone, are the frames free that hold what did not fit.
        gc.collect()
        ledger.move(round((ledger.epoch()["evaluate"] - seconds_before) / NANO), "evaluate", "other")
        engine.evaluation_batch = max(SMALLEST, batch // 2)
        warnings.append(f"evaluation batch halved to {engine.evaluation_batch}: {batch} did not fit")
