"""A workload with dropout and batch norm, and models whose ninth training step goes wrong."""

import os
import time

import numpy as np
import torch

from raybench import Data, Split, Workload

STEPS = 8
"""Of two epochs of 64 examples in batches of 16."""


def data(root):
    inputs = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
    split = Split(inputs, (inputs[:, 0] > 0).astype(int))
    return Data(split, split)


class Net(torch.nn.Sequential):
    """Calls `trouble` in the first training step after training has ended."""

    def __init__(self, trouble):
        super().__init__(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 2))
        self.trouble, self.steps = trouble, 0

    def forward(self, inputs):
        self.steps += self.training
        if self.training and self.steps > STEPS:
            self.trouble()
        return super().forward(inputs)


def nothing():
    pass


def raises():
    raise ValueError("not once more")


def leaves():
    os._exit(7)


def hangs():
    time.sleep(600)


fine = Workload(model=lambda: Net(nothing), data=data)
raising = Workload(model=lambda: Net(raises), data=data)
leaving = Workload(model=lambda: Net(leaves), data=data)
hanging = Workload(model=lambda: Net(hangs), data=data)
