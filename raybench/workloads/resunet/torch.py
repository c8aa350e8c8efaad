"""The residual U-net in PyTorch, as published."""

from __future__ import annotations

import torch
from torch import nn

from raybench.workloads.resunet import SIDE, WIDTHS


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
        self.shortcut = nn.Sequential(conv(inputs, outputs, 1), nn.BatchNorm2d(outputs))
        self.main = pre_activated(inputs, outputs)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """[N, inputs, height, width] to [N, outputs, height, width]."""
        out: torch.Tensor = self.shortcut(inputs) + self.main(inputs)
        return out


class Up(nn.Module):
    """Double the height and width, and join the skip connections.

    Args:
        inputs, outputs: channels; each skip connection has as many as the output.
        skips: number of skip connections.
        concatenate: concatenate them; else their sum is added, after a 1×1 convolution.
    """

    def __init__(self, inputs: int, outputs: int, skips: int, concatenate: bool) -> None:
        super().__init__()
        self.grow = conv(inputs, 4 * inputs, 1)
        self.shuffle = nn.PixelShuffle(2)
        self.join = None if concatenate else conv(outputs, inputs, 1)
        self.block = Residual(inputs + skips * outputs if concatenate else inputs, outputs)

    def forward(self, inputs: torch.Tensor, skips: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """[N, inputs, height, width] to [N, outputs, 2 · height, 2 · width]."""
        out = self.shuffle(self.grow(inputs))
        out = out + self.join(sum(skips)) if self.join else torch.cat([out, *skips], 1)
        result: torch.Tensor = self.block(out)
        return result


class ResUNet(nn.Module):
    """One encoder and two decoders; the mask's receives the output of the depth's at every scale."""

    def __init__(self, concatenate: bool) -> None:
        super().__init__()
        self.down = nn.ModuleList(map(Residual, (6, *WIDTHS[:-1]), WIDTHS))
        self.pool = nn.MaxPool2d(2)
        self.bridge = pre_activated(512, 512)
        widths = list(zip((512, *WIDTHS[:0:-1]), reversed(WIDTHS), strict=True))
        self.depth = nn.ModuleList(Up(inputs, outputs, 1, concatenate) for inputs, outputs in widths)
        self.mask = nn.ModuleList(Up(inputs, outputs, 2, concatenate) for inputs, outputs in widths)
        self.depth_head, self.mask_head = conv(64, 1, 1), conv(64, 1, 1)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """[N, 6, height, width], both multiples of 16, to logits [N, 2, height, width]."""
        skips, out = list[torch.Tensor](), inputs
        for block in self.down:
            skips.append(block(out))
            out = self.pool(skips[-1])
        mask = depth = self.bridge(out)
        for skip, depth_up, mask_up in zip(reversed(skips), self.depth, self.mask, strict=True):
            depth = depth_up(depth, (skip,))
            mask = mask_up(mask, (skip, depth))
        return torch.cat([self.mask_head(mask), self.depth_head(depth)], 1)


def build(skip: str = "add", side: int = SIDE) -> nn.Module:
    """Build the network: [N, 6, side, side] to logits [N, 2, side, side].

    30,264,844 parameters, with `concat` 39,847,052.

    Args:
        skip: "add" or "concat".
        side: of the images; the weights are independent of it.
    """
    if skip not in ("add", "concat"):
        raise ValueError(f"model.skip: {skip!r} is neither 'add' nor 'concat'")
    return ResUNet(skip == "concat")


def loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of the mask plus twice that of the depth [N], from logits and bytes [N, 2, height, width]."""
    values = targets.to(torch.float32) / 255
    mask, depth = (
        nn.functional.binary_cross_entropy_with_logits(outputs, values, reduction="none").mean((2, 3)).unbind(1)
    )
    return mask + 2 * depth


def metrics(outputs: torch.Tensor, targets: torch.Tensor) -> dict[str, torch.Tensor]:
    """`mask_iou`: intersection over union, 1 if both are empty; [N]."""
    predicted, actual = outputs[:, 0] > 0, targets[:, 0] > 127
    union = (predicted | actual).sum((1, 2))
    return {"mask_iou": torch.where(union > 0, (predicted & actual).sum((1, 2)) / union.clamp(min=1), 1.0)}
