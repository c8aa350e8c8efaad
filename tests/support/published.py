"""What is known of the shipped models, whatever framework they are in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Known:
    """What was published of a model, or follows from it.

    `shape` is one example's, pictures with their channels last; `words` is how many there are where examples are texts,
    and 0 where they are pictures. `slow` models are trained on fewer examples in tests.
    """

    name: str
    trained: int
    statistics: int
    megaflops: float | None
    shape: tuple[int, ...]
    outputs: tuple[int, ...] = (10,)
    published_in_keras: bool = True
    words: int = 0
    slow: bool = False

    def inputs(self, examples: int) -> Any:
        """As the model takes them: float32 [N, height, width, channels] or int64 [N, tokens]."""
        random = np.random.default_rng(0)
        if self.words:
            return random.integers(0, self.words, (examples, *self.shape))
        return random.normal(size=(examples, *self.shape)).astype(np.float32)

    def targets(self, examples: int) -> Any:
        """Classes; where outputs are pictures, pictures of bytes; where they are words, words."""
        if self.words and len(self.outputs) > 1:
            return np.random.default_rng(1).integers(0, self.words, (examples, self.outputs[0]))
        if len(self.outputs) > 1:
            return np.random.default_rng(1).integers(0, 2, (examples, *self.outputs)).astype(np.uint8) * 255
        return np.arange(examples) % (10 if self.outputs == (10,) else 2)


MODELS = {
    known.name: known
    for known in (
        Known("davidnet", 6_573_120, 4_480, 758.5, (32, 32, 3), published_in_keras=False),
        Known("katnoria_cnn", 111_498, 448, 6.8, (32, 32, 3)),
        Known("mnist_cnn", 250_698, 484, 2.59, (28, 28, 1)),
        Known("digits_cnn", 75_114, 448, None, (8, 8, 1), published_in_keras=False),
        Known("resunet", 30_264_844, 20_108, 23_289, (96, 96, 6), (2, 96, 96), published_in_keras=False, slow=True),
        Known("imdb_lstm", 2_691_713, 0, 21.0, (80,), outputs=(1,), words=20_000),
        Known("imdb_bilstm", 2_658_945, 0, 19.7, (100,), outputs=(1,), words=20_000),
        Known("imdb_cnn", 350_751, 0, 30.0, (400,), outputs=(1,), words=5_000),
        Known("resnet63", 15_187_722, 18_816, 4_466, (32, 32, 3), slow=True),
        Known("resnet50", 25_557_032, 53_120, 8_178, (224, 224, 3), (1000,), published_in_keras=False, slow=True),
        # 12 · width² weights in each of 6 blocks and a table of 256 tokens, all used twice for a token; and attention.
        Known("gpt", 10_844_160, 0, 6_090, (256,), (256, 256), published_in_keras=False, words=256, slow=True),
    )
}
