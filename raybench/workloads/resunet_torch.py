"""The parts that both residual U-nets are made of, their losses and their metrics, in PyTorch.

Outputs are logits [N, 2, height, width], the mask and the depth; targets are bytes of that shape, 255 for a mask's
inside and for the depth of the farthest point.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

SMOOTH = 1.0
"""What Dice adds above and below, so that an empty mask has a value."""


def conv(inputs: int, outputs: int, size: int) -> nn.Conv2d:
    """A convolution without bias that keeps the size of the picture."""
    return nn.Conv2d(inputs, outputs, size, padding=size // 2, bias=False)


def pre_activated(inputs: int, outputs: int) -> nn.Sequential:
    """Twice batch norm, ReLU, convolution 3×3."""
    return nn.Sequential(
        nn.BatchNorm2d(inputs),
        nn.ReLU(),
        conv(inputs, outputs, 3),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
        conv(outputs, outputs, 3),
    )


class Residual(nn.Module):
    """Two convolutions beside the raw input, which passes a convolution 1×1 and batch norm."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.beside = nn.Sequential(conv(inputs, outputs, 1), nn.BatchNorm2d(outputs))
        self.main = pre_activated(inputs, outputs)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """[N, inputs, height, width] to [N, outputs, height, width]."""
        out: torch.Tensor = self.beside(inputs) + self.main(inputs)
        return out


class Up(nn.Module):
    """Twice the height and width, joined with what the way down had there.

    Args:
        inputs, outputs: channels.
        joined: of each tensor that is joined, the channels; each passes a convolution 1×1 and is added.
        concatenate: they stand beside one another instead, as they are.
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
    """Binary cross-entropy of each example, its mean over the picture: [N, height, width] twice to [N]."""
    return nn.functional.binary_cross_entropy_with_logits(logits, targets, reduction="none").mean((1, 2))


def both(targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mask and depth from 0 to 1, [N, height, width] each."""
    values = targets.to(torch.float32) / 255
    return values[:, 0], values[:, 1]


def loss_v1(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Binary cross-entropy of the mask and, twice, of the depth; [N]."""
    mask, depth = both(targets)
    return binary(outputs[:, 0], mask) + 2 * binary(outputs[:, 1], depth)


def loss_v2(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Cross-entropy and twice Dice of the mask, and twice the root of the depth's mean squared error; [N]."""
    mask, depth = both(targets)
    predicted, axes = outputs[:, 0].sigmoid(), (1, 2)
    overlap = 2 * (predicted * mask).sum(axes) + SMOOTH
    dice = 1 - overlap / (predicted.sum(axes) + mask.sum(axes) + SMOOTH)
    error = ((outputs[:, 1].sigmoid() - depth) ** 2).mean(axes)
    return binary(outputs[:, 0], mask) + 2 * dice + 2 * (error + 1e-6).sqrt()


def metrics(outputs: torch.Tensor, targets: torch.Tensor) -> dict[str, Any]:
    """`mask_iou`, intersection over union (1 where both are empty), and `depth_rmse`, in parts of the range; [N]."""
    mask, depth = both(targets)
    predicted, actual, axes = outputs[:, 0] > 0, mask > 0.5, (1, 2)
    common = (predicted & actual).sum(axes)
    union = (predicted | actual).sum(axes)
    iou = torch.where(union > 0, common / union.clamp(min=1), 1.0)
    return {"mask_iou": iou, "depth_rmse": ((outputs[:, 1].sigmoid() - depth) ** 2).mean(axes).sqrt()}
