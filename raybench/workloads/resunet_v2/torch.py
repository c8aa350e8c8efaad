"""The second residual U-net in PyTorch, as published."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import nn

from raybench.datasets.synthetic_scenes import SIDE
from raybench.workloads.resunet_torch import Residual, Up, conv, pre_activated
from raybench.workloads.resunet_v2 import DEPTH, DOWN, MASK


class ResUNet(nn.Module):
    """One encoder and two decoders.

    The mask's decoder receives the depth decoder's output at every scale.
    """

    def __init__(self) -> None:
        super().__init__()
        self.stem = conv(6, DOWN[0], 5)
        self.down = nn.ModuleList(Residual(*pair) for pair in pairwise(DOWN))
        self.pool = nn.MaxPool2d(2)
        self.bridge = pre_activated(512, 512)
        skips = DOWN[:0:-1]
        depth_widths = zip((512, *DEPTH), DEPTH, skips, strict=False)
        self.depth = nn.ModuleList(Up(inputs, outputs, (skip,), False) for inputs, outputs, skip in depth_widths)
        mask_widths = zip((512, *MASK), MASK, skips, DEPTH, strict=False)
        self.mask = nn.ModuleList(
            Up(inputs, outputs, (skip, depth), False) for inputs, outputs, skip, depth in mask_widths
        )
        self.depth_head, self.mask_head = conv(DEPTH[-1], 1, 1), conv(MASK[-1], 1, 1)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """[N, 6, height, width], both multiples of 16, to logits [N, 2, height, width]."""
        skips, out = list[torch.Tensor](), self.stem(inputs)
        for block in self.down:
            skips.append(block(out))
            out = self.pool(skips[-1])
        mask = depth = self.bridge(out)
        for skip, depth_up, mask_up in zip(reversed(skips), self.depth, self.mask, strict=True):
            depth = depth_up(depth, (skip,))
            mask = mask_up(mask, (skip, depth))
        return torch.cat([self.mask_head(mask), self.depth_head(depth)], 1)


def build(side: int = SIDE) -> nn.Module:
    """Build the network: [N, 6, side, side] to logits [N, 2, side, side].

    15,855,712 parameters.

    Args:
        side: of the images; the weights are independent of it.
    """
    return ResUNet()
