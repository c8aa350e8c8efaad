"""What weight decay alone makes of weights, by the closed form of each rule; and which rule measured weights follow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from raybench.datasets.base import Array

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
    begun = np.asarray(start, np.float64) + 0.0 * np.asarray(decay)
    return np.stack(list(islice(form(begun, decay, optimizer), steps)))


def _decoupled(now: Array, decay: Any, optimizer: Mapping[str, Any]) -> Iterator[Array]:
    """w ← w − rate·λ·w, whatever the optimiser: its own step of a zero gradient is zero."""
    while True:
        now = now * (1.0 - optimizer["learning_rate"] * decay)
        yield now


def _sgd(now: Array, decay: Any, optimizer: Mapping[str, Any]) -> Iterator[Array]:
    """velocity ← momentum · velocity + λ·w; w ← w − rate · velocity, or with Nesterov the velocity one step on."""
    velocity, momentum = np.zeros_like(now), optimizer["momentum"]
    while True:
        gradient = decay * now
        velocity = momentum * velocity + gradient
        step = gradient + momentum * velocity if optimizer["nesterov"] else velocity
        now = now - optimizer["learning_rate"] * step
        yield now


def _adam(now: Array, decay: Any, optimizer: Mapping[str, Any]) -> Iterator[Array]:
    """λ·w goes through both moments: w ← w − rate · m̂ / (√v̂ + eps)."""
    first, second, step = np.zeros_like(now), np.zeros_like(now), 0
    beta1, beta2 = optimizer["betas"]
    while True:
        gradient, step = decay * now, step + 1
        first = beta1 * first + (1.0 - beta1) * gradient
        second = beta2 * second + (1.0 - beta2) * gradient**2
        mean, square = first / (1.0 - beta1**step), second / (1.0 - beta2**step)
        now = now - optimizer["learning_rate"] * mean / (np.sqrt(square) + optimizer["eps"])
        yield now


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
    followed = next((name for name, (_, deviates) in fits.items() if deviates <= TOLERANCE), None)
    return DecayFit(deviation <= TOLERANCE, deviation, fits[followed or rule][0], followed)


def _fit(deviations: Callable[[Array], Array]) -> tuple[float, float]:
    """The multiple of λ whose closed form comes nearest, and its deviation: a grid that closes in on the best place."""
    strengths = STRENGTHS
    while True:
        apart = deviations(strengths)
        best = int(apart.argmin())
        low, high = strengths[max(best - 1, 0)], strengths[min(best + 1, len(strengths) - 1)]
        if high - low <= 1e-7 * max(abs(low), abs(high), 1e-3):
            return float(strengths[best]), float(apart[best])
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
    formed = weights(rule, optimizer, start, strengths[:, None] * decay, len(measured))
    for last in np.unique(until) if until is not None else ():
        ended = until == last
        formed[last:, :, ended] = formed[last - 1][:, ended]
    change = np.abs(formed - start).max(axis=0) + UNSEEN * np.abs(start)
    apart: Array = (np.abs(measured[:, None, :] - formed) / change).max(axis=(0, 2))
    return np.where(np.isfinite(apart), apart, np.inf)
