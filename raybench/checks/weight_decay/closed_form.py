"""Closed forms of weight-decay rules, and the rule that measured weights follow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from raybench.datasets.splits import Array

TOLERANCE = 1e-3
"""Maximum deviation relative to the effect of the decay on a weight.

Ten steps in float32 round off up to 1e-4 of it; the nearest wrong rule, a factor of 2, deviates by half."""

UNSEEN = 1e-5
"""Fraction of a weight that is added to a change before division.

So the absence of any decay can be detected, too."""

STRENGTHS = np.concatenate([-np.geomspace(2.0**12, 2.0**-10, 89), [0.0], np.geomspace(2.0**-10, 2.0**12, 89)])
"""Multiples of λ at which the search starts.

They cover up to thousands of replicas, and decay of the wrong sign."""


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
        rule: `coupled` or `decoupled`.
        optimizer: its settings, as in a cell.
        start: the weights before, [weights].
        decay: λ, a number or an array [strengths, 1].
        steps: number of steps.

    Returns:
        [steps, weights] or [steps, strengths, weights].
    """
    form = _decoupled if rule == "decoupled" else _COUPLED[optimizer["name"]]
    initial = np.asarray(start, np.float64) + 0.0 * np.asarray(decay)
    return np.stack(list(islice(form(initial, decay, optimizer), steps)))


def _decoupled(current: Array, decay: Any, optimizer: Mapping[str, Any]) -> Iterator[Array]:
    """Decoupled decay for any optimiser: w ← w − rate·λ·w.

    The optimiser's own step of a zero gradient is zero.
    """
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
        rule: the declared rule.
        optimizer: its settings, as in a cell, with the rate that was used.
        decay: λ.
        expected: the multiple of λ with which the declared rule must act.
    """

    def apart(name: str) -> Callable[[Array], Array]:
        return lambda strengths: _deviations(measured, start, name, optimizer, decay, strengths)

    fits = {name: _fit(apart(name)) for name in (rule, *(other for other in RULES if other != rule))}
    deviation = float(apart(rule)(np.array([expected]))[0])
    matching_rule = next((name for name, (_, deviates) in fits.items() if deviates <= TOLERANCE), None)
    return DecayFit(deviation <= TOLERANCE, deviation, fits[matching_rule or rule][0], matching_rule)


def _fit(deviations: Callable[[Array], Array]) -> tuple[float, float]:
    """The multiple of λ with the smallest deviation, and that deviation.

    It is found by a grid search that narrows around the best value.
    """
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
    """The largest relative deviation for each multiple of λ, [strengths].

    It is the difference from the closed form, relative to the effect of the closed form's decay.
    """
    predicted = weights(rule, optimizer, start, strengths[:, None] * decay, len(measured))
    change = np.abs(predicted - start).max(axis=0) + UNSEEN * np.abs(start)
    distances: Array = (np.abs(measured[:, None, :] - predicted) / change).max(axis=(0, 2))
    return np.where(np.isfinite(distances), distances, np.inf)
