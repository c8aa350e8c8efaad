"""Optimisers with torch's arithmetic and the same XLA graph in every step.

torch's own would cause compilations: torch_xla treats a Python number that is exactly 0 or ±1 as a constant of the
graph (a rate that starts at 0, a bias correction that has become 1), and a state that is created in the first step
makes that another graph than the second. So values that change from step to step are computed on the host in float64,
as torch does, and moved to the device in a table once per epoch; and the state exists from the start.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch


class XlaOptimizer(torch.optim.Optimizer):
    """An optimiser that receives its numbers of a step as a tensor.

    Args:
        params: trained parameters.
        weight_decay: λ, in the mean-loss convention.
        coupled: whether λ·w is added to the gradient; otherwise the weights shrink by rate·λ separately from the
            update.
        state: names of the state tensors of each parameter, zero at the start.
    """

    def __init__(
        self, params: Iterable[torch.nn.Parameter], weight_decay: float, coupled: bool, state: Sequence[str]
    ) -> None:
        super().__init__([p for p in params if p.requires_grad], {})
        self._decay, self._coupled = weight_decay, coupled
        for parameter in self._trained():
            self.state[parameter] = {name: torch.zeros(parameter.shape).to(parameter.device) for name in state}

    def _trained(self) -> list[torch.nn.Parameter]:
        parameters: list[torch.nn.Parameter] = self.param_groups[0]["params"]
        return parameters

    def numbers(self, rate: float, step: int) -> list[float]:
        """The values of the `step`-th (from 0) step of the run."""
        return [rate, 1.0 - rate * self._decay]

    @torch.no_grad()
    def step(self, numbers: torch.Tensor) -> None:  # type: ignore[override]
        """Take one step.

        Args:
            numbers: the results of `numbers`, on the device, in the same order.
        """
        for parameter in self._trained():
            gradient = parameter.grad
            if gradient is None:
                continue
            if self._coupled and self._decay:
                gradient = gradient.add(parameter, alpha=self._decay)
            elif self._decay:
                parameter.mul_(numbers[1])
            self._move(parameter, gradient, self.state[parameter], numbers)

    def _move(
        self, parameter: torch.Tensor, gradient: torch.Tensor, state: Mapping[str, torch.Tensor], numbers: torch.Tensor
    ) -> None:
        raise NotImplementedError


class XlaSGD(XlaOptimizer):
    """SGD, with momentum or without."""

    def __init__(
        self,
        params: Iterable[torch.nn.Parameter],
        weight_decay: float,
        coupled: bool,
        momentum: float,
        nesterov: bool,
    ) -> None:
        super().__init__(params, weight_decay, coupled, ["velocity"] if momentum else [])
        self._momentum, self._nesterov = momentum, nesterov

    def _move(
        self, parameter: torch.Tensor, gradient: torch.Tensor, state: Mapping[str, torch.Tensor], numbers: torch.Tensor
    ) -> None:
        if self._momentum:
            velocity = state["velocity"].mul_(self._momentum).add_(gradient)
            gradient = gradient.add(velocity, alpha=self._momentum) if self._nesterov else velocity
        parameter.sub_(gradient * numbers[0])


class XlaAdam(XlaOptimizer):
    """Adam and, with decoupled decay, AdamW."""

    def __init__(
        self,
        params: Iterable[torch.nn.Parameter],
        weight_decay: float,
        coupled: bool,
        betas: tuple[float, float],
        eps: float,
    ) -> None:
        super().__init__(params, weight_decay, coupled, ["mean", "square"])
        self._betas, self._eps = betas, eps

    def numbers(self, rate: float, step: int) -> list[float]:
        """Rate over the first moment's correction, decay factor, root of the second correction."""
        correction1, correction2 = (1.0 - beta ** (step + 1) for beta in self._betas)
        return [rate / correction1, 1.0 - rate * self._decay, math.sqrt(correction2)]

    def _move(
        self, parameter: torch.Tensor, gradient: torch.Tensor, state: Mapping[str, torch.Tensor], numbers: torch.Tensor
    ) -> None:
        mean = state["mean"].lerp_(gradient, 1.0 - self._betas[0])
        square = state["square"].mul_(self._betas[1]).addcmul_(gradient, gradient, value=1.0 - self._betas[1])
        parameter.sub_(numbers[0] * mean / (square.sqrt() / numbers[2] + self._eps))


def build_optimizer(
    params: Iterable[torch.nn.Parameter], settings: Mapping[str, Any], weight_decay: float, decay: str
) -> XlaOptimizer:
    """Build the optimiser of a cell, by the rules of `raybench.engines.torch.optimizers`.

    Raises:
        LookupError: an unknown optimiser.
    """
    coupled = decay == "coupled"
    if settings["name"] == "sgd":
        return XlaSGD(params, weight_decay, coupled, settings["momentum"], settings["nesterov"])
    if settings["name"] in ("adam", "adamw"):
        return XlaAdam(params, weight_decay, coupled, tuple(settings["betas"]), settings["eps"])
    raise LookupError(f"unknown optimizer {settings['name']!r}")
