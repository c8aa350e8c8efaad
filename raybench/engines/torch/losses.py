"""Default loss and metrics of a workload: one number per example."""

from __future__ import annotations

import torch


def cross_entropy(outputs: torch.Tensor, targets: torch.Tensor, smoothing: float = 0.0) -> torch.Tensor:
    """Loss of each example [batch] from logits [batch, classes] and classes [batch].

    The target of an example is 1 - smoothing at its class, plus smoothing ÷ classes at every class.
    """
    return torch.nn.functional.cross_entropy(outputs, targets, reduction="none", label_smoothing=smoothing)


def accuracy(outputs: torch.Tensor, targets: torch.Tensor) -> dict[str, torch.Tensor]:
    """1 for each example whose largest logit is its class, else 0; shape [batch]."""
    return {"accuracy": (outputs.argmax(-1) == targets).to(torch.float32)}
