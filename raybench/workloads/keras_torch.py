"""Keras's defaults in PyTorch, for models that were published in Keras."""

from __future__ import annotations

from torch import nn


def batch_norm(features: int) -> nn.BatchNorm2d:
    """Keras's batch norm of [N, features, height, width]: eps 1e-3, momentum .99, which torch counts as .01."""
    return nn.BatchNorm2d(features, eps=1e-3, momentum=0.01)


def batch_norm_1d(features: int) -> nn.BatchNorm1d:
    """The same of [N, features]."""
    return nn.BatchNorm1d(features, eps=1e-3, momentum=0.01)


def initialise(model: nn.Module) -> None:
    """Keras's initial weights in place: Glorot-uniform kernels and zero biases of convolutions and dense layers."""
    for module in model.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
