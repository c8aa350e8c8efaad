"""Test-time augmentation: the model's outputs as an average over several views of each picture."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from raybench.engines.images import TestTimeViews


def views(pictures: torch.Tensor, what: TestTimeViews) -> Iterator[tuple[float, torch.Tensor]]:
    """Each view of pictures [batch, channels, height, width], with its weight; all weights add up to 1.

    All lie in memory as the pictures do, so that to a compiler they are one shape.
    """
    height, width = pictures.shape[-2:]
    last = pictures.is_contiguous(memory_format=torch.channels_last)
    layout = torch.channels_last if last else torch.contiguous_format
    border = what.shift
    padded = torch.nn.functional.pad(pictures, (border,) * 4, "reflect") if border else pictures
    for weight, corner in what.windows:
        view = padded[..., corner : corner + height, corner : corner + width].contiguous(memory_format=layout)
        if what.mirror:
            yield weight / 2, view
            yield weight / 2, view.flip(-1)
        else:
            yield weight, view


def averaged(
    outputs: Callable[[torch.Tensor], torch.Tensor], pictures: torch.Tensor, what: TestTimeViews
) -> torch.Tensor:
    """The average of a model's outputs [batch, classes] over the views of a batch.

    Raises:
        ValueError: the outputs have places, which move with the picture.
    """
    total = torch.zeros(())
    for weight, view in views(pictures, what):
        found = outputs(view)
        if not isinstance(found, torch.Tensor) or found.ndim > 2:
            raise ValueError("test_time_augmentation is for models whose outputs are classes, [batch, classes]")
        total = weight * found if total.ndim == 0 else total + weight * found
    return total
