"""Networks on the last words of film reviews: two LSTMs and a convolution.

Published: for `imdb_bilstm` 308 s per epoch on a K80 (302 s after the first) and 129 s on 16 virtual cores with a
TensorFlow build for these cores (140 s with that of pip), so the GPU is slower. For a model like `imdb_lstm` 119 s per
epoch on a workstation's GPU and 57 × that on a free cloud CPU ("5 ms a step", where a step was one example). For
`imdb_cnn` 90 s per epoch on an i5 and 10 s on a K40.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from raybench.datasets.imdb import prepared
from raybench.workloads.base import Workload, in_each

WORDS, CNN_WORDS = 20_000, 5_000
BILSTM_TOKENS, LSTM_TOKENS, CNN_TOKENS = 100, 80, 400


def _workload(kind: str, words: int, tokens: int, epochs: int, options: Mapping[str, Any] | None = None) -> Workload:
    return Workload(
        name=f"imdb_{kind}",
        model=in_each(__name__, kind),
        dataset="imdb",
        prepare=partial(prepared, words=words, tokens=tokens),
        loss=in_each(__name__, "loss"),
        metrics=in_each(__name__, "metrics"),
        options=options or {},
        defaults={"epochs": epochs, "batch_size": 32, "optimizer": "adam", "learning_rate": 1e-3},
    )


BILSTM = _workload("bilstm", WORDS, BILSTM_TOKENS, 4)
# No fused GPU kernel supports recurrent dropout, of 0.2 in Keras's example, so it is a cell of its own.
LSTM = _workload("lstm", WORDS, LSTM_TOKENS, 15, {"recurrent_dropout": 0.0})
CNN = _workload("cnn", CNN_WORDS, CNN_TOKENS, 2)
