"""A residual U-net for foreground mask and depth; its second published form.

Published: 1,151 s per epoch on a P100, 15 epochs of AdamW with a decay of .01 and a one-cycle rate up to .1, which
rises for 30 % of the run; here the rise and the fall are straight lines. The original 400,000 images are private: these
are synthetic, as the data set's name says. The loss is one number per example, so the root is taken per image. For a
CPU or a test run, `model: {side: 32}` has images of 32×32.
"""

from __future__ import annotations

from raybench.datasets.synthetic_scenes import SIDE
from raybench.workloads.base import Workload
from raybench.workloads.resunet_resize import prepared
from raybench.workloads.twins import twins

DOWN = (32, 64, 128, 256, 512)
DEPTH = (256, 128, 64, 16)
MASK = (64, 64, 32, 16)
"""Channels of the encoder, the stem first, and of both decoders."""

WORKLOAD = Workload(
    name="resunet_v2",
    model={
        "torch": "raybench.workloads.resunet_v2.torch:build",
        "tensorflow": "raybench.workloads.resunet_v2.tensorflow:build",
    },
    options={"side": SIDE},
    prepare=prepared,
    data_options=("side",),
    dataset="scenes-synthetic",
    examples={"train": 17_500, "val": 1_000},
    std=(255.0,),
    loss=twins("resunet", "loss_v2"),
    metrics=twins("resunet", "metrics"),
    preview="raybench.workloads.resunet_preview:draw",
    metric_names=("mask_iou", "depth_rmse"),
    defaults={
        "epochs": 15,
        "batch_size": 128,
        "evaluation_batch_size": 100,
        "optimizer": "adamw",
        "learning_rate": 0.1,
        "weight_decay": 0.01,
        "schedule": {
            "name": "piecewise_linear",
            "points": [[0, 0.04], [4.5, 1.0], [15, 0.0]],
            "stretch": True,
        },
    },
    # As in resunet_v1. Measured likewise.
    parity_tolerance={"statistics": 0.12},  # 0.039; torch alone, in its two memory layouts: 0.044
)
