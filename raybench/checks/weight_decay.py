"""The weight-decay check: ten engine steps without a loss gradient, compared with the decay rule's closed form.

With a constant loss of zero, only the decay changes the weights, through the optimizer's own momentum or moments. They
must follow the closed form of the cell's declared rule at every step: the first step alone, or the last one alone,
would also fit a wrong rule with a wrong λ.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from raybench.core.cell import Cell
from raybench.core.job import SUM_OVER_REPLICAS, Job, Recipe
from raybench.core.settings import DECAY_FORM, SETTINGS, TRAINING
from raybench.core.version import __version__
from raybench.datasets.splits import Array, Data, Split
from raybench.engines.base import EngineParts
from raybench.engines.loop_facts import open_loop
from raybench.training.declared import DeclaredTraining
from raybench.trial.opening import open_assigned
from raybench.workloads.base import Workload

NAME = "weight_decay"
VERSION = __version__  # version of the check: it is made once for a version of raybench, and of the framework

RULE = frozenset(name for name, setting in SETTINGS.items() if DECAY_FORM in setting.affects)
"""The settings under test; all others have their defaults in the probe."""

RATE, DECAY, STEPS = 0.05, 0.02, 10
"""Learning rate, weight decay and steps of the probe: SGD with momentum shrinks a weight by 4 %, visible in float32."""

SMALLEST = 1e-16  # lower bound of Adam's epsilon in the choice of weights; its square is representable in float32

TOLERANCE = 1e-3
"""Maximum deviation relative to the effect of the decay on a weight: float32 rounds off 1e-4, a factor of 2 is 1."""

PROBE = Workload(
    model={name: f"raybench.engines.{name}.device_probes:smallest_model" for name in ("torch", "tensorflow")},
    data=lambda root: _data(1),
    loss=lambda outputs, targets: outputs[:, 0] * 0.0,
    metrics=lambda outputs, targets: {},
    name="decay_probe",
)


def subject(cell: Cell) -> dict[str, Any]:
    """The fields of a cell that determine how decay acts; the amounts (λ, rate, batch) do not."""
    device = {name: getattr(cell.device, name) for name in ("kind", "replicas", "devices")}
    return {
        "framework": cell.framework or None,
        "framework_version": cell.engine.framework_version or None,
        "device": {name: value for name, value in device.items() if isinstance(value, (str, int))},
        **cell.settings.only(RULE).to_json(),
    }


def describe(cell: Cell) -> str:
    """Description of a cell's check: `weight decay: torch on cpu, sgd, 8 replicas`."""
    replicas = f", {cell.device.replicas} replicas" if cell.device.replicas > 1 else ""
    return f"weight decay: {cell.framework} on {cell.device.kind}, {cell.settings.optimizer}{replicas}"


def measure(job: Job) -> dict[str, Any]:
    """Check the decay of a job's cell.

    Returns:
        `passed`; `factor`, the multiple of λ that acts on a weight where it differs most from the declared one; and
        what the check `says`.

    Raises:
        ArithmeticError: the device does not keep the weights that are written to it, or they do not stay finite.
    """
    recipe, framework, device = Recipe.from_cell(job.cell), job.cell.framework, open_assigned(job)
    batch = 4 * math.lcm(recipe.replicas, recipe.devices)
    probe = {"epochs": STEPS, "steps_per_epoch": 1, "batch_size": batch, "learning_rate": RATE, "weight_decay": DECAY}
    defaults = {name: setting.default for name, setting in TRAINING.items() if name not in RULE}
    recipe = replace(recipe, **defaults | probe)  # epochs of one step, since the weights are read after each
    parts = EngineParts(recipe, PROBE, device, open_loop(framework, device), job.seed)
    training = DeclaredTraining.alone(framework, parts)
    training.build(lambda: _data(batch))
    engine, optimizer = training.engine, {**recipe.optimizer_settings, "learning_rate": RATE}
    chosen = _weights(engine.weights(), optimizer)
    engine.set_weights(chosen)
    measured = [_flat(engine.weights())]
    if not np.allclose(measured[0], _flat(chosen), rtol=1e-2, atol=0):
        raise ArithmeticError("the weights read from the device are not those that were written to it")
    for _ in training.trial.epochs():
        training.train_epoch()
        measured.append(_flat(engine.weights()))
    if not np.isfinite(measured).all():
        raise ArithmeticError("the weights do not stay finite without a gradient")
    declared = float(recipe.replicas) if recipe.decay_rule == SUM_OVER_REPLICAS else 1.0
    return judge(np.stack(measured), recipe.decay, optimizer, DECAY, declared)


def judge(measured: Array, rule: str, optimizer: Mapping[str, Any], decay: float, declared: float) -> dict[str, Any]:
    """Compare measured weights, [1 + steps, weights], with a rule that acts with a declared multiple of λ."""
    start, changes = measured[0], measured[1:] - measured[0]
    expected = closed_form(rule, optimizer, start, declared * decay, len(changes)) - start
    deviation = (np.abs(changes - expected).max(axis=0) / np.abs(expected).max(axis=0)).max()
    ratios = (changes / expected).ravel()
    factor = declared * float(ratios[np.abs(ratios - 1).argmax()])
    passed = bool(deviation <= TOLERANCE)
    acts = f"acts as {factor:.3g} × λ"
    if passed:
        says = "passed" if declared == 1 else f"passed: {acts}, as declared"
    else:
        says = f"failed: {acts} on a weight, declared {declared:g} × λ, {rule}"
    return {"passed": passed, "factor": factor, "says": says}


def closed_form(rule: str, optimizer: Mapping[str, Any], start: Array, decay: float, steps: int) -> Array:
    """The weights after each of the first steps without a loss gradient, [steps, weights], in float64."""
    current, first, second = start, np.zeros_like(start), np.zeros_like(start)
    weights = []
    for step in range(1, steps + 1):
        move = gradient = decay * current
        if rule == "coupled" and optimizer["name"] == "sgd":
            first = optimizer["momentum"] * first + gradient
            move = gradient + optimizer["momentum"] * first if optimizer["nesterov"] else first
        elif rule == "coupled":
            beta1, beta2 = optimizer["betas"]
            first, second = beta1 * first + (1 - beta1) * gradient, beta2 * second + (1 - beta2) * gradient**2
            move = first / (1 - beta1**step) / (np.sqrt(second / (1 - beta2**step)) + optimizer["eps"])
        current = current - optimizer["learning_rate"] * move
        weights.append(current)
    return np.stack(weights)


def _weights(template: list[Array], optimizer: Mapping[str, Any]) -> list[Array]:
    """Weights of both signs, of which some have a decay as small as Adam's epsilon.

    Adam's step does not depend on the size of an ordinary gradient, so only these reveal how often λ was added.
    """
    small = max(optimizer.get("eps", 0.0), SMALLEST) / DECAY
    pattern = np.array([1.0, -1.5, small, -3.0 * small], np.float32)
    return [np.resize(pattern, array.shape) for array in template]


def _flat(arrays: list[Array]) -> Array:
    return np.concatenate([array.ravel() for array in arrays]).astype(np.float64)


def _data(examples: int) -> Data:
    split = Split(np.ones((examples, 2), np.float32), np.zeros(examples, np.int64))
    return Data(split, split)
