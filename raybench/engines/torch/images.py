"""Image batches on the device: gather, crop, flip, normalize and cutout."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import repeat
from typing import NamedTuple, cast

import numpy as np
import torch

from raybench.datasets.splits import Array
from raybench.devices.cpu import TorchDevice
from raybench.engines.batch_order import Augmentation, EpochPlan
from raybench.engines.images import plain


def as_tensor(values: Array) -> torch.Tensor:
    """Convert an array to a tensor, of the types of `plain`."""
    return torch.from_numpy(plain(values))


class AugmentationDraws(NamedTuple):
    """An `EpochPlan` as tensors on one device.

    [steps, batch] for an epoch, [batch] for a step; None for a disabled augmentation. `corner` is the number of pixels
    in a stored image before the crop's window.
    """

    indices: torch.Tensor
    corner: torch.Tensor | None
    flip: torch.Tensor | None
    cut_top: torch.Tensor | None
    cut_left: torch.Tensor | None

    @classmethod
    def on(cls, order: EpochPlan, device: TorchDevice) -> AugmentationDraws:
        """Copy a drawn epoch to a device, so that no step waits for a copy.

        It is one copy of 32-bit numbers; the host does not wait for one from pinned memory. Of other memory the source
        would have to be kept until the copy has ended, as `mps` reads it later. On a CPU nothing is copied, and a lazy
        device needs a tensor for each input of its program.
        """
        draws = (order.index, order.corner, order.flip, order.cut_top, order.cut_left)
        given = [values for values in draws if values is not None]
        if device.synchronous or device.lazy:
            moved = iter([torch.from_numpy(values).to(device.torch_name) for values in given])
        else:
            packed = torch.from_numpy(np.stack(given, dtype=np.int32, casting="same_kind"))
            packed = packed.pin_memory() if device.pins_memory else packed
            moved = iter(packed.to(device.torch_name, non_blocking=device.pins_memory).long().unbind())
        return cls(next(moved), *(None if values is None else next(moved) for values in draws[1:]))

    def select(self, take: Callable[[torch.Tensor], torch.Tensor]) -> AugmentationDraws:
        """Apply the same selection to all draws."""
        return AugmentationDraws._make(None if values is None else take(values) for values in self)


def steps_of(epoch: AugmentationDraws) -> Iterator[AugmentationDraws]:
    """Yield the steps of an epoch, split at once: a selection of one would cost the host as much as a kernel."""
    yield from map(AugmentationDraws, *(repeat(None) if values is None else values.unbind() for values in epoch))


class ImageAugmenter:
    """Turns indices into normalized batches [batch, channels, height, width].

    Args:
        mean, std: per channel (or one for all), in units of the stored 0 to 255.
        size: height and width of a batch's images, without the border for crops.
        channels_last: whether the output has that memory format.

    Attributes:
        _cut_rows, _cut_columns: for each place where a cutout may begin, whether it covers each row of an image
            [places, height, 1, 1] and each column [places, 1, width, 1].
        _pixels: for an image and its mirror image, the distance of each pixel from the corner of the window in a stored
            image [2, height · width].
    """

    def __init__(
        self,
        mean: tuple[float, ...],
        std: tuple[float, ...],
        size: tuple[int, int],
        augmentation: Augmentation,
        device: torch.device,
        channels_last: bool,
    ) -> None:
        self._plain = set(mean) == {0.0} and set(std) == {1.0}
        self._mean = torch.tensor(mean, dtype=torch.float32, device=device)
        self._std = torch.tensor(std, dtype=torch.float32, device=device)
        rows, columns = (_covered(length, augmentation.cutout).to(device) for length in size)
        self._cut_rows, self._cut_columns = rows[:, :, None, None], columns[:, None, :, None]
        self._size = size
        self._layout = torch.preserve_format if channels_last else torch.contiguous_format
        rows, columns = torch.arange(size[0])[:, None] * (size[1] + 2 * augmentation.crop), torch.arange(size[1])
        self._pixels = torch.stack([rows + columns, rows + columns.flip(0)]).flatten(1).to(device)

    def gather(self, source: torch.Tensor, index: torch.Tensor, draws: AugmentationDraws) -> torch.Tensor:
        """Read a step's images as uint8 [batch, height, width, channels], cropped and flipped.

        `index` [batch] has their positions in `source`, which is on the same device.
        """
        if draws.corner is None and draws.flip is None:
            return source.index_select(0, index)
        _, height, width, channels = source.shape
        size = height * width
        corners = index * size if draws.corner is None else torch.add(draws.corner, index, alpha=size)
        if draws.flip is None:
            pixels = self._pixels[:1] + corners.unsqueeze(1)
        else:
            pixels = self._pixels.index_select(0, draws.flip).add_(corners.unsqueeze(1))
        return source.view(-1, channels).index_select(0, pixels.view(-1)).view(len(index), *self._size, channels)

    def finish(self, images: torch.Tensor, draws: AugmentationDraws | None = None) -> torch.Tensor:
        """Normalize uint8 images in float32, with a cutout of 0, the mean; convert them to the model's layout."""
        values = images.to(torch.float32) if self._plain else torch.sub(images, self._mean).div_(self._std)
        if draws is not None and draws.cut_top is not None:
            rows = self._cut_rows.index_select(0, draws.cut_top)
            columns = self._cut_columns.index_select(0, cast(torch.Tensor, draws.cut_left))
            values = values.masked_fill_(rows & columns, 0.0)
        return values.permute(0, 3, 1, 2).to(memory_format=self._layout)


def _covered(length: int, side: int) -> torch.Tensor:
    """Whether each pixel of a line is covered by a cutout, for each pixel where it may begin [places, length]."""
    start, pixels = torch.arange(max(length - side, 0) + 1)[:, None], torch.arange(length)
    return (pixels >= start) & (pixels < start + side)
