"""Training functions that end badly, each in its own way; the process that reads them needs no framework."""

import numpy as np


def raising(trial):
    for _ in trial.epochs():
        raise KeyError("no such thing")


def infinite(trial):
    for _ in trial.epochs():
        trial.log({"train/loss": np.nan})


def greedy(trial):
    for _ in trial.epochs():
        bytearray(1 << 60)
