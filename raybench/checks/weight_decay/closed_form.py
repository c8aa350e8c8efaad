"""What weight decay alone makes of weights, by the closed form of each rule; and which rule measured weights follow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from raybench.datasets.splits import Array

TOLERANCE = 1e-3
"""Of what the decay does to a weight. Ten steps in float32 round off up to 1e-4 of it; the nearest wrong rule, a factor
of 2, is off by half."""

UNSEEN = 1e-5
"""Of a weight: what is added to a change before anything is divided by it, so that no decay at all can be told, too."""

STRENGTHS = np.concatenate([-np.geomspace(2.0**12, 2.0**-10, 89), [0.0], np.geomspace(2.0**-10, 2.0**12, 89)])
"""Where the search for a factor looks first: up to thousands of replicas, and decay of the wrong sign."""


@dataclass(frozen=True)
class DecayFit:
    """What measured weights say of a declared rule.

    Attributes:
        passed: they follow it with the factor it is expected to have.
        deviation: the largest difference from its closed form, as a share of what the decay does to that weight.
        factor: the multiple of λ that really acts, by the rule that is followed, else by the declared one.
        follows: the rule that is followed with that factor, `coupled` or `decoupled`; None where neither is.
    """

    passed: bool
    deviation: float
    factor: float
    follows: str | None


def weights(rule: str, optimizer: Mapping[str, Any], start: Array, decay: Any, steps: int) -> Array:
    """The weights after each of the first steps where the loss has no gradient, in double precision.

    Args:
        rule: `coupled` or `decoupled`.
        optimizer: its settings, as a cell has them.
        start: the weights before, [weights].
        decay: λ, a number or an array [strengths, 1].
        steps: how many.

    Returns:
        [steps, weights] or [steps, strengths, weights].
    """
    form = _decoupled if rule == "decoupled" else _COUPLED[optimizer["name"]]
    initial = np.asarray(start, np.float64) + 0.0 * np.asarray(decay)
    return np.stack(list(islice(form(initial, decay, optimizer), steps)))


def _decoupled(current: Array, decay: Any, optimizer: Mapping[str, Any]) -> Iterator[Array]:
    """w ← w − rate·λ·w, whatever the optimiser: its own step of a zero gradient is zero."""
    while True:
        current = current * (1.0 - optimizer["learning_rate"] * decay)
        yield current


def _sgd(current: Array, decay: Any, optimizer: Mapping[str, Any]) -> Iterator[Array]:
    """velocity ← momentum · velocity + λ·w; w ← w − rate · velocity, or with Nesterov the velocity one step on."""
    velocity, momentum = np.zeros_like(current), optimizer["momentum"]
    while True:
        gradient = decay * current
        velocity = momentum * velocity + gradient
        step = gradient + momentum * velocity if optimizer["nesterov"] else velocity
        current = current - optimizer["learning_rate"] * step
        yield current


def _adam(current: Array, decay: Any, optimizer: Mapping[str, Any]) -> Iterator[Array]:
    """λ·w goes through both moments: w ← w − rate · m̂ / (√v̂ + eps)."""
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
    decay: float | Array,
    expected: float = 1.0,
    until: Array | None = None,
) -> DecayFit:
    """Compare measured weights with a declared rule and, where they do not follow it, find what they do follow.

    Args:
        measured: the weights after each step, [steps, weights].
        start: the weights before, [weights].
        rule: the declared one.
        optimizer: its settings, as a cell has them, with the rate that was used: one, or each weight's own, [weights].
        decay: λ; likewise.
        expected: the multiple of λ that the declared rule is to act with.
        until: after how many steps each weight stays as it is, [weights]; None where none does.
    """

    def apart(name: str) -> Callable[[Array], Array]:
        return lambda strengths: _deviations(measured, start, name, optimizer, decay, strengths, until)

    fits = {name: _fit(apart(name)) for name in (rule, *(other for other in RULES if other != rule))}
    deviation = float(apart(rule)(np.array([expected]))[0])
    matching_rule = next((name for name, (_, deviates) in fits.items() if deviates <= TOLERANCE), None)
    return DecayFit(deviation <= TOLERANCE, deviation, fits[matching_rule or rule][0], matching_rule)


def _fit(deviations: Callable[[Array], Array]) -> tuple[float, float]:
    """The multiple of λ whose closed form comes nearest, and its deviation: a grid that closes in on the best place."""
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
    decay: float | Array,
    strengths: Array,
    until: Array | None,
) -> Array:
    """For each multiple of λ [strengths] the largest difference from its closed form, as a share of what that does."""
    predicted = weights(rule, optimizer, start, strengths[:, None] * decay, len(measured))
    for last_step in np.unique(until) if until is not None else ():
        frozen = until == last_step
        predicted[last_step:, :, frozen] = predicted[last_step - 1][:, frozen]
    change = np.abs(predicted - start).max(axis=0) + UNSEEN * np.abs(start)
    distances: Array = (np.abs(measured[:, None, :] - predicted) / change).max(axis=(0, 2))
    return np.where(np.isfinite(distances), distances, np.inf)
