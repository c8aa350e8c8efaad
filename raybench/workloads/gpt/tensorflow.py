"""GPT-2 in Keras, with layers of the names of their equivalents in PyTorch."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import layers as parts
from keras import ops

from raybench.workloads.gpt import STD


class TiedEmbedding(parts.ReversibleEmbedding):  # type: ignore[misc]
    """An embedding of tokens that also computes the logits."""

    def multiply_accumulates(self, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> int:
        """Of a call, by the shapes of its input and its output."""
        return math.prod(outputs) * self.output_dim if outputs[-1] == self.input_dim and len(inputs) == 3 else 0


class CausalAttention(parts.Layer):  # type: ignore[misc]
    """Attention of each token to those before it, from their queries, keys and values."""

    def __init__(self, heads: int, **options: Any) -> None:
        super().__init__(**options)
        self.heads = heads

    def call(self, inputs: Any) -> Any:
        """[N, tokens, 3 · width] to [N, tokens, width]."""
        tokens, width = inputs.shape[1], inputs.shape[2] // 3
        q, k, v = ops.split(ops.reshape(inputs, (-1, tokens, 3 * self.heads, width // self.heads)), 3, axis=2)
        return ops.reshape(ops.dot_product_attention(q, k, v, is_causal=True), (-1, tokens, width))

    def multiply_accumulates(self, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> int:
        """Of a call, by the shapes of its input and its output: all pairs of tokens, as torch counts them."""
        return 2 * math.prod(outputs) * outputs[1]


class Positions(parts.Embedding):  # type: ignore[misc]
    """Adds an embedding of positions."""

    def call(self, inputs: Any) -> Any:
        """[N, tokens, width] to the same shape."""
        return inputs + ops.cast(self.embeddings, inputs.dtype)

    def compute_output_shape(self, input_shape: tuple[int, ...]) -> tuple[int, ...]:
        """The same shape."""
        return input_shape


def exact_gelu(inputs: Any) -> Any:
    """GELU without an approximation, as torch's."""
    return ops.gelu(inputs, approximate=False)


def norm(inputs: Any, name: str) -> Any:
    """torch's layer norm: eps 1e-5."""
    return parts.LayerNormalization(epsilon=1e-5, name=name)(inputs)


def build(layers: int = 6, width: int = 384, heads: int = 6, context: int = 256, vocabulary: int = 256) -> Any:
    """Build the network: tokens [N, context] to logits [N, context, vocabulary], always float32."""
    if width % heads:
        raise ValueError(f"model.width: {width} is not a multiple of the {heads} heads")

    def normal(std: float = STD) -> Any:  # a new one for each layer, as one returns the same values each time
        return keras.initializers.RandomNormal(0, std)

    def dense(inputs: Any, outputs: int, name: str, **options: Any) -> Any:
        std = STD / math.sqrt(2 * layers) if name.endswith("_out") else STD
        return parts.Dense(outputs, kernel_initializer=normal(std), name=name, **options)(inputs)

    tokens = TiedEmbedding(vocabulary, width, embeddings_initializer=normal(), name="tokens")
    inputs = keras.Input((context,), dtype="int64")
    x = Positions(context, width, embeddings_initializer=normal(), name="positions")(tokens(inputs))
    for block in (f"blocks.{number}" for number in range(layers)):
        qkv = dense(norm(x, f"{block}.attention_norm"), 3 * width, f"{block}.qkv")
        attended = CausalAttention(heads, name=f"{block}.attention")(qkv)
        x = x + dense(attended, width, f"{block}.attention_out")
        hidden = dense(norm(x, f"{block}.dense_norm"), 4 * width, f"{block}.dense", activation=exact_gelu)
        x = x + dense(hidden, width, f"{block}.dense_out")
    logits = tokens(norm(x, "norm"), reverse=True)
    return keras.Model(inputs, parts.Activation("linear", dtype="float32")(logits), name="gpt")
