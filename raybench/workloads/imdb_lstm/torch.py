"""The LSTM for film reviews in PyTorch."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from raybench.workloads.imdb_lstm import WORDS
from raybench.workloads.keras_init_in_torch import initialise

WIDTH = 128


class DroppingLSTM(nn.LSTM):
    """An LSTM with recurrent dropout, with the same mask at every token.

    Its weights are those of `nn.LSTM`; it iterates over tokens in Python, since no fused kernel supports this.
    """

    def __init__(self, inputs: int, width: int, dropout: float) -> None:
        super().__init__(inputs, width, batch_first=True)
        self.recurrent_dropout = nn.Dropout(dropout)

    def forward(self, inputs: torch.Tensor) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:  # type: ignore[override]
        """Return the last output [N, width] and the last states [1, N, width].

        The inputs are [N, tokens, inputs]; the states are as in `nn.LSTM`.
        """
        hidden = memory = inputs.new_zeros(len(inputs), self.hidden_size)
        keep_mask = self.recurrent_dropout(torch.ones_like(hidden))
        this: Any = self
        projected = nn.functional.linear(inputs, this.weight_ih_l0, this.bias_ih_l0)
        for token in projected.unbind(1):
            gates = token + nn.functional.linear(hidden * keep_mask, this.weight_hh_l0, this.bias_hh_l0)
            enter, forget, cell, leave = gates.chunk(4, 1)
            memory = forget.sigmoid() * memory + enter.sigmoid() * cell.tanh()
            hidden = leave.sigmoid() * memory.tanh()
        return hidden, (hidden[None], memory[None])


class ReviewLSTM(nn.Module):
    """Embedding, LSTM, one logit.

    Dropout of the LSTM's input has the same mask at every token of an example, as in Keras.
    """

    def __init__(self, recurrent_dropout: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.dropout = nn.Dropout1d(0.2)
        self.lstm: nn.LSTM = nn.LSTM(WIDTH, WIDTH, batch_first=True)
        if recurrent_dropout > 0:
            self.lstm = DroppingLSTM(WIDTH, WIDTH, recurrent_dropout)
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
        recurrent_dropout: the dropout rate between tokens.
    """
    model = ReviewLSTM(recurrent_dropout)
    initialise(model)
    return model
