"""DavidNet in PyTorch."""

from __future__ import annotations

import torch
from torch import nn


def conv(inputs: int, outputs: int) -> nn.Sequential:
    """3×3 convolution, batch norm, ReLU, at constant image size."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


def halved(inputs: int, outputs: int) -> nn.Sequential:
    """A convolution, then 2×2 pooling."""
    return nn.Sequential(conv(inputs, outputs), nn.MaxPool2d(2))


class Residual(nn.Module):
    """The input plus two convolutions of it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(conv(width, width), conv(width, width))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """[N, channels, height, width] to the same shape."""
        out: torch.Tensor = inputs + self.branch(inputs)
        return out


class Scale(nn.Module):
    """Multiplies by a constant, so that the initial logits are small."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Any shape to the same shape."""
        return inputs * self.factor


def build() -> nn.Module:
    """Build the network of 6,573,120 parameters: [N, 3, 32, 32] to logits [N, 10]."""
    return nn.Sequential(
        conv(3, 64),
        halved(64, 128),
        Residual(128),
        halved(128, 256),
        halved(256, 512),
        Residual(512),
        nn.MaxPool2d(4),
        nn.Flatten(),
        nn.Linear(512, 10, bias=False),
        Scale(0.125),
    )
