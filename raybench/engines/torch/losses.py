"""Default loss and metrics of a workload: one number per example."""

from __future__ import annotations

import torch


def cross_entropy(outputs: torch.Tensor, targets: torch.Tensor, smoothing: float = 0.0) -> torch.Tensor:
    """Loss of each example [batch] from logits [batch, …, classes] and classes [batch, …]; a mean if it has several.

    The target of a class is 1 - smoothing at it, plus smoothing ÷ classes at every class.
    """
    losses = torch.nn.functional.cross_entropy(
        outputs.flatten(0, -2), targets.flatten(), reduction="none", label_smoothing=smoothing
    )
    return losses if targets.dim() == 1 else losses.view(len(targets), -1).mean(1)


def accuracy(outputs: torch.Tensor, targets: torch.Tensor) -> dict[str, torch.Tensor]:
    """1 for each example whose largest logit is its class, else 0; shape [batch]."""
    return {"accuracy": (outputs.argmax(-1) == targets).to(torch.float32)}
