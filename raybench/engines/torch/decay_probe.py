"""The smallest model with all kinds of optimised tensors: a matrix and a vector."""

from __future__ import annotations

from torch import nn


def build(parts: int = 1) -> nn.Module:
    """Build a model from inputs [batch, 2] to outputs [batch, 4], with `parts` layers."""
    return nn.Sequential(nn.Linear(2, 4), *(nn.Linear(4, 4) for _ in range(parts - 1)))
