"""Layers, losses and metrics of both residual U-nets, in PyTorch.

Outputs are logits [N, 2, height, width], the mask and the depth; targets are bytes of that shape, 255 for a mask's
inside and for the depth of the farthest point.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

SMOOTH = 1.0
"""Term added to numerator and denominator of Dice.

It gives an empty mask a value."""


def conv(inputs: int, outputs: int, size: int) -> nn.Conv2d:
    """A convolution without bias that keeps the image size."""
    return nn.Conv2d(inputs, outputs, size, padding=size // 2, bias=False)


def pre_activated(inputs: int, outputs: int) -> nn.Sequential:
    """Two sequences of batch norm, ReLU, 3×3 convolution."""
    return nn.Sequential(
        nn.BatchNorm2d(inputs),
        nn.ReLU(),
        conv(inputs, outputs, 3),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
        conv(outputs, outputs, 3),
    )


class Residual(nn.Module):
    """Two pre-activated convolutions plus a shortcut of a 1×1 convolution and batch norm."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.beside = nn.Sequential(conv(inputs, outputs, 1), nn.BatchNorm2d(outputs))
        self.main = pre_activated(inputs, outputs)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """[N, inputs, height, width] to [N, outputs, height, width]."""
        out: torch.Tensor = self.beside(inputs) + self.main(inputs)
        return out


class Up(nn.Module):
    """Double the height and width, and join the encoder's outputs.

    Args:
        inputs, outputs: channels.
        skip_widths: channels of each joined tensor, which is added after a 1×1 convolution.
        concatenate: concatenate the tensors unchanged instead.
    """

    def __init__(self, inputs: int, outputs: int, skip_widths: tuple[int, ...], concatenate: bool) -> None:
        super().__init__()
        self.grow = conv(inputs, 4 * inputs, 1)
        self.shuffle = nn.PixelShuffle(2)
        self.concatenate = concatenate
        self.joins = nn.ModuleList([] if concatenate else [conv(width, inputs, 1) for width in skip_widths])
        self.block = Residual(inputs + sum(skip_widths) if concatenate else inputs, outputs)

    def forward(self, inputs: torch.Tensor, skips: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """[N, inputs, height, width] to [N, outputs, 2 · height, 2 · width]."""
        out = self.shuffle(self.grow(inputs))
        if self.concatenate:
            out = torch.cat([out, *skips], 1)
        for join, values in zip(self.joins, skips, strict=False):
            out = out + join(values)
        result: torch.Tensor = self.block(out)
        return result


def binary(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Mean binary cross-entropy over each image: twice [N, height, width] to [N]."""
    return nn.functional.binary_cross_entropy_with_logits(logits, targets, reduction="none").mean((1, 2))


def both(targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mask and depth from 0 to 1, [N, height, width] each."""
    values = targets.to(torch.float32) / 255
    return values[:, 0], values[:, 1]


def loss_v1(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Binary cross-entropy of the mask, plus twice that of the depth; [N]."""
    mask, depth = both(targets)
    return binary(outputs[:, 0], mask) + 2 * binary(outputs[:, 1], depth)


def loss_v2(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The second version's loss; [N].

    Cross-entropy plus twice Dice of the mask, plus twice the root of the depth's mean squared error.
    """
    mask, depth = both(targets)
    predicted, axes = outputs[:, 0].sigmoid(), (1, 2)
    overlap = 2 * (predicted * mask).sum(axes) + SMOOTH
    dice = 1 - overlap / (predicted.sum(axes) + mask.sum(axes) + SMOOTH)
    error = ((outputs[:, 1].sigmoid() - depth) ** 2).mean(axes)
    return binary(outputs[:, 0], mask) + 2 * dice + 2 * (error + 1e-6).sqrt()


def metrics(outputs: torch.Tensor, targets: torch.Tensor) -> dict[str, Any]:
    """`mask_iou` and `depth_rmse`; [N].

    Intersection over union (1 if both are empty), and the root mean squared error relative to the range.
    """
    mask, depth = both(targets)
    predicted, actual, axes = outputs[:, 0] > 0, mask > 0.5, (1, 2)
    common = (predicted & actual).sum(axes)
    union = (predicted | actual).sum(axes)
    iou = torch.where(union > 0, common / union.clamp(min=1), 1.0)
    return {"mask_iou": iou, "depth_rmse": ((outputs[:, 1].sigmoid() - depth) ** 2).mean(axes).sqrt()}
