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


def build(width: int = 64) -> nn.Module:
    """Build the network, with a width of 64 of 6,573,120 parameters: [N, 3, 32, 32] to logits [N, 10]."""
    return nn.Sequential(
        conv(3, width),
        halved(width, 2 * width),
        Residual(2 * width),
        halved(2 * width, 4 * width),
        halved(4 * width, 8 * width),
        Residual(8 * width),
        nn.MaxPool2d(4),
        nn.Flatten(),
        nn.Linear(8 * width, 10, bias=False),
        Scale(0.125),
    )
