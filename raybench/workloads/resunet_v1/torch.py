"""The first residual U-net in PyTorch, as published."""

from __future__ import annotations

import torch
from torch import nn

from raybench.datasets.synthetic_scenes import SIDE
from raybench.workloads.resunet_torch import Residual, Up, conv, pre_activated


class ResUNet(nn.Module):
    """One encoder and two decoders.

    The mask's decoder receives the depth decoder's output at every scale.
    """

    def __init__(self, concatenate: bool) -> None:
        super().__init__()
        self.down = nn.ModuleList(Residual(*pair) for pair in ((6, 64), (64, 128), (128, 256), (256, 512)))
        self.pool = nn.MaxPool2d(2)
        self.bridge = pre_activated(512, 512)
        widths = ((512, 512), (512, 256), (256, 128), (128, 64))
        self.depth = nn.ModuleList(Up(inputs, outputs, (outputs,), concatenate) for inputs, outputs in widths)
        joins = 2 if concatenate else 1
        self.mask = nn.ModuleList(Up(inputs, outputs, (outputs,) * joins, concatenate) for inputs, outputs in widths)
        self.concatenate = concatenate
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
            mask = mask_up(mask, (skip, depth) if self.concatenate else (skip + depth,))
        return torch.cat([self.mask_head(mask), self.depth_head(depth)], 1)


def build(concatenate: bool = False, side: int = SIDE) -> nn.Module:
    """Build the network: [N, 6, side, side] to logits [N, 2, side, side].

    30,264,844 parameters without `concatenate`.

    Args:
        concatenate: build the earlier form, which concatenates where this one adds.
        side: of the images; the weights are independent of it.
    """
    return ResUNet(concatenate)
