"""The small training job in torch, without a trial's process."""

import torch

from raybench.datasets.splits import Data
from raybench.devices import Assignment, open_device
from raybench.workloads.base import Workload
from support.declared import Training
from support.small_training import pictures


def network():
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(8 * 64, 2),
    )


WORKLOAD = Workload(model=network, dataset="digits", mean=(120.0, 125.0, 130.0), std=(60.0, 61.0, 62.0), name="test")


def training(workload=WORKLOAD, data=None, device=None, **settings):
    device = device or open_device("cpu", "torch", Assignment([], [], torch.get_num_threads()))
    return Training("torch", workload, data or Data(pictures(), pictures(70, seed=1)), device, **settings)
