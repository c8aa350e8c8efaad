"""ResNet-50 on random images of ImageNet's shape, as vendors' tables of training speed have it.

Its second form, with the stride in the 3×3 convolution, in PyTorch only: Keras has the first. An epoch is 100 steps,
and random images cannot be learned.
"""

from __future__ import annotations

from raybench.workloads.base import Workload

WORKLOAD = Workload(
    name="resnet50",
    model={"torch": "raybench.workloads.resnet50.torch:build"},
    dataset="imagenet-synthetic",
    mean=(123.675, 116.28, 103.53),
    std=(58.395, 57.12, 57.375),
    defaults={
        "epochs": 3,
        "steps_per_epoch": 100,
        "batch_size": 256,
        "evaluation_batch_size": 128,
        "optimizer": "sgd",
        "learning_rate": 0.1,
        "momentum": 0.9,
        "nesterov": False,
        "weight_decay": 1e-4,
        "channels_last": True,
    },
)
