"""Optimisers on TensorFlow variables, with torch's formulas and weight decay.

Keras's own differ: its SGD has the rate inside the velocity, and its `weight_decay` is always decoupled. Here the rate
is outside the velocity, and λ is in the mean-loss convention, on every trainable tensor. The updates are TensorFlow's
fused operations, which compute exactly that: one kernel per tensor instead of about ten.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from raybench.datasets.splits import Array


class Optimizer(Protocol):
    """Updates variables in place.

    Values that change from step to step are computed on the host, in float64, for a whole epoch at once, so that a
    schedule costs neither a new trace nor precision.
    """

    kept: list[tf.Variable]
    """The optimiser's state variables."""

    def scalars(self, rates: Sequence[float], step: int) -> Array:
        """The scalars [steps, …] for `apply`, from learning rates beginning at `step` (from 0)."""

    def apply(self, gradients: Sequence[tf.Tensor | None], scalars: tf.Tensor) -> None:
        """Take one step; a variable without a gradient is unchanged."""


class _Decaying:
    """Weight decay around the updates of a rule, which `_update` implements."""

    def __init__(self, variables: Sequence[tf.Variable], weight_decay: float, coupled: bool) -> None:
        self._variables, self._weight_decay, self._coupled = variables, weight_decay, coupled

    def apply(self, gradients: Sequence[tf.Tensor | None], scalars: tf.Tensor) -> None:
        """Take one step; a variable without a gradient is unchanged."""
        numbers = tf.unstack(scalars)
        for place, (variable, gradient) in enumerate(zip(self._variables, gradients, strict=True)):
            if gradient is None:
                continue
            gradient = tf.convert_to_tensor(gradient)  # an embedding's gradient has sparse rows
            now = [tf.cast(number, variable.dtype) for number in numbers]
            if self._weight_decay and self._coupled:
                gradient += self._weight_decay * variable
            elif self._weight_decay:
                shrunk = variable * (1.0 - now[0] * self._weight_decay)
                tf.raw_ops.AssignVariableOp(resource=variable.handle, value=shrunk)
            self._update(place, variable, gradient, now)

    def _update(self, place: int, variable: tf.Variable, gradient: tf.Tensor, now: Sequence[tf.Tensor]) -> None:
        raise NotImplementedError


def _zeros(variables: Sequence[tf.Variable]) -> list[tf.Variable]:
    return [tf.Variable(tf.zeros(variable.shape, variable.dtype), trainable=False) for variable in variables]


class Sgd(_Decaying):
    """SGD, with momentum or without.

    velocity ← momentum · velocity + gradient; w ← w - rate · (velocity, or with Nesterov the next one).
    """

    def __init__(
        self, variables: Sequence[tf.Variable], momentum: float, nesterov: bool, weight_decay: float, coupled: bool
    ) -> None:
        super().__init__(variables, weight_decay, coupled)
        self._momentum, self._nesterov = momentum, nesterov
        self.kept = self._velocities = _zeros(variables) if momentum else []

    def scalars(self, rates: Sequence[float], step: int) -> Array:
        """The rate: [steps, 1]."""
        return np.array(rates, np.float64)[:, None]

    def _update(self, place: int, variable: tf.Variable, gradient: tf.Tensor, now: Sequence[tf.Tensor]) -> None:
        if not self._momentum:
            tf.raw_ops.ResourceApplyGradientDescent(var=variable.handle, alpha=now[0], delta=gradient)
            return
        tf.raw_ops.ResourceApplyMomentum(
            var=variable.handle,
            accum=self._velocities[place].handle,
            lr=now[0],
            grad=gradient,
            momentum=tf.constant(self._momentum, variable.dtype),
            use_nesterov=self._nesterov,
        )


class Adam(_Decaying):
    """Adam with bias-corrected moments m̂ and v̂.

    w ← w - rate · m̂ / (√v̂ + eps)

    The fused operation adds its epsilon before v is corrected, and corrects by given powers. So the given powers make
    no correction, and the corrections are part of the rate and of epsilon: rate · √(1-β₂ᵗ) / (1-β₁ᵗ) and eps ·
    √(1-β₂ᵗ).
    """

    def __init__(
        self, variables: Sequence[tf.Variable], betas: Sequence[float], eps: float, weight_decay: float, coupled: bool
    ) -> None:
        super().__init__(variables, weight_decay, coupled)
        self._betas, self._eps = betas, eps
        self._first, self._second = _zeros(variables), _zeros(variables)
        self.kept = [*self._first, *self._second]
        # The operation computes 1 - β from a rounded β, for .999 in float32 off by 1e-5; the same β here cancels that.
        kind = variables[0].dtype.as_numpy_dtype if variables else np.float32
        self._exact = [float(kind(beta)) for beta in betas]

    def scalars(self, rates: Sequence[float], step: int) -> Array:
        """The rate, the corrected rate and the corrected epsilon: [steps, 3]."""
        rows = []
        for step_number, rate in enumerate(rates, start=step + 1):
            correction1, correction2 = (1.0 - beta**step_number for beta in self._exact)
            rows.append((rate, rate * math.sqrt(correction2) / correction1, self._eps * math.sqrt(correction2)))
        return np.array(rows, np.float64)

    def _update(self, place: int, variable: tf.Variable, gradient: tf.Tensor, now: Sequence[tf.Tensor]) -> None:
        zero = tf.zeros((), variable.dtype)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=self._first[place].handle,
            v=self._second[place].handle,
            beta1_power=zero,
            beta2_power=zero,
            lr=now[1],
            beta1=tf.constant(self._betas[0], variable.dtype),
            beta2=tf.constant(self._betas[1], variable.dtype),
            epsilon=now[2],
            grad=gradient,
        )


def build_optimizer(
    variables: Sequence[tf.Variable], settings: Mapping[str, Any], weight_decay: float, decay: str
) -> Optimizer:
    """Build the optimiser of a cell.

    Coupled decay adds λ·w to the gradient before momentum or moments; decoupled decay shrinks the weights by rate·λ
    separately from the update; `adam` and `adamw` differ in nothing else.

    Raises:
        LookupError: an unknown optimiser.
    """
    name, coupled = settings["name"], decay == "coupled"
    if name == "sgd":
        return Sgd(variables, settings["momentum"], settings["nesterov"], weight_decay, coupled)
    if name in ("adam", "adamw"):
        return Adam(variables, settings["betas"], settings["eps"], weight_decay, coupled)
    raise LookupError(f"unknown optimizer {name!r}")
