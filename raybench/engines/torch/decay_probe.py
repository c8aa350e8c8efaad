"""The smallest model that has what an optimiser moves: a matrix and a vector."""

from __future__ import annotations

from torch import nn


def build(parts: int = 1) -> nn.Module:
    """From inputs [batch, 2] to outputs [batch, 4], through so many of them."""
    return nn.Sequential(nn.Linear(2, 4), *(nn.Linear(4, 4) for _ in range(parts - 1)))
