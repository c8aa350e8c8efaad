"""Optimisers with one definition of weight decay, applied to every trainable tensor.

λ is in the mean-loss convention.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch


class SGDW(torch.optim.SGD):
    """SGD with decoupled decay: w ← w − rate·λ·w, then the gradient step."""

    def __init__(self, params: Iterable[torch.nn.Parameter], *, lr: float, **options: Any) -> None:
        super().__init__(params, lr=lr, **options)
        for group in self.param_groups:
            group["decoupled"], group["weight_decay"] = group["weight_decay"], 0.0

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Decay the weights, then take the step.

        With the fused kernel a gradient scaler skips a step inside the kernel; then the weights do not decay either.
        """
        skipped = getattr(self, "found_inf", None)  # set by the scaler, 0 or 1 on the device
        for group in self.param_groups:
            moving = [p for p in group["params"] if p.grad is not None]
            if group["decoupled"] and moving:
                shrunk = group["lr"] * group["decoupled"]
                torch._foreach_mul_(moving, 1.0 - shrunk if skipped is None else 1.0 - shrunk * (1.0 - skipped))
        return super().step(closure)


def build_optimizer(
    params: Iterable[torch.nn.Parameter],
    settings: Mapping[str, Any],
    weight_decay: float,
    decay: str,
    fused: bool | None = None,
) -> torch.optim.Optimizer:
    """Build the optimiser of a cell.

    Coupled decay adds λ·w to the gradient before momentum or moments; decoupled decay shrinks the weights by rate·λ
    separately from the update. torch's SGD and Adam couple, its AdamW decouples; `adam` and `adamw` differ in nothing
    else. `fused` selects torch's single kernel; None leaves the choice to torch.

    Raises:
        LookupError: an unknown optimiser.
    """
    name, rate = settings["name"], settings["learning_rate"]
    trained = [parameter for parameter in params if parameter.requires_grad]
    coupled = decay == "coupled"
    if name == "sgd":
        momentum = {"momentum": settings["momentum"], "nesterov": settings["nesterov"], "fused": fused}
        return (torch.optim.SGD if coupled else SGDW)(trained, lr=rate, weight_decay=weight_decay, **momentum)
    if name in ("adam", "adamw"):
        moments = {"betas": tuple(settings["betas"]), "eps": settings["eps"], "fused": fused}
        return (torch.optim.Adam if coupled else torch.optim.AdamW)(
            trained, lr=rate, weight_decay=weight_decay, **moments
        )
    raise LookupError(f"unknown optimizer {name!r}")
