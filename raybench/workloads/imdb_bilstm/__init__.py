"""A bidirectional LSTM on the last 100 tokens of a film review.

Derived from the published logs: 308 s per epoch on a K80 (302 s after the first) and 129 s on 16 virtual cores with a
TensorFlow build for these cores (140 s with that of pip), so the GPU is slower.
"""

from __future__ import annotations

from functools import partial

from raybench.datasets.imdb import prepared
from raybench.workloads import binary
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
    loss=binary.LOSS,
    metrics=binary.METRICS,
    defaults={
        "epochs": 4,
        "batch_size": 32,
        "optimizer": "adam",
        "learning_rate": 1e-3,
    },
)
