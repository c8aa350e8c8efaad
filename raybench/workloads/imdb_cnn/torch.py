"""The convolution for film reviews in PyTorch."""

from __future__ import annotations

import torch
from torch import nn

from raybench.workloads.imdb_cnn import WORDS
from raybench.workloads.keras_init_in_torch import initialise


class ReviewCNN(nn.Module):
    """Embedding, convolution over three tokens, global max pooling, two dense layers."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 50)
        self.dropout = nn.Dropout(0.2)
        self.conv = nn.Conv1d(50, 250, 3)
        self.hidden = nn.Linear(250, 250)
        self.hidden_dropout = nn.Dropout(0.2)
        self.dense = nn.Linear(250, 1)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Tokens [N, 400] to logits [N, 1]."""
        out = self.dropout(self.embedding(inputs)).transpose(1, 2)
        out = self.conv(out).relu().amax(2)
        logits: torch.Tensor = self.dense(self.hidden_dropout(self.hidden(out)).relu())
        return logits


def build() -> nn.Module:
    """Build the network of 350,751 parameters: tokens [N, 400] to logits [N, 1]."""
    model = ReviewCNN()
    initialise(model)
    return model
