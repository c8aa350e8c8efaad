"""A bidirectional LSTM on the last 100 tokens of a film review.

Published: 302 s an epoch on a K80 and 129 s on 16 virtual cores, so that the GPU loses.
"""

from __future__ import annotations

from functools import partial

from raybench.datasets.imdb import prepared
from raybench.workloads.base import Workload

WORDS, TOKENS = 20_000, 100

WORKLOAD = Workload(
    name="imdb_bilstm",
    model={
        "torch": "raybench.workloads.imdb_bilstm.torch:build",
        "tensorflow": "raybench.workloads.imdb_bilstm.tensorflow:build",
    },
    dataset="imdb",
    prepare=partial(prepared, words=WORDS, tokens=TOKENS),
    loss={"torch": "raybench.workloads.binary_torch:loss", "tensorflow": "raybench.workloads.binary_tensorflow:loss"},
    metrics={
        "torch": "raybench.workloads.binary_torch:metrics",
        "tensorflow": "raybench.workloads.binary_tensorflow:metrics",
    },
    defaults={
        "epochs": 4,
        "batch_size": 32,
        "optimizer": "adam",
        "learning_rate": 1e-3,
    },
)
