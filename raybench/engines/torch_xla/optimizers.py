"""Optimizers with torch's arithmetic and the same XLA graph in every step.

torch's own would cause compilations: torch_xla treats a Python number that is exactly 0 or ±1 as a constant of the
graph (a rate that starts at 0, a bias correction that has become 1), and a state that is created in the first step
makes that a different graph from the second. So values that change from step to step are computed on the host in
float64, as torch does, and moved to the device in a table once per epoch; and the state exists from the start.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import torch

OptimizerState = Mapping[str, torch.Tensor]


class XlaOptimizer(torch.optim.Optimizer):
    """SGD with or without momentum; subclasses have other rules. Receives its numbers of a step as a tensor.

    Args:
        params: of which those with a gradient are trained.
        settings: of the cell's optimizer.
        weight_decay: λ, in the mean-loss convention.
        coupled: whether λ·w is added to the gradient; otherwise the weights shrink by rate·λ beside the update.
    """

    names: tuple[str, ...] = ("velocity",)
    """Of the state tensors of each parameter, zero at the start."""

    def __init__(
        self, params: Iterable[torch.nn.Parameter], settings: Mapping[str, Any], weight_decay: float, coupled: bool
    ) -> None:
        super().__init__([p for p in params if p.requires_grad], {})
        self._settings, self._decay, self._coupled = settings, weight_decay, coupled
        self._trained: list[torch.nn.Parameter] = self.param_groups[0]["params"]
        names = self.names if settings.get("momentum") != 0 else ()
        for parameter in self._trained:
            self.state[parameter] = {name: torch.zeros(parameter.shape).to(parameter.device) for name in names}

    def numbers(self, rate: float, step: int) -> list[float]:
        """The values for `step` in a step (from 0) of the run; the second is the factor of decoupled decay."""
        return [rate, 1.0 - rate * self._decay]

    @torch.no_grad()
    def step(self, numbers: torch.Tensor) -> None:  # type: ignore[override]
        """Take one step by the results of `numbers`, on the device."""
        for parameter in self._trained:
            gradient = parameter.grad
            if gradient is None:
                continue
            if self._coupled and self._decay:
                gradient = gradient.add(parameter, alpha=self._decay)
            elif self._decay:
                parameter.mul_(numbers[1])
            self._move(parameter, gradient, self.state[parameter], numbers)

    def _move(
        self, parameter: torch.Tensor, gradient: torch.Tensor, state: OptimizerState, numbers: torch.Tensor
    ) -> None:
        if momentum := self._settings["momentum"]:
            velocity = state["velocity"].mul_(momentum).add_(gradient)
            gradient = gradient.add(velocity, alpha=momentum) if self._settings["nesterov"] else velocity
        parameter.sub_(gradient * numbers[0])


class XlaAdam(XlaOptimizer):
    """Adam and, with decoupled decay, AdamW."""

    names = ("mean", "square")

    def numbers(self, rate: float, step: int) -> list[float]:
        """Rate over the first moment's correction, decay factor, root of the second correction."""
        correction1, correction2 = (1.0 - beta ** (step + 1) for beta in self._settings["betas"])
        return [rate / correction1, 1.0 - rate * self._decay, math.sqrt(correction2)]

    def _move(
        self, parameter: torch.Tensor, gradient: torch.Tensor, state: OptimizerState, numbers: torch.Tensor
    ) -> None:
        beta1, beta2 = self._settings["betas"]
        mean = state["mean"].lerp_(gradient, 1.0 - beta1)
        square = state["square"].mul_(beta2).addcmul_(gradient, gradient, value=1.0 - beta2)
        parameter.sub_(numbers[0] * mean / (square.sqrt() / numbers[2] + self._settings["eps"]))


def build_optimizer(
    params: Iterable[torch.nn.Parameter], settings: Mapping[str, Any], weight_decay: float, decay: str
) -> XlaOptimizer:
    """Build the optimizer of a cell, by the rules of `raybench.engines.torch.optimizers`."""
    kinds = {"sgd": XlaOptimizer, "adam": XlaAdam, "adamw": XlaAdam}
    return kinds[settings["name"]](params, settings, weight_decay, decay == "coupled")
