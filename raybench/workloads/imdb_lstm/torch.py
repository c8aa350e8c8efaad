"""The LSTM for film reviews in PyTorch."""

from __future__ import annotations

import torch
from torch import nn

from raybench.workloads.imdb_lstm import WORDS
from raybench.workloads.keras_init_in_torch import initialise

WIDTH = 128


class ReviewLSTM(nn.Module):
    """Embedding, LSTM, one logit. Dropout has the same mask at every token of an example, as in Keras."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.dropout = nn.Dropout1d(0.2)
        self.lstm = nn.LSTM(WIDTH, WIDTH, batch_first=True)
        self.dense = nn.Linear(WIDTH, 1)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Tokens [N, 80] to logits [N, 1]."""
        embedded = self.dropout(self.embedding(inputs).transpose(1, 2)).transpose(1, 2)
        _, (hidden, _) = self.lstm(embedded)
        logits: torch.Tensor = self.dense(hidden[0])
        return logits


def build(recurrent_dropout: float = 0.0) -> nn.Module:
    """Build the network: tokens [N, 80] to logits [N, 1].

    2,691,713 parameters, not counting a second bias that is frozen at zero.

    Args:
        recurrent_dropout: only 0, as `nn.LSTM` has none.
    """
    if recurrent_dropout:
        raise ValueError("model.recurrent_dropout needs the framework tensorflow: torch's LSTM has none")
    model = ReviewLSTM()
    initialise(model)
    return model
