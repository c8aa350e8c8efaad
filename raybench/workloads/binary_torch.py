"""Loss and metrics of two classes with one logit, in PyTorch."""

from __future__ import annotations

import torch


def loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Binary cross-entropy per example [N], from logits [N, 1] and classes 0 and 1 [N]."""
    return torch.nn.functional.binary_cross_entropy_with_logits(
        outputs[:, 0], targets.to(outputs.dtype), reduction="none"
    )


def metrics(outputs: torch.Tensor, targets: torch.Tensor) -> dict[str, torch.Tensor]:
    """`accuracy`: 1 if the logit is above 0 exactly for class 1; [N]."""
    return {"accuracy": ((outputs[:, 0] > 0) == (targets > 0)).to(torch.float32)}
