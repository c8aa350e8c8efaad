"""The weight-decay check: ten engine steps without a loss gradient.

With a constant loss of zero, only the decay changes the weights, through the optimiser's own momentum or moments. They
must follow the closed form of the cell's declared rule (`raybench.checks.weight_decay.closed_form`) at every step: the
first step alone, or the last one alone, would also fit a wrong rule with a wrong λ.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from raybench.checks.weight_decay.closed_form import judge
from raybench.core.cell import Cell
from raybench.core.identity import digest
from raybench.core.job import SUM_OVER_REPLICAS, Job, Recipe
from raybench.core.ledger import Ledger
from raybench.core.settings import TRAINING, WEIGHT_DECAY, affecting
from raybench.datasets.splits import Array, Data, Split
from raybench.engines import EngineParts, open_engine, open_inspection
from raybench.trial.run import open_assigned
from raybench.workloads.base import Workload

NAME = "weight_decay"
RULE = affecting(WEIGHT_DECAY)
"""The settings under test; all others have their defaults in the probe."""
VERSION = 1
"""Version of the check; raised when it can detect something new."""

RATE, DECAY, STEPS = 0.05, 0.02, 10
"""Learning rate, weight decay and steps of the probe.

Ten steps of SGD with momentum shrink a weight by about 4 %: clearly visible in float32, and without overshooting at 64
times λ."""

SMALLEST = 1e-16
"""Lower bound of Adam's epsilon in the choice of weights.

The square of a gradient of that size is still representable in float32."""

PROBE = Workload(
    model={
        "torch": "raybench.engines.torch.decay_probe:build",
        "tensorflow": "raybench.engines.tensorflow.decay_probe:build",
    },
    data=lambda root: _data(1),
    loss=lambda outputs, targets: outputs[:, 0] * 0.0,
    metrics=lambda outputs, targets: {},
    name="decay_probe",
)


def subject(cell: Cell) -> dict[str, Any]:
    """The fields of a cell that determine how decay acts.

    The amounts (λ, rate, batch) do not.
    """
    tree = cell.to_json()
    device_fields = ("kind", "model", "replicas", "replication", "devices")
    return {
        "framework": tree["framework"],
        "engine": tree["engine"],
        "device": {name: tree["device"][name] for name in device_fields if name in tree["device"]},
        "decay_rule": cell.settings.decay_rule,
        **cell.settings.only(RULE).to_json(),
    }


def key(cell: Cell) -> str:
    """Identity of the check of a cell.

    Cells with the same key share it.
    """
    return f"{NAME}-{digest({'version': VERSION, **subject(cell)})}"


def measure(job: Job) -> dict[str, Any]:
    """Check the decay of a job's cell.

    The rounding of weights that are kept in 16 bits is not covered: such a cell is checked in float32, with its summed
    loss.

    Returns:
        The verdict on the declared rule (`DecayFit`), and its `expected` factor.
    """
    recipe = Recipe.from_cell(job.cell)
    defaults = {name: setting.default for name, setting in TRAINING.items() if name not in RULE}
    probe_settings = {
        "epochs": STEPS,  # of one step each: the weights are read after every step
        "steps_per_epoch": 1,
        "batch_size": 4 * math.lcm(recipe.replicas, recipe.devices),
        "learning_rate": RATE,
        "weight_decay": DECAY,
        "precision": recipe.precision if recipe.master_weights else "fp32",
        "stop_at_target": False,
    }
    probe = replace(recipe, **defaults | probe_settings)
    expected = float(recipe.replicas) if recipe.decay_rule == SUM_OVER_REPLICAS else 1.0
    start, measured = _measure(job, probe)
    optimizer = {**probe.optimizer_settings, "learning_rate": RATE}
    verdict = judge(measured, start, recipe.decay, optimizer, DECAY, expected)
    return {**asdict(verdict), "expected": expected}


def _measure(job: Job, recipe: Recipe) -> tuple[Array, Array]:
    """The probe's weights before, [weights], and after each step, [steps, weights].

    Raises:
        ArithmeticError: the device does not keep the weights that are written to it, or they do not stay finite.
    """
    framework = job.cell.framework
    engine = open_engine(framework, EngineParts(recipe, PROBE, open_assigned(job), Ledger(), job.seed))
    inspection = open_inspection(framework)
    engine.load(_data(recipe.batch_size))
    engine.build()
    template = inspection.read_weights(engine.model)
    chosen = _chosen(template, recipe.optimizer_settings)
    inspection.write_weights(engine.model, chosen)
    snapshots = [_flat(inspection.read_weights(engine.model))]
    if not np.allclose(snapshots[0], _flat(chosen), rtol=1e-2, atol=0):
        raise ArithmeticError("the weights read from the device are not those that were written to it")
    for epoch in range(1, STEPS + 1):
        engine.train_epoch(epoch)
        snapshots.append(_flat(inspection.read_weights(engine.model)))
        if not np.isfinite(snapshots[-1]).all():
            raise ArithmeticError(f"after {epoch} steps without a gradient the weights are not finite")
    return snapshots[0], np.stack(snapshots[1:])


def _chosen(template: Mapping[str, Array], optimizer: Mapping[str, Any]) -> dict[str, Array]:
    """Weights of both signs, ordinary and very small ones.

    The decay of the small ones is about as small as Adam's epsilon.

    Adam's step does not depend on the size of an ordinary gradient, so only weights for which epsilon matters reveal
    how often λ was added.
    """
    small = max(optimizer.get("eps", 0.0), SMALLEST) / DECAY
    pattern = np.array([1.0, -1.5, small, -3.0 * small], np.float32)
    return {name: np.resize(pattern, array.shape) for name, array in template.items()}


def _flat(weights: Mapping[str, Array]) -> Array:
    return np.concatenate([array.ravel() for array in weights.values()]).astype(np.float64)


def _data(examples: int) -> Data:
    split = Split(np.ones((examples, 2), np.float32), np.zeros(examples, np.int64))
    return Data(split, split)
