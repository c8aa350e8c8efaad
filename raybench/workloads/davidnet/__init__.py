"""DavidNet on CIFAR-10: D. Page's nine-layer residual network of 2018.

It reaches 94 % in 24 epochs.

Source: D. Page, "How to train your ResNet", 2018: a median of 94.08 % in about 79 s on a V100, where 35 of 50 runs
reach 94 %; another run took 74 s. The original sums the loss over the batch, divides the rate by the batch size and
multiplies the decay by it; in the mean-loss convention used here, the result is the rate and the decay below,
independent of the batch size. `model: {width: 8}` has 8 channels in the first layer instead of 64, for a CPU.
"""

from __future__ import annotations

from raybench.workloads.base import Workload, in_each

WORKLOAD = Workload(
    name="davidnet",
    model=in_each(__name__),
    options={"width": 64},
    small_model={"width": 8},
    dataset="cifar10",
    mean=(125.31, 122.95, 113.87),
    std=(62.99, 62.09, 66.70),
    defaults={
        "epochs": 24,
        "batch_size": 512,
        "optimizer": "sgd",
        "learning_rate": 0.4,
        "momentum": 0.9,
        "nesterov": True,
        "weight_decay": 5e-4,
        "schedule": {"name": "piecewise_linear", "points": [[0, 0.0], [5, 1.0], [24, 0.0]], "stretch": True},
        "augmentation": [{"crop": 4}, "flip", {"cutout": 8}],
        "channels_last": True,
    },
)
