"""The weight-decay check: ten engine steps without a loss gradient, compared with the decay rule's closed form.

With a constant loss of zero, only the decay changes the weights, through the optimizer's own momentum or moments. They
must follow the closed form of the cell's declared rule at every step: the first step alone, or the last one alone,
would also fit a wrong rule with a wrong λ. The trial's process measures (`measure`); the driver reads the result
(`raybench.checks.pretrial`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from raybench.core.cell import Cell
from raybench.core.identity import digest
from raybench.core.job import SUM_OVER_REPLICAS, Job, Recipe
from raybench.core.settings import DECAY_FORM, SETTINGS, TRAINING
from raybench.datasets.splits import Array, Data, Split
from raybench.engines import open_inspection
from raybench.engines.base import EngineParts
from raybench.engines.loop_facts import open_loop
from raybench.training.declared import DeclaredTraining
from raybench.trial.opening import open_assigned
from raybench.workloads.base import Workload

NAME = "weight_decay"
RULE = frozenset(name for name, setting in SETTINGS.items() if DECAY_FORM in setting.affects)
"""The settings under test; all others have their defaults in the probe."""
VERSION = 2
"""Version of the check; raised when it can detect something new, or its result has a different form."""

RATE, DECAY, STEPS = 0.05, 0.02, 10
"""Learning rate, weight decay and steps of the probe.

Ten steps of SGD with momentum shrink a weight by about 4 %: clearly visible in float32, and without overshooting at 64
times λ."""

SMALLEST = 1e-16
"""Lower bound of Adam's epsilon in the choice of weights; its square is representable in float32."""

PROBE = Workload(
    model={name: f"raybench.engines.{name}.inspection:smallest" for name in ("torch", "tensorflow")},
    data=lambda root: _data(1),
    loss=lambda outputs, targets: outputs[:, 0] * 0.0,
    metrics=lambda outputs, targets: {},
    name="decay_probe",
)

TOLERANCE = 1e-3
"""Maximum deviation relative to the effect of the decay on a weight.

Ten steps in float32 round off up to 1e-4 of it; the nearest wrong rule, a factor of 2, deviates by half."""

UNSEEN = 1e-5
"""Fraction of a weight that is added to a change before division, to detect the absence of any decay, too."""

STRENGTHS = np.concatenate([-np.geomspace(2.0**12, 2.0**-10, 89), [0.0], np.geomspace(2.0**-10, 2.0**12, 89)])
"""Multiples of λ at which the search starts: up to thousands of replicas, and of the wrong sign."""


def subject(cell: Cell) -> dict[str, Any]:
    """The fields of a cell that determine how decay acts; the amounts (λ, rate, batch) do not."""
    tree = cell.to_json()
    device_fields = ("kind", "model", "replicas", "devices")
    return {
        **{name: tree[name] for name in ("framework", "engine") if name in tree},
        "device": {name: value for name, value in tree.get("device", {}).items() if name in device_fields},
        **cell.settings.only(RULE).to_json(),
    }


def key(cell: Cell) -> str:
    """Identity of the check of a cell, and of all cells that share it."""
    return f"{NAME}-{digest({'version': VERSION, **subject(cell)})}"


def measure(job: Job) -> dict[str, Any]:
    """Check the decay of a job's cell.

    Returns:
        The verdict on the declared rule (`DecayFit`), its `expected` factor, and what it `says`.
    """
    recipe = Recipe.from_cell(job.cell)
    defaults = {name: setting.default for name, setting in TRAINING.items() if name not in RULE}
    probe_settings = {
        "epochs": STEPS,  # of one step each: the weights are read after every step
        "steps_per_epoch": 1,
        "batch_size": 4 * math.lcm(recipe.replicas, recipe.devices),
        "learning_rate": RATE,
        "weight_decay": DECAY,
    }
    probe = replace(recipe, **defaults | probe_settings)
    expected = float(recipe.replicas) if recipe.decay_rule == SUM_OVER_REPLICAS else 1.0
    start, measured = _measure(job, probe)
    optimizer = {**probe.optimizer_settings, "learning_rate": RATE}
    verdict = judge(measured, start, recipe.decay, optimizer, DECAY, expected)
    return {**asdict(verdict), "expected": expected, "says": in_words(verdict, recipe.decay, expected)}


def _measure(job: Job, recipe: Recipe) -> tuple[Array, Array]:
    """The probe's weights before, [weights], and after each step, [steps, weights].

    Raises:
        ArithmeticError: the device does not keep the weights that are written to it, or they do not stay finite.
    """
    framework, device = job.cell.framework, open_assigned(job)
    parts = EngineParts(recipe, PROBE, device, open_loop(framework, device), job.seed)
    training, inspection = DeclaredTraining.alone(framework, parts), open_inspection(framework)
    training.build(lambda: _data(recipe.batch_size))
    model = training.engine.model
    chosen = _chosen(inspection.read_weights(model), recipe.optimizer_settings)
    inspection.write_weights(model, chosen)
    snapshots = [_flat(inspection.read_weights(model))]
    if not np.allclose(snapshots[0], _flat(chosen), rtol=1e-2, atol=0):
        raise ArithmeticError("the weights read from the device are not those that were written to it")
    for epoch in training.trial.epochs():
        training.train_epoch()
        snapshots.append(_flat(inspection.read_weights(model)))
        if not np.isfinite(snapshots[-1]).all():
            raise ArithmeticError(f"after {epoch + 1} steps without a gradient the weights are not finite")
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


def _flat(arrays: Mapping[str, Array]) -> Array:
    return np.concatenate([array.ravel() for array in arrays.values()]).astype(np.float64)


def _data(examples: int) -> Data:
    split = Split(np.ones((examples, 2), np.float32), np.zeros(examples, np.int64))
    return Data(split, split)


@dataclass(frozen=True)
class DecayFit:
    """The fit of measured weights to a declared rule.

    Attributes:
        passed: whether they follow the rule with the expected factor.
        deviation: the largest difference from the closed form, relative to the effect of the decay on that weight.
        factor: the effective multiple of λ, by the rule that is followed, else by the declared one.
        follows: the rule that is followed with that factor, `coupled` or `decoupled`; None if neither is.
    """

    passed: bool
    deviation: float
    factor: float
    follows: str | None


def weights(rule: str, optimizer: Mapping[str, Any], start: Array, decay: Any, steps: int) -> Array:
    """The weights after each of the first steps without a loss gradient, in float64.

    Args:
        start: the weights before, [weights].
        decay: λ, a number or an array [strengths, 1].

    Returns:
        [steps, weights] or [steps, strengths, weights].
    """
    form = _decoupled if rule == "decoupled" else _COUPLED[optimizer["name"]]
    initial = np.asarray(start, np.float64) + 0.0 * np.asarray(decay)
    return np.stack(list(islice(form(initial, decay, optimizer), steps)))


def _decoupled(current: Array, decay: Any, optimizer: Mapping[str, Any]) -> Iterator[Array]:
    """Decoupled decay for any optimizer, whose own step of a zero gradient is zero: w ← w − rate·λ·w."""
    while True:
        current = current * (1.0 - optimizer["learning_rate"] * decay)
        yield current


def _sgd(current: Array, decay: Any, optimizer: Mapping[str, Any]) -> Iterator[Array]:
    """SGD with coupled decay.

    velocity ← momentum · velocity + λ·w; w ← w − rate · velocity; with Nesterov, the velocity one step ahead.
    """
    velocity, momentum = np.zeros_like(current), optimizer["momentum"]
    while True:
        gradient = decay * current
        velocity = momentum * velocity + gradient
        step = gradient + momentum * velocity if optimizer["nesterov"] else velocity
        current = current - optimizer["learning_rate"] * step
        yield current


def _adam(current: Array, decay: Any, optimizer: Mapping[str, Any]) -> Iterator[Array]:
    """Adam with coupled decay.

    w ← w − rate · m̂ / (√v̂ + eps)

    λ·w enters both moments.
    """
    first, second, step = np.zeros_like(current), np.zeros_like(current), 0
    beta1, beta2 = optimizer["betas"]
    while True:
        gradient, step = decay * current, step + 1
        first = beta1 * first + (1.0 - beta1) * gradient
        second = beta2 * second + (1.0 - beta2) * gradient**2
        mean, square = first / (1.0 - beta1**step), second / (1.0 - beta2**step)
        current = current - optimizer["learning_rate"] * mean / (np.sqrt(square) + optimizer["eps"])
        yield current


_COUPLED = {"sgd": _sgd, "adam": _adam, "adamw": _adam}
RULES = ("coupled", "decoupled")


def judge(
    measured: Array,
    start: Array,
    rule: str,
    optimizer: Mapping[str, Any],
    decay: float,
    expected: float = 1.0,
) -> DecayFit:
    """Compare measured weights with the declared rule, and find the rule followed.

    Args:
        measured: the weights after each step, [steps, weights].
        start: the weights before, [weights].
        expected: the multiple of λ with which the declared rule must act.
    """

    def apart(name: str) -> Callable[[Array], Array]:
        return lambda strengths: _deviations(measured, start, name, optimizer, decay, strengths)

    fits = {name: _fit(apart(name)) for name in (rule, *(other for other in RULES if other != rule))}
    deviation = float(apart(rule)(np.array([expected]))[0])
    matching_rule = next((name for name, (_, deviates) in fits.items() if deviates <= TOLERANCE), None)
    return DecayFit(deviation <= TOLERANCE, deviation, fits[matching_rule or rule][0], matching_rule)


def _fit(deviations: Callable[[Array], Array]) -> tuple[float, float]:
    """The multiple of λ with the smallest deviation, and that deviation, by a grid search that narrows."""
    strengths = STRENGTHS
    while True:
        distances = deviations(strengths)
        best = int(distances.argmin())
        low, high = strengths[max(best - 1, 0)], strengths[min(best + 1, len(strengths) - 1)]
        if high - low <= 1e-7 * max(abs(low), abs(high), 1e-3):
            return float(strengths[best]), float(distances[best])
        strengths = np.linspace(low, high, 33)


def _deviations(
    measured: Array,
    start: Array,
    rule: str,
    optimizer: Mapping[str, Any],
    decay: float,
    strengths: Array,
) -> Array:
    """The largest deviation from the closed form for each multiple of λ [strengths], relative to its decay."""
    predicted = weights(rule, optimizer, start, strengths[:, None] * decay, len(measured))
    change = np.abs(predicted - start).max(axis=0) + UNSEEN * np.abs(start)
    distances: Array = (np.abs(measured[:, None, :] - predicted) / change).max(axis=(0, 2))
    return np.where(np.isfinite(distances), distances, np.inf)


def describe(cell: Cell) -> str:
    """Description of a cell's check: `weight decay: torch on cpu, sgd, 8 replicas`."""
    replicas = f", {cell.device.replicas} replicas" if cell.device.replicas > 1 else ""
    return f"weight decay: {cell.framework} on {cell.device.kind}, {cell.settings.optimizer}{replicas}"


def in_words(fit: DecayFit, rule: str, expected: float) -> str:
    """A fit for the user: `passed`, or `failed: …` with the rule and the factor that the weights follow."""
    acts, declared = f"{fit.factor:.4g} × λ", f"{expected:.4g} × λ"
    if fit.passed:
        return "passed" if expected == 1 else f"passed: acts as {acts}, as declared"
    if fit.follows == rule:
        return f"failed: acts as {acts}" + ("" if expected == 1 else f", declared {declared}")
    if fit.follows:
        return f"failed: declared {rule}, acts {fit.follows}" + ("" if acts == declared else f" with {acts}")
    return f"failed: follows neither rule; {rule} with {acts} comes nearest"
