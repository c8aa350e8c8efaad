"""Optimisers, with the one definition of weight decay: λ in the mean-loss convention, on every trainable tensor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch


class DecoupledSGD(torch.optim.SGD):
    """SGD whose decay stands beside the update: w ← w − rate·λ·w, then the step of the gradient alone."""

    def __init__(self, params: Iterable[torch.nn.Parameter], *, lr: float, decoupled: float, **rest: Any) -> None:
        super().__init__(params, lr=lr, **rest)
        self._decoupled = decoupled

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Shrink the weights, then take the step."""
        for group in self.param_groups:
            moving = [p for p in group["params"] if p.grad is not None]
            if self._decoupled and moving:
                torch._foreach_mul_(moving, 1.0 - group["lr"] * self._decoupled)
        return super().step(closure)


def build_optimizer(
    params: Iterable[torch.nn.Parameter],
    settings: Mapping[str, Any],
    weight_decay: float,
    decay: str,
    fused: bool | None = None,
) -> torch.optim.Optimizer:
    """The optimiser of a cell.

    Coupled decay adds λ·w to the gradient before momentum or moments; decoupled shrinks the weights beside the
    update by rate·λ. torch's SGD and Adam couple, its AdamW decouples; `adam` and `adamw` differ in nothing else.
    `fused` asks for torch's single kernel; None leaves the choice to torch.

    Raises:
        LookupError: an unknown optimiser.
    """
    trainable = [p for p in params if p.requires_grad]
    name, rate = settings["name"], settings["learning_rate"]
    coupled = decay == "coupled"
    if name == "sgd":
        rest = {"momentum": settings["momentum"], "nesterov": settings["nesterov"], "fused": fused}
        if coupled:
            return torch.optim.SGD(trainable, lr=rate, weight_decay=weight_decay, **rest)
        return DecoupledSGD(trainable, lr=rate, decoupled=weight_decay, **rest)
    if name in ("adam", "adamw"):
        moments = {"betas": tuple(settings["betas"]), "eps": settings["eps"], "weight_decay": weight_decay}
        moments["fused"] = fused
        return (torch.optim.Adam if coupled else torch.optim.AdamW)(trainable, lr=rate, **moments)
    raise LookupError(f"unknown optimizer {name!r}")
