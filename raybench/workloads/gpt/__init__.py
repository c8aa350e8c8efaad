"""GPT-2 on the source code of Python's standard library, byte by byte.

Its defaults are the sizes of nanoGPT's smallest example for a GPU; `model: {layers: 12, width: 768, heads: 12, context:
1024, vocabulary: 50304}` is GPT-2 itself, with the same time of a step as on words. The embedding of tokens is also the
last layer, attention is the framework's fused operation, and there is no dropout.
"""

from __future__ import annotations

from raybench.datasets.splits import Data, Split
from raybench.workloads.base import Workload, in_each

STD = 0.02  # of the initial weights; those of the layers that add to the residual stream are smaller by √(2 · layers)


def crop(data: Data, context: int = 256, vocabulary: int = 256) -> Data:
    """The first `context` tokens of each example.

    Raises:
        ValueError: the examples are shorter, or have tokens that the model does not have.
    """
    if not 0 < context <= data.train.inputs.shape[1]:
        raise ValueError(f"model.context: {context} is not from 1 to {data.train.inputs.shape[1]}")
    train, val = (Split(part.inputs[:, :context], part.targets[:, :context]) for part in (data.train, data.val))
    highest = max(int(split.targets.max()) for split in (train, val))
    if highest >= vocabulary:
        raise ValueError(f"model.vocabulary: {vocabulary} is not above {highest}, the highest token of the data")
    return Data(train, val)


WORKLOAD = Workload(
    name="gpt",
    model=in_each(__name__),
    options={"layers": 6, "width": 384, "heads": 6, "context": 256, "vocabulary": 256},
    prepare=crop,
    data_options=("context", "vocabulary"),
    small_model={"layers": 2, "width": 64, "heads": 2, "context": 64},
    dataset="python-code",
    unit="tokens",
    metrics=lambda outputs, targets: {},
    metric_names=(),
    defaults={
        "epochs": 5,
        "batch_size": 64,
        "evaluation_batch_size": 64,
        "optimizer": "adamw",
        "learning_rate": 1e-3,
        "betas": [0.9, 0.99],
        "weight_decay": 0.1,
        "gradient_clipping": 1.0,
        "schedule": {"name": "cosine", "warmup_ratio": 0.05, "floor": 0.1},
    },
)
