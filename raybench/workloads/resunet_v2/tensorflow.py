"""The second residual U-net in Keras."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers

from raybench.datasets.synthetic_scenes import SIDE
from raybench.workloads.resunet_tensorflow import conv, logits, pre_activated, residual, up
from raybench.workloads.resunet_v2 import DEPTH, DOWN, MASK


def build(side: int = SIDE) -> Any:
    """Build the network: [N, side, side, 6] to logits [N, 2, side, side], always float32.

    15,855,712 parameters.

    Args:
        side: of the images; the weights are independent of it.
    """
    inputs = keras.Input((side, side, 6))
    skips, out = [], conv(inputs, DOWN[0], 5, "stem")
    for index, width in enumerate(DOWN[1:]):
        skips.append(residual(out, width, f"down.{index}"))
        out = layers.MaxPooling2D(2)(skips[-1])
    mask = depth = pre_activated(out, 512, "bridge")
    for index, (depth_width, mask_width, skip) in enumerate(zip(DEPTH, MASK, reversed(skips), strict=True)):
        depth = up(depth, depth_width, [skip], False, f"depth.{index}")
        mask = up(mask, mask_width, [skip, depth], False, f"mask.{index}")
    out = logits(conv(mask, 1, 1, "mask_head"), conv(depth, 1, 1, "depth_head"))
    return keras.Model(inputs, out, name="resunet_v2")
