"""An LSTM on a film review's last 80 tokens, from Keras's examples.

Published for a similar model: 119 s per epoch on a workstation's GPU and 57 × that on a free cloud CPU ("5 ms a step",
where a step was one example). `model: {recurrent_dropout: 0.2}` adds recurrent dropout in TensorFlow, as in the
example: no fused GPU kernel supports it, so it is a cell of its own.
"""

from __future__ import annotations

from functools import partial

from raybench.datasets.imdb import prepared
from raybench.workloads import binary
from raybench.workloads.base import Workload

WORDS, TOKENS = 20_000, 80

WORKLOAD = Workload(
    name="imdb_lstm",
    model={
        "torch": "raybench.workloads.imdb_lstm.torch:build",
        "tensorflow": "raybench.workloads.imdb_lstm.tensorflow:build",
    },
    dataset="imdb",
    prepare=partial(prepared, words=WORDS, tokens=TOKENS),
    loss=binary.LOSS,
    metrics=binary.METRICS,
    options={"recurrent_dropout": 0.0},
    defaults={
        "epochs": 15,
        "batch_size": 32,
        "optimizer": "adam",
        "learning_rate": 1e-3,
    },
)
