"""Workloads of trials with ranks, some of which end badly in one rank; run by the trials' processes only."""

import os
import signal
import time

import numpy as np
import torch
import torch.distributed

from raybench import Data, Split, Workload

EXAMPLES, FEATURES = 240, 6


def data(root):
    random = np.random.default_rng(0)
    inputs = random.normal(size=(EXAMPLES + 70, FEATURES)).astype(np.float32)
    inputs += np.linspace(-1, 1, len(inputs), dtype=np.float32)[:, None]
    targets = (inputs.sum(1) > 0).astype(np.int64)
    return Data(Split(inputs[:EXAMPLES], targets[:EXAMPLES]), Split(inputs[EXAMPLES:], targets[EXAMPLES:]))


class Watched(torch.nn.Module):
    """A small model with batch norm."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(FEATURES, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Linear(8, 2)
        )
        self.steps = 0

    def forward(self, inputs):
        return self.layers(inputs)


def seen(model):
    """A metric for each number in the model's state, the same for all examples, so that its mean is that number."""

    def metrics(outputs, targets):
        state = model().state_dict()
        rows = {f"{name}.{i}": value for name, tensor in state.items() for i, value in enumerate(tensor.flatten())}
        return {name: value.float().expand(len(targets)) for name, value in rows.items()}

    return metrics


made = []


def build():
    made.append(Watched())
    return made[-1]


def number():
    return torch.distributed.get_rank()


class Trouble(Watched):
    """Does something at the third step, in rank 1 only; the others train on."""

    def __init__(self, what):
        super().__init__()
        self.what = what

    def forward(self, inputs):
        self.steps += 1
        if self.steps == 3:
            print(f"rank {number()} is {os.getpid()}", flush=True)
            if number() == 1:
                self.what()
        return super().forward(inputs)


def raises():
    raise KeyError("only in rank 1")


def dies():
    os.kill(os.getpid(), signal.SIGKILL)


def leaves():
    os._exit(7)


def fills_memory():
    torch.empty(1 << 60)


def hangs():
    time.sleep(600)


learning = Workload(model=build, data=data, metrics=seen(lambda: made[-1]))
raising = Workload(model=lambda: Trouble(raises), data=data)
killed = Workload(model=lambda: Trouble(dies), data=data)
leaving = Workload(model=lambda: Trouble(leaves), data=data)
greedy = Workload(model=lambda: Trouble(fills_memory), data=data)
hanging = Workload(model=lambda: Trouble(hangs), data=data)
