"""Lookahead: slow weights that follow the fast ones and periodically replace them.

Source: M. Zhang, J. Lucas, G. Hinton and J. Ba, "Lookahead Optimizer: k steps forward, 1 step back", 2019. There the
share of the slow weights that is kept is constant (`power: 0`); in the CIFAR-10 speed records it grows during the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn


class Lookahead:
    """Slow weights of a model, including its running statistics.

    After every k-th step, with t the steps taken and T those of the run, slow ← d·slow + (1 - d)·fast, where d =
    decay·(t / T)^power, and fast ← slow. After the last step, fast ← slow, so the run ends with the slow weights.

    Args:
        settings: `every`, `decay` and `power`.
        steps: T.
    """

    def __init__(self, model: nn.Module, settings: Mapping[str, Any], steps: int) -> None:
        self._every, self._decay, self._power = settings["every"], settings["decay"], settings["power"]
        self._steps = steps
        moving = [parameter.detach() for parameter in model.parameters() if parameter.requires_grad]
        moving += [buffer for buffer in model.buffers() if buffer.is_floating_point()]
        by_type: dict[torch.dtype, list[torch.Tensor]] = {}
        for tensor in moving:
            by_type.setdefault(tensor.dtype, []).append(tensor)
        self._fast = list(by_type.values())
        self._slow = [[tensor.clone() for tensor in tensors] for tensors in self._fast]

    @property
    def slow(self) -> list[torch.Tensor]:
        """The slow weights, in an order determined by the model."""
        return [tensor for tensors in self._slow for tensor in tensors]

    @torch.no_grad()
    def after(self, step: int) -> None:
        """Update the weights after the `step`-th (from 1) step of the run."""
        is_due = step % self._every == 0
        if not is_due and step != self._steps:
            return
        slow_weight = self._decay * (step / self._steps) ** self._power
        for slow, fast in zip(self._slow, self._fast, strict=True):
            if is_due:
                torch._foreach_lerp_(slow, fast, 1.0 - slow_weight)
            torch._foreach_copy_(fast, slow)
