"""The first residual U-net in Keras."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers

from raybench.datasets.synthetic_scenes import SIDE
from raybench.workloads.resunet_tensorflow import conv, logits, pre_activated, residual, up


def build(concatenate: bool = False, side: int = SIDE) -> Any:
    """Build the network: [N, side, side, 6] to logits [N, 2, side, side], always float32.

    30,264,844 parameters without `concatenate`.

    Args:
        concatenate: build the earlier form, which concatenates where this one adds.
        side: of the images; the weights are independent of it.
    """
    inputs = keras.Input((side, side, 6))
    skips, out = [], inputs
    for index, width in enumerate((64, 128, 256, 512)):
        skips.append(residual(out, width, f"down.{index}"))
        out = layers.MaxPooling2D(2)(skips[-1])
    mask = depth = pre_activated(out, 512, "bridge")
    for index, (width, skip) in enumerate(zip((512, 256, 128, 64), reversed(skips), strict=True)):
        depth = up(depth, width, [skip], concatenate, f"depth.{index}")
        joined_skips = [skip, depth] if concatenate else [layers.Add()([skip, depth])]
        mask = up(mask, width, joined_skips, concatenate, f"mask.{index}")
    out = logits(conv(mask, 1, 1, "mask_head"), conv(depth, 1, 1, "depth_head"))
    return keras.Model(inputs, out, name="resunet_v1")
