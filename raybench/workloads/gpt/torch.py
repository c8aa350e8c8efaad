"""GPT-2 in PyTorch."""

from __future__ import annotations

import math

import torch
from torch import nn

from raybench.workloads.gpt import STD


class Block(nn.Module):
    """Causal attention and a dense network of one hidden layer, each of a norm and added to its input."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.attention_out = nn.Linear(width, width)
        self.dense_norm = nn.LayerNorm(width)
        self.dense = nn.Linear(width, 4 * width)
        self.dense_out = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[N, tokens, width] to the same shape."""
        parts = self.qkv(self.attention_norm(x)).chunk(3, 2)
        q, k, v = (part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in parts)
        attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attention_out(attended.transpose(1, 2).flatten(2))
        out: torch.Tensor = x + self.dense_out(nn.functional.gelu(self.dense(self.dense_norm(x))))
        return out


class GPT(nn.Module):
    """Embeddings of tokens and positions, blocks, a norm, and logits by the embedding of tokens."""

    def __init__(self, layers: int, width: int, heads: int, context: int, vocabulary: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif parameter.dim() == 2:
                nn.init.normal_(parameter, std=STD / math.sqrt(2 * layers) if "_out." in name else STD)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Tokens [N, context] to logits [N, context, vocabulary]."""
        x = self.tokens(inputs) + self.positions.weight
        for block in self.blocks:
            x = block(x)
        return nn.functional.linear(self.norm(x), self.tokens.weight)


def build(layers: int = 6, width: int = 384, heads: int = 6, context: int = 256, vocabulary: int = 256) -> nn.Module:
    """Build the network: tokens [N, context] to logits [N, context, vocabulary]."""
    if width % heads:
        raise ValueError(f"model.width: {width} is not a multiple of the {heads} heads")
    return GPT(layers, width, heads, context, vocabulary)
