"""The bidirectional LSTM for film reviews in PyTorch."""

from __future__ import annotations

import torch
from torch import nn

from raybench.workloads.imdb_bilstm import WORDS
from raybench.workloads.keras_init_in_torch import initialise


class ReviewBiLSTM(nn.Module):
    """Embedding, bidirectional LSTM, and one logit from both last outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 128)
        self.lstm = nn.LSTM(128, 64, batch_first=True, bidirectional=True)
        self.dropout = nn.Dropout(0.5)
        self.dense = nn.Linear(128, 1)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Tokens [N, 100] to logits [N, 1]."""
        _, (hidden, _) = self.lstm(self.embedding(inputs))
        logits: torch.Tensor = self.dense(self.dropout(torch.cat([hidden[0], hidden[1]], 1)))
        return logits


def build() -> nn.Module:
    """Build the network of 2,658,945 parameters, without frozen second biases: tokens [N, 100] to logits [N, 1]."""
    model = ReviewBiLSTM()
    initialise(model)
    return model
