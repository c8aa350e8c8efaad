"""Image batches inside the compiled step: gather, crop, flip, normalize and cutout."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from raybench.datasets.splits import Array
from raybench.engines.batch_order import Augmentation, EpochPlan

DRAWS = ("top", "left", "flip", "cut_top", "cut_left")


def draws_of(order: EpochPlan) -> dict[str, Array]:
    """The active draws of an epoch, each [steps, batch]."""
    return {name: values for name in DRAWS if (values := getattr(order, name)) is not None}


class ImageAugmenter:
    """Turns stored images into augmented, normalized batches [batch, height, width, channels].

    It is the only layout of TensorFlow.

    Args:
        mean, std: per channel (or one for all), in units of the stored 0 to 255.
        size: height and width of a batch's images, without the border for crops.
    """

    def __init__(
        self, mean: tuple[float, ...], std: tuple[float, ...], size: tuple[int, int], augmentation: Augmentation
    ) -> None:
        self._as_stored = set(mean) == {0.0} and set(std) == {1.0}
        self._mean, self._std = np.array(mean, np.float32), np.array(std, np.float32)
        self._size, self._cutout = size, augmentation.cutout

    def augment(self, images: tf.Tensor, draws: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """A training batch from stored images [batch, …] and the step's draws, each [batch]."""
        return self.finish(self.crop_and_flip(images, draws), draws)

    def crop_and_flip(self, images: tf.Tensor, draws: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Crop and flip stored images [batch, height, width, channels] by the step's draws, each [batch].

        Returns:
            The same bytes, uint8 or as floats: TensorFlow has no GPU kernel that gathers uint8 from a tensor, and would
            copy the images to the host and back.
        """
        if not draws.keys() & {"top", "flip"}:
            return images
        height, width = self._size
        rows, columns = self._places(height)[None, :, None], self._places(width)[None, None, :]
        if "flip" in draws:
            columns = tf.where(draws["flip"][:, None, None] > 0, width - 1 - columns, columns)
        if "top" in draws:
            rows, columns = rows + draws["top"][:, None, None], columns + draws["left"][:, None, None]
        batch, source_height, source_width, channels = images.shape
        rows += self._places(batch)[:, None, None] * source_height
        pixels = tf.reshape(tf.cast(images, tf.float32), [-1, channels])  # an index per pixel is faster than three
        return tf.gather(pixels, rows * source_width + columns)

    def finish(self, images: tf.Tensor, draws: Mapping[str, tf.Tensor] | None = None) -> tf.Tensor:
        """Normalize images of values 0 to 255 to floats; set a cutout to 0, the mean."""
        values = tf.cast(images, tf.float32)
        if not self._as_stored:
            values = (values - self._mean) / self._std
        if draws and "cut_top" in draws:
            rows = self._inside(self._size[0], draws["cut_top"])
            columns = self._inside(self._size[1], draws["cut_left"])
            values = tf.where((rows[:, :, None] & columns[:, None, :])[..., None], 0.0, values)
        return values

    def _inside(self, length: int, start: tf.Tensor) -> tf.Tensor:
        places = self._places(length)[None, :]
        return (places >= start[:, None]) & (places < start[:, None] + self._cutout)

    @staticmethod
    def _places(length: int) -> tf.Tensor:
        return tf.range(length, dtype=tf.int64)  # as the draws; TensorFlow would keep int32 in host memory
