"""Workloads that take a mebibyte for each example of a batch: in training, or in evaluation."""

import subprocess
import sys
import time

import numpy as np
import torch

from raybench import Data, Split, Workload

EXAMPLES = 1000
MIB = 1 << 20


def data(root):
    inputs = np.linspace(-1, 1, EXAMPLES, dtype=np.float32)[:, None]
    split = Split(inputs, (inputs[:, 0] > 0).astype(int))
    return Data(split, split)


class Hungry(torch.nn.Linear):
    def __init__(self, in_training, in_evaluation):
        super().__init__(1, 2)
        self.each = {True: in_training, False: in_evaluation}

    def forward(self, inputs):
        torch.ones(len(inputs), self.each[self.training], dtype=torch.uint8)
        return super().forward(inputs)


in_training = Workload(model=lambda: Hungry(MIB, 1), data=data)
in_evaluation = Workload(model=lambda: Hungry(1, MIB), data=data)
content = Workload(model=lambda: Hungry(1, 1), data=data)


class Parent(torch.nn.Linear):
    def forward(self, inputs):
        """Leave two processes, orphans of a shell, that hold 300 MiB each."""
        if torch.is_grad_enabled():
            program = "b = b'x' * (300 << 20); import time; time.sleep(600)"
            subprocess.run(
                ["sh", "-c", f'{sys.executable} -c "{program}" & {sys.executable} -c "{program}" &'], check=True
            )
            time.sleep(600)
        return super().forward(inputs)


in_orphans = Workload(model=lambda: Parent(1, 2), data=data)
