"""The digits CNN in PyTorch."""

from __future__ import annotations

from torch import nn


def conv(inputs: int, outputs: int) -> nn.Sequential:
    """3×3 convolution, batch norm, ReLU, at constant image size."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    )


def build() -> nn.Module:
    """Build the network of 75,114 parameters: [N, 1, 8, 8] to logits [N, 10]."""
    return nn.Sequential(
        conv(1, 32),
        conv(32, 32),
        conv(32, 32),
        nn.MaxPool2d(2),
        conv(32, 64),
        conv(64, 64),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.25),
        nn.Linear(64, 10),
    )
