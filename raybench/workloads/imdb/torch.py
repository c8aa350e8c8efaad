"""The networks for film reviews in PyTorch."""

from __future__ import annotations

import torch
from torch import nn

from raybench.workloads.imdb import CNN_WORDS, WORDS
from raybench.workloads.keras_init_in_torch import initialize


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


class ReviewLSTM(nn.Module):
    """Embedding, LSTM, one logit. Dropout has the same mask at every token of an example, as in Keras."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 128)
        self.dropout = nn.Dropout1d(0.2)
        self.lstm = nn.LSTM(128, 128, batch_first=True)
        self.dense = nn.Linear(128, 1)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Tokens [N, 80] to logits [N, 1]."""
        embedded = self.dropout(self.embedding(inputs).transpose(1, 2)).transpose(1, 2)
        _, (hidden, _) = self.lstm(embedded)
        logits: torch.Tensor = self.dense(hidden[0])
        return logits


class ReviewCNN(nn.Module):
    """Embedding, convolution over three tokens, global max pooling, two dense layers."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(CNN_WORDS, 50)
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


def bilstm() -> nn.Module:
    """Build the bidirectional LSTM of 2,658,945 parameters, not counting second biases that are frozen at zero."""
    return initialize(ReviewBiLSTM())


def lstm(recurrent_dropout: float = 0.0) -> nn.Module:
    """Build the LSTM of 2,691,713 parameters, not counting a second bias that is frozen at zero.

    Args:
        recurrent_dropout: only 0, as `nn.LSTM` has none.
    """
    if recurrent_dropout:
        raise ValueError("model.recurrent_dropout needs the framework tensorflow: torch's LSTM has none")
    return initialize(ReviewLSTM())


def cnn() -> nn.Module:
    """Build the convolutional network of 350,751 parameters."""
    return initialize(ReviewCNN())


def loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Binary cross-entropy per example [N], from logits [N, 1] and classes 0 and 1 [N]."""
    return nn.functional.binary_cross_entropy_with_logits(outputs[:, 0], targets.to(outputs.dtype), reduction="none")


def metrics(outputs: torch.Tensor, targets: torch.Tensor) -> dict[str, torch.Tensor]:
    """`accuracy`: 1 if the logit is above 0 exactly for class 1; [N]."""
    return {"accuracy": ((outputs[:, 0] > 0) == (targets > 0)).to(torch.float32)}
