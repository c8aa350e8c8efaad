"""Optimizers on TensorFlow variables, with torch's formulas and weight decay.

Keras's own differ: its SGD has the rate inside the velocity, and its `weight_decay` is always decoupled. Here the rate
is outside the velocity, and λ is in the mean-loss convention, on every trainable tensor. The updates are TensorFlow's
fused operations, which compute exactly that: one kernel per tensor instead of about ten.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from raybench.datasets.splits import Array


class Optimizer:
    """Updates variables in place, by SGD with or without momentum; subclasses have other rules.

    velocity ← momentum · velocity + gradient; w ← w - rate · (velocity, or with Nesterov the next one).

    Values that change from step to step are computed on the host, in float64, for a whole epoch at once, so that a
    schedule costs neither a new trace nor precision.

    Attributes:
        state: the state variables, all of the first kind, then all of the second.
    """

    slots = 1

    def __init__(
        self, variables: Sequence[tf.Variable], settings: Mapping[str, Any], weight_decay: float, coupled: bool
    ) -> None:
        self._variables, self._settings = variables, settings
        self._weight_decay, self._coupled = weight_decay, coupled
        self._slots = [
            [tf.Variable(tf.zeros(variable.shape, variable.dtype), trainable=False) for variable in variables]
            for _ in range(self.slots if settings.get("momentum") != 0 else 0)
        ]
        self.state = [variable for slot in self._slots for variable in slot]

    def scalars(self, rates: Sequence[float], step: int) -> Array:
        """The scalars [steps, …] for `apply`, the rate first, from learning rates beginning at `step` (from 0)."""
        return np.array(rates, np.float64)[:, None]

    def apply(self, gradients: Sequence[tf.Tensor | None], scalars: tf.Tensor) -> None:
        """Take one step; a variable without a gradient is unchanged."""
        numbers = tf.unstack(scalars)
        for variable, gradient, *slots in zip(self._variables, gradients, *self._slots, strict=True):
            if gradient is None:
                continue
            now = [tf.cast(number, variable.dtype) for number in numbers]
            if self._weight_decay and self._coupled:
                gradient += self._weight_decay * variable
            elif self._weight_decay:
                shrunk = variable * (1.0 - now[0] * self._weight_decay)
                tf.raw_ops.AssignVariableOp(resource=variable.handle, value=shrunk)
            self._update(variable, gradient, now, [slot.handle for slot in slots])

    def _update(self, variable: tf.Variable, gradient: tf.Tensor, now: Sequence[tf.Tensor], slots: list[Any]) -> None:
        if not slots:
            tf.raw_ops.ResourceApplyGradientDescent(var=variable.handle, alpha=now[0], delta=gradient)
            return
        tf.raw_ops.ResourceApplyMomentum(
            var=variable.handle,
            accum=slots[0],
            lr=now[0],
            grad=gradient,
            momentum=tf.constant(self._settings["momentum"], variable.dtype),
            use_nesterov=self._settings["nesterov"],
        )


class Adam(Optimizer):
    """Adam with bias-corrected moments m̂ and v̂; with decoupled decay, AdamW.

    w ← w - rate · m̂ / (√v̂ + eps)

    The fused operation adds its epsilon before v is corrected, and corrects by given powers. So the given powers make
    no correction, and the corrections are part of the rate and of epsilon: rate · √(1-β₂ᵗ) / (1-β₁ᵗ) and eps ·
    √(1-β₂ᵗ).
    """

    slots = 2

    def scalars(self, rates: Sequence[float], step: int) -> Array:
        """The rate, the corrected rate and the corrected epsilon: [steps, 3]."""
        # The operation computes 1 - β from a rounded β, for .999 in float32 off by 1e-5; the same β here cancels that.
        kind = self._variables[0].dtype.as_numpy_dtype if self._variables else np.float32
        rows = []
        for number, rate in enumerate(rates, start=step + 1):
            correction1, correction2 = (1.0 - float(kind(beta)) ** number for beta in self._settings["betas"])
            root = math.sqrt(correction2)
            rows.append((rate, rate * root / correction1, self._settings["eps"] * root))
        return np.array(rows, np.float64)

    def _update(self, variable: tf.Variable, gradient: tf.Tensor, now: Sequence[tf.Tensor], slots: list[Any]) -> None:
        zero = tf.zeros((), variable.dtype)
        beta1, beta2 = (tf.constant(beta, variable.dtype) for beta in self._settings["betas"])
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=slots[0],
            v=slots[1],
            beta1_power=zero,
            beta2_power=zero,
            lr=now[1],
            beta1=beta1,
            beta2=beta2,
            epsilon=now[2],
            grad=gradient,
        )


def build_optimizer(
    variables: Sequence[tf.Variable], settings: Mapping[str, Any], weight_decay: float, decay: str
) -> Optimizer:
    """Build the optimizer of a cell.

    Coupled decay adds λ·w to the gradient before momentum or moments; decoupled decay shrinks the weights by rate·λ
    beside the update; `adam` and `adamw` differ in nothing else.
    """
    kinds = {"sgd": Optimizer, "adam": Adam, "adamw": Adam}
    return kinds[settings["name"]](variables, settings, weight_decay, decay == "coupled")
