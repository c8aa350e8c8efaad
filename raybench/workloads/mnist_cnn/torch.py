"""The MNIST CNN in PyTorch."""

from __future__ import annotations

from torch import nn

from raybench.workloads.keras_init_in_torch import batch_norm, batch_norm_1d, initialize


def conv(inputs: int, outputs: int, kernel: int, stride: int) -> nn.Sequential:
    """Convolution without bias, batch norm, ReLU, with TensorFlow's SAME padding.

    SAME pads ceil(size / stride) · stride - stride + kernel - size in total, an odd one at the end. For the sizes here
    (28 and 14) both sides are equal, so torch's symmetric padding is exact.
    """
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=(kernel - stride) // 2, bias=False),
        batch_norm(outputs),
        nn.ReLU(),
    )


def build() -> nn.Module:
    """Build the network of 250,698 parameters: [N, 1, 28, 28] to logits [N, 10]."""
    return initialize(
        nn.Sequential(
            conv(1, 6, kernel=3, stride=1),
            conv(6, 12, kernel=6, stride=2),
            conv(12, 24, kernel=6, stride=2),
            nn.Flatten(),
            nn.Linear(24 * 7 * 7, 200, bias=False),
            batch_norm_1d(200),
            nn.ReLU(),
            nn.Dropout(0.5),
            nn.Linear(200, 10, bias=False),
        )
    )
