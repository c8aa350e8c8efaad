"""The katnoria CNN in PyTorch."""

from __future__ import annotations

from torch import nn

from raybench.workloads.keras_init_in_torch import batch_norm, initialize


def block(inputs: int, outputs: int) -> nn.Sequential:
    """3×3 convolution, ReLU, batch norm, then 3×3 pooling, rounded down."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1),
        nn.ReLU(),
        batch_norm(outputs),
        nn.MaxPool2d(3, stride=3),
    )


def build() -> nn.Module:
    """Build the network: [N, 3, 32, 32] to logits [N, 10].

    111,498 parameters and 448 running statistics. The last layer has a ReLU, as published: no logit is below 0.
    """
    return initialize(
        nn.Sequential(
            block(3, 32),
            block(32, 64),
            block(64, 128),
            nn.Flatten(),
            nn.Linear(128, 128),
            nn.ReLU(),
            nn.Dropout(0.4),
            nn.Linear(128, 10),
            nn.ReLU(),
        )
    )
