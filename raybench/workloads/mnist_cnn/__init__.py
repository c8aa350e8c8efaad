"""The CNN of a Keras tutorial on MNIST, on a TPU and on a T4.

Its text reports 99.2 % on the T4 and usually 99.4 % on the TPU. Derived from its notebooks: the TPU is 4.1x faster in
steady training and 0.85 × end to end.

Its learning rate is 1e-4 + 1e-2 · exp(-step / 2000).
"""

from __future__ import annotations

from raybench.workloads.base import Workload, in_each

WORKLOAD = Workload(
    name="mnist_cnn",
    model=in_each(__name__),
    dataset="mnist",
    std=(255.0,),
    defaults={
        "epochs": 24,
        "batch_size": 256,
        "optimizer": "adam",
        "learning_rate": 1e-2,
        "schedule": {"name": "exponential", "decay_steps": 2000.0, "floor": 0.01},
    },
)
