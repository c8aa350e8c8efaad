"""The small training job in torch, without a trial's process."""

import torch

from raybench.datasets.splits import Data
from raybench.devices import Assignment, open_device
from raybench.workloads.base import Workload
from support.declared import Training
from support.small_training import MEAN, STD, pictures, torch_network

WORKLOAD = Workload(model=torch_network, dataset="digits", mean=MEAN, std=STD, name="test")


def training(workload=WORKLOAD, data=None, device=None, **settings):
    device = device or open_device("cpu", "torch", Assignment([], [], torch.get_num_threads()))
    return Training("torch", workload, data or Data(pictures(), pictures(70, seed=1)), device, **settings)
