"""Test-time augmentation: the average output over several views of each image."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from raybench.engines.images import AugmentedViews


def views(pictures: torch.Tensor, settings: AugmentedViews) -> Iterator[tuple[float, torch.Tensor]]:
    """Yield each view of images [batch, channels, height, width] with its weight.

    The weights add up to 1. All views have the memory layout of the images, so that they are one shape for a compiler.
    """
    height, width = pictures.shape[-2:]
    is_channels_last = pictures.is_contiguous(memory_format=torch.channels_last)
    layout = torch.channels_last if is_channels_last else torch.contiguous_format
    border = settings.shift
    padded = torch.nn.functional.pad(pictures, (border,) * 4, "reflect") if border else pictures
    for weight, corner in settings.windows:
        view = padded[..., corner : corner + height, corner : corner + width].contiguous(memory_format=layout)
        if settings.mirror:
            yield weight / 2, view
            yield weight / 2, view.flip(-1)
        else:
            yield weight, view


def averaged(
    outputs: Callable[[torch.Tensor], torch.Tensor], pictures: torch.Tensor, settings: AugmentedViews
) -> torch.Tensor:
    """Average of a model's outputs [batch, classes] over the views of a batch.

    Raises:
        ValueError: the outputs have spatial positions, which move with the image.
    """
    total = torch.zeros(())
    for weight, view in views(pictures, settings):
        view_outputs = outputs(view)
        if not isinstance(view_outputs, torch.Tensor) or view_outputs.ndim > 2:
            raise ValueError("test_time_augmentation is for models whose outputs are classes, [batch, classes]")
        total = weight * view_outputs if total.ndim == 0 else total + weight * view_outputs
    return total
