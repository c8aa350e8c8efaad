"""A residual U-net for foreground mask and depth; its first published form.

Published: an epoch in 2,331 s on a P100 and about 740 s on a TPUv2-8, "3X"; derived from its logs: 1.96 ×. On a P100
17,500 images in 170.1, 157.5, 149.6 and 145.6 s at batches of 16, 32, 64 and 128, and out of memory at 256. Adam at
1e-2 on the GPU, SGD at .08 with 8 × 32 on the TPU. The original 400,000 images are private: these are synthetic, as the
data set's name says. `model: {concatenate: true}` is the earlier form, which ran out of the card's memory at batch 128;
`model: {side: 32}` has images of 32×32, for a CPU or a test run.
"""

from __future__ import annotations

from raybench.datasets.synthetic_scenes import SIDE
from raybench.workloads.base import Workload
from raybench.workloads.resunet_resize import prepared
from raybench.workloads.twins import twins

WORKLOAD = Workload(
    name="resunet_v1",
    model={
        "torch": "raybench.workloads.resunet_v1.torch:build",
        "tensorflow": "raybench.workloads.resunet_v1.tensorflow:build",
    },
    options={"concatenate": False, "side": SIDE},
    prepare=prepared,
    data_options=("side",),
    dataset="scenes-synthetic",
    examples={"train": 17_500, "val": 1_000},
    std=(255.0,),
    loss=twins("resunet", "loss_v1"),
    metrics=twins("resunet", "metrics"),
    preview="raybench.workloads.resunet_preview:draw",
    metric_names=("mask_iou", "depth_rmse"),
    defaults={
        "epochs": 1,
        "batch_size": 128,
        "evaluation_batch_size": 100,
        "optimizer": "adam",
        "learning_rate": 1e-2,
        "warmup_epochs": 0,
    },
    # Of its millions of ReLUs some always have an input within rounding of 0. Measured: torch against TensorFlow on two
    # cores, images of 32×32, batches of 16.
    parity_tolerance={
        "gradients": 0.006,  # 0.0018; torch alone, in its two memory layouts: 0.0013
        "statistics": 0.03,  # 0.0083
    },
)
