"""One training step of a shipped workload by its engine, told from inside a process that has its framework."""

from __future__ import annotations

import os
from typing import Any

# Programs that are compiled several times as fast and compute the same: read when the first device is asked for.
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_backend_optimization_level=0"

import numpy as np
from support import weights
from support.declared import Training, part
from support.published import MODELS

from raybench import workloads
from raybench.datasets.splits import Data, Split
from raybench.devices import Assignment, frameworks, open_device

BATCH = 4
RECIPE = {"epochs": 1, "batch_size": BATCH, "learning_rate": 1e-3, "steps_per_epoch": 1}


def examples(name: str, side: int | None, length: int | None) -> Split:
    """A batch as the workload's data set has it after its `prepare`; of texts their first `length` words."""
    known = MODELS[name]
    inputs, targets = known.inputs(BATCH)[:, :length], known.targets(BATCH)
    images = np.clip(128 + 40 * inputs, 0, 255).astype(np.uint8) if not known.words else inputs
    return Split(images[:, :side, :side], targets[:, :, :side, :side]) if side else Split(images, targets)


def step(name: str, kind: str, length: int | None = None, **options: Any) -> dict[str, Any]:
    """Train one step without dropout, and evaluate.

    Returns:
        `trained`, how many values are; the losses before and after the step; the number of `graphs` of training and
        evaluation; and `moved`, for each trained array the norm of what the step did to it.
    """
    (framework,) = [found for found in frameworks(kind) if found.startswith("torch")]
    device = open_device(kind, framework, Assignment([], [], 2))
    device.hide_others()
    device.open("fp32")
    workload = workloads.get(name).with_options(options)
    split = examples(name, options.get("side"), length)
    training = Training(framework, workload, Data(split, split), device, seed=0, **RECIPE)
    weights.without_dropout(training.model)
    before = weights.read(training.model)
    (epoch,) = training.epochs()
    after = weights.read(training.model)
    return {
        "trained": sum(array.size for array in training.engine.weights()),
        "losses": [part(epoch["metrics"], split)["loss"] for split in ("train", "val")],
        "graphs": epoch.get("recompiles"),
        "moved": {key: float(np.linalg.norm(after[key] - before[key])) for key in before if "running" not in key},
    }
