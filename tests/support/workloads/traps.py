"""Workloads that time would be misread of, each in its own way; run by the trial's process only."""

import time

import numpy as np
import torch

from raybench import Data, Split, Workload

STEP = 0.02
LATER = 24
"""The step from which on the one that gets quicker does: three epochs of eight."""


def data(root):
    inputs = np.linspace(-1, 1, 64, dtype=np.float32)[:, None]
    return Data(Split(inputs, (inputs[:, 0] > 0).astype(int)), Split(inputs, (inputs[:, 0] > 0).astype(int)))


class Timed(torch.nn.Linear):
    """Takes as long in each step of training as it is told."""

    def __init__(self, seconds):
        super().__init__(1, 2)
        self.seconds, self.steps = seconds, 0

    def forward(self, inputs):
        if self.training:
            time.sleep(self.seconds(self.steps))
            self.steps += 1
        return super().forward(inputs)


class Computing(torch.nn.Linear):
    """Keeps its core busy in each step."""

    def forward(self, inputs):
        until = time.process_time() + STEP
        while time.process_time() < until:
            pass
        return super().forward(inputs)


def loaded_slowly():
    """A model that takes no time, and a loader that sleeps."""
    from raybench.engines.torch.inputs import HostInput

    take = HostInput._take

    def slowly(*arguments):
        time.sleep(4 * STEP)
        return take(*arguments)

    HostInput._take = slowly
    return torch.nn.Linear(1, 2)


steady = Workload(model=lambda: Timed(lambda step: STEP), data=data)
slow_first_step = Workload(model=lambda: Timed(lambda step: STEP if step else 50 * STEP), data=data)
quicker_later = Workload(model=lambda: Timed(lambda step: STEP if step < LATER else STEP / 4), data=data)
computing = Workload(model=lambda: Computing(1, 2), data=data)
slow_loader = Workload(model=loaded_slowly, data=data)
