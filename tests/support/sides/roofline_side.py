"""What is counted and probed for a roofline, in a process of the framework's own."""

from functools import partial
from pathlib import Path

import numpy as np
from support.jobs import job_of

from raybench import datasets, workloads
from raybench.checks import roofline
from raybench.devices import open_device
from raybench.devices.base import Assignment
from raybench.engines import FRAMEWORKS, open_module
from raybench.workloads import read_workload

SMALL = {"PRODUCTS": (256,), "CONVOLUTIONS": ((8, 32, 16),), "ADDITIONS": (1 << 20,), "SECONDS": 0.01}
"""One small operation of each kind for a moment, in the place of what `roofline` has."""


def count(on, shapes):
    """The work of shipped workloads, from the shape of a picture of each."""
    counts = open_module(on, "flops")
    return {
        name: counts.count(workloads.get(name).build_model(FRAMEWORKS[on].models), _picture(on, shape))
        for name, shape in shapes.items()
    }


def _picture(on, shape):
    """An input of a model of this framework, from the shape of a stored picture."""
    height, width, channels = shape
    return np.zeros((1, channels, height, width) if FRAMEWORKS[on].models == "torch" else (1, *shape), np.float32)


def measure(on, kind, folder):
    """What the check comes to for digits_cnn, with small operations."""
    for name, value in SMALL.items():
        setattr(roofline, name, value)
    model = open_device(kind, on, Assignment([], [], 1)).describe().model
    device = {"kind": kind, "model": model, "count": 1}
    info = read_workload("digits_cnn", Path(folder))
    return roofline.measure(job_of(info, datasets.data_root(), on, device, threads=1, cores=[], folder=folder))


def count_small(on):
    """The work of a convolution, a ReLU and a dense layer."""
    return open_module(on, "flops").count(_SMALL[on](), _picture(on, (4, 4, 2)))


def _torch():
    from torch import nn

    return nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(48, 5))


def _keras():
    from keras import Input, Sequential, layers

    own = [layers.Conv2D(3, 3, padding="same"), layers.ReLU(), layers.Flatten(), layers.Dense(5)]
    return Sequential([Input((4, 4, 2)), *own])


_SMALL = {"torch": _torch, "tensorflow": _keras}


def count_keras_kinds():
    """FLOPs of layers beside those of the shipped models: of a depthwise convolution, of an LSTM in two directions."""
    from keras import Input, Sequential, layers

    counts = open_module("tensorflow", "flops")
    depthwise = Sequential([Input((8, 8, 4)), layers.DepthwiseConv2D(3, depth_multiplier=2)])
    text = Sequential([Input((10,), dtype="int64"), layers.Embedding(50, 8), layers.Bidirectional(layers.LSTM(16))])
    return [
        counts.count(depthwise, np.zeros((1, 8, 8, 4), np.float32))["flops"],
        counts.count(text, np.zeros((1, 10), np.int64))["flops"],
    ]


def count_gpt(reentrant, **sizes):
    """The work of a sequence of a GPT; `reentrant` is None without recomputation of activations."""
    import torch
    from torch.utils.checkpoint import checkpoint

    with torch.device("meta"):
        model = workloads.get("gpt").with_options(sizes).build_model("torch")
    if reentrant is not None:
        for block in model.blocks:
            block.forward = partial(checkpoint, block.forward, use_reentrant=reentrant)
    return open_module("torch", "flops").count(model, np.zeros((1, sizes["context"]), np.int64))


def count_torch_lstm():
    from torch import nn

    class Text(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(50, 8)
            self.lstm = nn.LSTM(8, 16, batch_first=True, bidirectional=True)

        def forward(self, tokens):
            return self.lstm(self.embedding(tokens))[0]

    return open_module("torch", "flops").count(Text(), np.zeros((1, 10), np.int64))["flops"]
