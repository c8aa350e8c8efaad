"""A residual network of 63 convolutions on CIFAR-10, published as single steps.

The published training uses the first 64 images, four times over. "A call" is one training step on the first 64 images;
a script makes 4 calls and is run 3 times, and calls 3 and 4 are averaged. Here each call is an epoch of one step, and
`warmup_epochs: 2` leaves calls 3 and 4 to the rule `mean_steady`. Published, in seconds of wall time: 0.178 on a GTX
1080, 9.30 on an i5-7500, 28.38 on a Mac mini of 2014. Nothing was evaluated; the few validation images here are outside
every rule's time.
"""

from __future__ import annotations

from raybench.workloads.base import Workload, in_each

WORKLOAD = Workload(
    name="resnet63",
    model=in_each(__name__),
    dataset="cifar10",
    std=(255.0,),
    defaults={
        "examples": {"train": 64, "val": 16},
        "epochs": 4,
        "steps_per_epoch": 1,
        "warmup_epochs": 2,
        "batch_size": 64,
        "optimizer": "adam",
        "learning_rate": 1e-3,
    },
)
