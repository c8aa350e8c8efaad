"""A residual U-net for foreground mask and depth, on random images.

Published: an epoch in 2,331 s on a P100 and about 740 s on a TPUv2-8, "3X"; its logs give 1.96×. On a P100 17,500
images took 170.1, 157.5, 149.6 and 145.6 s at batches of 16, 32, 64 and 128, and a batch of 256 ran out of memory. Adam
at 1e-2 on the GPU, SGD at .08 with 8 × 32 on the TPU. The original 400,000 images are private; random ones of the same
shape take the same time, and cannot be learned. `model: {skip: concat}` is the earlier form, which concatenates where
this one adds, and ran out of memory at batch 128; `model: {side: 32}` has images of 32×32, for a CPU or a test run.
"""

from __future__ import annotations

from raybench.datasets.splits import Data, Split
from raybench.workloads.base import Workload

SIDE = 96
WIDTHS = (64, 128, 256, 512)  # channels at each scale, the largest image first
HALVINGS = len(WIDTHS)


def crop(data: Data, side: int = SIDE) -> Data:
    """The images and targets, cut to `side` pixels of height and width.

    Raises:
        ValueError: the network cannot halve such images four times.
    """
    if side % 2**HALVINGS or not 0 < side <= SIDE:
        raise ValueError(f"model.side: {side} is not a multiple of {2**HALVINGS} from {2**HALVINGS} to {SIDE}")
    train, val = (
        Split(part.inputs[:, :side, :side], part.targets[:, :, :side, :side]) for part in (data.train, data.val)
    )
    return Data(train, val)


WORKLOAD = Workload(
    name="resunet",
    model={"torch": "raybench.workloads.resunet.torch:build"},
    options={"skip": "add", "side": SIDE},
    prepare=crop,
    data_options=("side",),
    small_model={"side": 16},
    dataset="scenes-synthetic",
    std=(255.0,),
    loss={"torch": "raybench.workloads.resunet.torch:loss"},
    metrics={"torch": "raybench.workloads.resunet.torch:metrics"},
    metric_names=("mask_iou",),
    defaults={
        "epochs": 1,
        "batch_size": 128,
        "evaluation_batch_size": 100,
        "optimizer": "adam",
        "learning_rate": 1e-2,
        "warmup_epochs": 0,
    },
)
