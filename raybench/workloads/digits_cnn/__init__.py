"""A small CNN on scikit-learn's digits, trained in seconds on any machine.

The data are real and need no download. The validation set is the end of the file, written by other people than the
training set: about 97.5 % with these settings, and hardly more with others.
"""

from __future__ import annotations

from raybench.workloads.base import Workload, in_each

WORKLOAD = Workload(
    name="digits_cnn",
    model=in_each(__name__),
    dataset="digits",
    mean=(4.88,),
    std=(6.02,),
    defaults={
        "epochs": 5,
        "batch_size": 64,
        "optimizer": "sgd",
        "learning_rate": 0.1,
        "momentum": 0.9,
        "nesterov": True,
        "weight_decay": 5e-3,
        "schedule": {"name": "piecewise_linear", "points": [[0, 0.0], [1, 1.0], [5, 0.0]], "stretch": True},
    },
)
