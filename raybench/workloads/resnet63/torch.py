"""The residual network of 63 convolutions in PyTorch."""

from __future__ import annotations

import torch
from torch import nn

from raybench.workloads.keras_init_in_torch import batch_norm, initialize


class Block(nn.Module):
    """Two 3×3 convolutions plus a shortcut.

    The shortcut has a 1×1 convolution if the size changes. A stride of 2 is padded as TensorFlow's SAME pads an even
    size: one row below and one column to the right.
    """

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.first = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1 if stride == 1 else 0)
        self.first_norm = batch_norm(outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.second_norm = batch_norm(outputs)
        self.project: nn.Module = nn.Identity()
        self.project_norm: nn.Module = nn.Identity()
        if stride > 1:
            self.project = nn.Conv2d(inputs, outputs, 1, stride=stride)
            self.project_norm = batch_norm(outputs)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """[N, inputs, height, width] to [N, outputs, height / stride, width / stride]."""
        padded = inputs if self.stride == 1 else nn.functional.pad(inputs, (0, 1, 0, 1))
        out = self.first_norm(self.first(padded)).relu()
        out = self.second_norm(self.second(out))
        result: torch.Tensor = (out + self.project_norm(self.project(inputs))).relu()
        return result


class ResNet63(nn.Module):
    """An initial convolution, three groups of 10 blocks, global mean, dense layer."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 64, 3, padding=1)
        self.stem_norm = batch_norm(64)
        widths = [64] * 10 + [128] * 10 + [256] * 10
        pairs = zip([64, *widths], widths, strict=False)
        self.blocks = nn.Sequential(
            *(Block(inputs, outputs, 1 if inputs == outputs else 2) for inputs, outputs in pairs)
        )
        self.head = nn.Linear(256, 10)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """[N, 3, 32, 32] to logits [N, 10]."""
        out: torch.Tensor = self.blocks(self.stem_norm(self.stem(inputs)).relu())
        logits: torch.Tensor = self.head(out.mean((2, 3)))
        return logits


def build() -> nn.Module:
    """Build the network of 15,187,722 parameters: [N, 3, 32, 32] to logits [N, 10]."""
    return initialize(ResNet63())
