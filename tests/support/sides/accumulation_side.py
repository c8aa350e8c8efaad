"""A small training with an accumulated batch, in a process of its framework; plain values in and out."""

from functools import partial

import numpy as np
from support.declared import Training

from raybench.datasets.splits import Data, Split
from raybench.devices import Assignment, open_device
from raybench.workloads.base import Workload


def train(framework, kind, model, **settings):
    device = open_device(kind, framework, Assignment([], [], 1))
    device.hide_others()
    device.open("fp32")
    split = Split(np.random.default_rng(0).normal(size=(320, 3)), np.arange(320) % 2)
    workload = Workload(model={"torch": model, "tensorflow": model}, data=lambda _: None, name="accumulated")
    made = Training(framework, workload, Data(split, split), device, **settings)
    losses = made.losses()
    return losses, made.engine.weights()[0].tolist()


def tensorflow(**settings):
    import keras

    def build():
        return keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])

    return train("tensorflow", "cpu", build, **settings)


def torch_xla(**settings):
    import torch

    return train("torch_xla", "xla_cpu", partial(torch.nn.Linear, 3, 2), **settings)
