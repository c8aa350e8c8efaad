"""A workload whose parts take known times that training must not be charged with."""

import time

import numpy as np
import torch

from raybench import Data, Split, Workload

FIRST_EVALUATION = 0.6
"""Seconds of the first step of evaluation, as a compiler would take."""


def data(root):
    inputs = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
    split = Split(inputs, (inputs[:, 0] > 0).astype(int))
    return Data(split, split)


class Net(torch.nn.Linear):
    """Its first step of evaluation is slow."""

    warm = False

    def forward(self, inputs):
        if not self.training and not self.warm:
            time.sleep(FIRST_EVALUATION)
            self.warm = True
        return super().forward(inputs)


workload = Workload(model=lambda: Net(4, 2), data=data)
