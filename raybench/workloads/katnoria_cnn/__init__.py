"""A small Keras CNN on CIFAR-10, with published times on three devices.

Published: 32 s on a GTX 1080 Ti, 86 s on a K80 and 136 s on a Colab TPU. At 6 % of a 1080 Ti's peak it measures the
host more than the card: the negative control among the workloads. The published runs have 25 epochs of 40 steps, which
is one pass over the 40,000 examples with its incomplete last batch; here that batch is dropped and a pass has 39 steps.
`steps_per_epoch: 40` gives the published number.
"""

from __future__ import annotations

from raybench.workloads.base import Workload, in_each

WORKLOAD = Workload(
    name="katnoria_cnn",
    model=in_each(__name__),
    dataset="cifar10",
    held_out=10_000,
    defaults={
        "epochs": 25,
        "batch_size": 1024,
        "optimizer": "adam",
        "learning_rate": 1e-3,
    },
)
