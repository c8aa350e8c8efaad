"""The katnoria CNN in PyTorch."""

from __future__ import annotations

from torch import nn

from raybench.workloads.keras_init_in_torch import batch_norm, initialise


def block(inputs: int, outputs: int) -> nn.Sequential:
    """Convolution 3×3, ReLU, batch norm, then a third of the height and width, rounded down."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1),
        nn.ReLU(),
        batch_norm(outputs),
        nn.MaxPool2d(3, stride=3),
    )


def build() -> nn.Module:
    """111,498 parameters and 448 running statistics; [N, 3, 32, 32] to logits [N, 10].

    The last layer has a ReLU, as published: no logit is below 0.
    """
    model = nn.Sequential(
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
    initialise(model)
    return model
