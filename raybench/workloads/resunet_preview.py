"""Preview of the U-nets' predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from raybench.datasets.splits import Array


def draw(inputs: Array, targets: Array, outputs: Array) -> Array:
    """Draw one row of images per example.

    A row has the background, the image, the true and predicted mask, and the true and predicted depth.

    Args:
        inputs: uint8 [N, height, width, 6].
        targets: uint8 [N, 2, height, width].
        outputs: logits of the targets' shape.

    Returns:
        uint8 [N · height, 6 · width, 3].
    """
    import numpy as np

    predicted = 255 / (1 + np.exp(-np.clip(outputs, -30, 30)))
    predicted[:, 0] = np.where(outputs[:, 0] > 0, 255, 0)
    grey = np.stack([targets, np.rint(predicted).astype(np.uint8)], 2).reshape(len(targets), 4, *targets.shape[2:])
    panels = [inputs[..., :3], inputs[..., 3:], *(np.repeat(grey[:, index, ..., None], 3, -1) for index in range(4))]
    sheet: Array = np.concatenate(np.concatenate(panels, 2), 0)
    return sheet
