"""The proof of weight decay: ten steps of the real engine with a loss that has no gradient, against the closed form.

A loss that is zero whatever the weights are leaves only the decay to move them, through the optimiser's own momentum or
moments. What comes of it has to be what the cell's declared rule says (`raybench.checks.weight_decay.closed_form`),
step by step: one step alone, or the last one alone, fits a wrong rule with a wrong λ just as well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
"""The settings that a proof is about; any other has its default in the probe."""
VERSION = 1
"""Raised when a proof would find something that an earlier one did not."""

RATE, DECAY, STEPS = 0.05, 0.02, 10
"""Ten steps of SGD with momentum shrink a weight by some 4 %: plain in float32, and no overshooting at 64 times λ."""

SMALLEST = 1e-16
"""Of Adam's epsilon: the square of a gradient of that size is still a number in float32."""

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
    """What of a cell a proof is about: everything that decides how decay acts. The amounts (λ, rate, batch) do not."""
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
    """The name of the proof that a cell needs: cells with the same one share it."""
    return f"{NAME}-{digest({'version': VERSION, **subject(cell)})}"


def measure(job: Job) -> dict[str, Any]:
    """Make the proof for a job's cell: the verdict on the declared rule, and the factor that is `expected` of it.

    Parameter groups have a part of the probe each, with their own factors, and stop when their epochs are over. Two
    things are not covered: what a weight that is kept in 16 bits rounds away (such a cell is proven in float32, with
    its summed loss), and lookahead, whose slow weights follow whatever the optimiser did.
    """
    recipe = Recipe.from_cell(job.cell)
    defaults = {name: setting.default for name, setting in TRAINING.items() if name not in RULE}
    probe_settings = {
        "epochs": STEPS,  # of one step each: the weights are looked at after every one
        "steps_per_epoch": 1,
        "batch_size": 4 * math.lcm(recipe.replicas, recipe.devices),
        "learning_rate": RATE,
        "weight_decay": DECAY,
        "precision": recipe.precision if recipe.master_weights else "fp32",
        "parameter_groups": tuple(
            {**group, "match": f"{part}.*"} for part, group in enumerate(recipe.parameter_groups, 1)
        ),
        "stop_at_target": False,
    }
    probe = replace(recipe, **defaults | probe_settings)
    expected = float(recipe.replicas) if recipe.decay_rule == SUM_OVER_REPLICAS else 1.0
    start, measured, parts = _measure(job, probe)
    rates, decays, until = (values[parts] for values in _by_part(probe.parameter_groups))
    optimizer = {**probe.optimizer_settings, "learning_rate": RATE * rates}
    verdict = judge(measured, start, recipe.decay, optimizer, DECAY * decays, expected, until)
    return {**asdict(verdict), "expected": expected}


def _by_part(groups: Sequence[Mapping[str, Any]]) -> tuple[Array, Array, Array]:
    """For each part of the probe, of which the first is in no group: factors on rate and λ, and the last step."""
    parts = [{"rate_factor": 1.0, "decay_factor": 1.0}, *groups]
    rows = [(part["rate_factor"], part["decay_factor"], min(part.get("epochs", STEPS), STEPS)) for part in parts]
    rates, decays, until = (np.array(values) for values in zip(*rows, strict=True))
    return rates, decays, until


def _measure(job: Job, recipe: Recipe) -> tuple[Array, Array, Array]:
    """The probe's weights before, [weights], and after each step, [steps, weights]; and in which part of it each is.

    Raises:
        ArithmeticError: they do not stay finite.
    """
    framework = job.cell.framework
    probe = PROBE.with_options({"parts": 1 + len(recipe.parameter_groups)} if recipe.parameter_groups else {})
    engine = open_engine(framework, EngineParts(recipe, probe, open_assigned(job), Ledger(), job.seed))
    inspection = open_inspection(framework)
    engine.load(_data(recipe.batch_size))
    engine.build()
    template = inspection.read_weights(engine.model)
    inspection.write_weights(engine.model, _chosen(template, recipe.optimizer_settings))
    snapshots = [_flat(inspection.read_weights(engine.model))]
    for epoch in range(1, STEPS + 1):
        engine.train_epoch(epoch)
        snapshots.append(_flat(inspection.read_weights(engine.model)))
        if not np.isfinite(snapshots[-1]).all():
            raise ArithmeticError(f"after {epoch} steps without a gradient the weights are not finite")
    parts = [np.full(array.size, _part(name)) for name, array in template.items()]
    return snapshots[0], np.stack(snapshots[1:]), np.concatenate(parts)


def _part(name: str) -> int:
    """The part of the probe that a weight is in: the number in front of its name, in a framework that has groups."""
    number = name.split(".")[0]
    return int(number) if number.isdecimal() else 0


def _chosen(template: Mapping[str, Array], optimizer: Mapping[str, Any]) -> dict[str, Array]:
    """Weights of either sign, ordinary ones and ones whose decay is as small as Adam's epsilon.

    Adam's step does not depend on the size of an ordinary gradient: only where epsilon counts can be seen how often λ
    was added.
    """
    small = max(optimizer.get("eps", 0.0), SMALLEST) / DECAY
    pattern = np.array([1.0, -1.5, small, -3.0 * small], np.float32)
    return {name: np.resize(pattern, array.shape) for name, array in template.items()}


def _flat(weights: Mapping[str, Array]) -> Array:
    return np.concatenate([array.ravel() for array in weights.values()]).astype(np.float64)


def _data(examples: int) -> Data:
    split = Split(np.ones((examples, 2), np.float32), np.zeros(examples, np.int64))
    return Data(split, split)
