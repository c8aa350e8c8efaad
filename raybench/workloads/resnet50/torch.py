"""ResNet-50 in PyTorch."""

from __future__ import annotations

import torch
from torch import nn


def conv(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Sequential:
    """Convolution without bias, padded to keep the image size, and batch norm."""
    layer = nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)
    nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return nn.Sequential(layer, nn.BatchNorm2d(outputs))


class Bottleneck(nn.Module):
    """A 1×1, a 3×3 and a 1×1 convolution to four times the width, and a shortcut."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.first, self.second = conv(inputs, width, 1), conv(width, width, 3, stride)
        self.third = conv(width, 4 * width, 1)
        self.shortcut = nn.Identity() if inputs == 4 * width else conv(inputs, 4 * width, 1, stride)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """[N, channels, height, width] to four times the width of the block in channels."""
        out: torch.Tensor = self.third(self.second(self.first(inputs).relu_()).relu_())
        return out.add_(self.shortcut(inputs)).relu_()


def build() -> nn.Module:
    """Build the network of 25,557,032 parameters: [N, 3, 224, 224] to logits [N, 1000]."""
    blocks = list[nn.Module]()
    inputs = 64
    for stage, (width, depth) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for number in range(depth):
            blocks.append(Bottleneck(inputs, width, 2 if stage and not number else 1))
            inputs = 4 * width
    stem = [conv(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))
