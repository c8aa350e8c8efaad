"""Optimizers with one definition of weight decay, of every trainable tensor, in the mean-loss convention."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch


class SGD(torch.optim.SGD):
    """torch's SGD after decoupled weight decay, w ← w − rate·λ·w, of all weights at once."""

    def __init__(self, weights: Sequence[torch.nn.Parameter], *, decoupled_decay: float, **options: Any) -> None:
        super().__init__(weights, **options)
        self._weights, self._decay = weights, decoupled_decay

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Apply the decay, then take the step, unless a gradient scaler skips both inside the fused kernel."""
        skipped = getattr(self, "found_inf", None)  # set by the scaler, 0 or 1 on the device
        shrunk = self.param_groups[0]["lr"] * self._decay
        moving: list[torch.Tensor] = [weight for weight in self._weights if weight.grad is not None]
        if moving:
            torch._foreach_mul_(moving, 1.0 - shrunk if skipped is None else 1.0 - shrunk * (1.0 - skipped))
        return super().step(closure)


def build_optimizer(
    params: Iterable[torch.nn.Parameter],
    settings: Mapping[str, Any],
    weight_decay: float,
    decay: str,
    fused: bool | None = None,
) -> torch.optim.Optimizer:
    """Build the optimizer of a cell.

    Coupled decay adds λ·w to the gradient before momentum or moments; decoupled decay shrinks the weights by rate·λ
    separately from the update. torch's SGD and Adam couple, its AdamW decouples; `adam` and `adamw` differ in nothing
    else. `fused` selects torch's single kernel; None leaves the choice to torch. On a GPU torch would choose `foreach`,
    anew in each step.
    """
    rate = settings["learning_rate"]
    trained = [parameter for parameter in params if parameter.requires_grad]
    coupled = decay == "coupled"
    foreach = True if not fused and all(parameter.is_cuda for parameter in trained) else None
    kernel = {"fused": fused, "foreach": foreach}
    if settings["name"] == "sgd":
        options = {"lr": rate, "momentum": settings["momentum"], "nesterov": settings["nesterov"], **kernel}
        optimizer = (
            torch.optim.SGD(trained, weight_decay=weight_decay, **options)
            if coupled or not weight_decay
            else SGD(trained, decoupled_decay=weight_decay, **options)
        )
        return _with_momentum(optimizer) if fused else optimizer
    moments = {"betas": tuple(settings["betas"]), "eps": settings["eps"], **kernel}
    return (torch.optim.Adam if coupled else torch.optim.AdamW)(trained, lr=rate, weight_decay=weight_decay, **moments)


def _with_momentum(optimizer: torch.optim.SGD) -> torch.optim.SGD:
    """Set the momentum to zero, from which the first step makes the same as from none.

    torch's fused kernel makes it without values in the first step and sets them in that step only, even if the gradient
    scaler skips it (torch 2.13); the next step would then begin with whatever was in that memory.
    """
    for group in optimizer.param_groups:
        for parameter in group["params"] if group["momentum"] else ():
            optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    return optimizer
