"""An LSTM on the last 80 tokens of a film review, as Keras's examples have it.

Published of a model like it: 119 s an epoch on a workstation's GPU and 57 × that on a free cloud CPU ("5 ms a step",
where a step was one example). `model: {recurrent_dropout: 0.2}` drops what goes from token to token too, as the
example does: no fused kernel of a GPU can do that, so it is a cell of its own.
"""

from __future__ import annotations

from functools import partial

from raybench.datasets.imdb import prepared
from raybench.workloads.base import Workload
from raybench.workloads.twins import twins

WORDS, TOKENS = 20_000, 80

WORKLOAD = Workload(
    name="imdb_lstm",
    model={
        "torch": "raybench.workloads.imdb_lstm.torch:build",
        "tensorflow": "raybench.workloads.imdb_lstm.tensorflow:build",
    },
    dataset="imdb",
    prepare=partial(prepared, words=WORDS, tokens=TOKENS),
    loss=twins("binary", "loss"),
    metrics=twins("binary", "metrics"),
    options={"recurrent_dropout": 0.0},
    defaults={
        "epochs": 15,
        "batch_size": 32,
        "optimizer": "adam",
        "learning_rate": 1e-3,
    },
)
