"""Workloads for the tests of a device: a small network, one that fills the memory, and a loop with a CUDA graph."""

import numpy as np
import torch

from raybench import Data, Split, Workload

TRAIN, VAL, BATCH = 512, 200, 64
PIECES = 64
"""Layers side by side in the large network, so that no array has more than 2³¹ elements."""

BYTES_PER_UNIT = 4
"""Bytes of activations for each example and unit: the backward pass needs the output of the ReLU, in float32."""


def pictures(count, seed):
    """Random pictures of two classes; one is lighter in the first channel."""
    random = np.random.default_rng(seed)
    targets = random.integers(0, 2, count)
    inputs = random.integers(0, 200, (count, 8, 8, 3))
    inputs[..., 0] += 40 * targets[:, None, None]
    return Split(inputs.astype(np.uint8), targets)


def data(root):
    return Data(pictures(TRAIN, 0), pictures(VAL, 1))


def build():
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 3, padding=1, bias=False),
        torch.nn.BatchNorm2d(32),
        torch.nn.ReLU(),
        torch.nn.Conv2d(32, 32, 3, padding=1, bias=False),
        torch.nn.BatchNorm2d(32),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(32, 2),
    )


small = Workload(model=build, data=data, mean=(110.0, 100.0, 100.0), std=(60.0, 60.0, 60.0))


class Large(torch.nn.Module):
    """A network that needs so many bytes of memory for each example of a batch."""

    def __init__(self, bytes_per_example):
        super().__init__()
        width = max(1, bytes_per_example // BYTES_PER_UNIT // PIECES)
        self.first = torch.nn.ModuleList(torch.nn.Linear(1, width) for _ in range(PIECES))
        self.last = torch.nn.ModuleList(torch.nn.Linear(width, 2) for _ in range(PIECES))

    def forward(self, inputs):
        pieces = zip(self.first, self.last, strict=True)
        return sum(last(torch.relu(first(inputs))) for first, last in pieces)


def column(root):
    inputs = np.linspace(-1, 1, 1000, dtype=np.float32)[:, None]
    split = Split(inputs, (inputs[:, 0] > 0).astype(np.int64))
    return Data(split, split.first(8))


large = Workload(
    model=lambda bytes_per_example: Large(bytes_per_example), data=column, options={"bytes_per_example": 1048576}
)


def graph_loop(trial, *, epochs=3):
    """Train the small network; on a GPU, each step is a replay of one CUDA graph."""
    device = trial.device
    torch.manual_seed(trial.seed)
    model = build().to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    train = data(None).train
    images = torch.from_numpy(train.inputs).to(device).permute(0, 3, 1, 2).float() / 60 - 1.7
    classes = torch.from_numpy(train.targets).to(device)
    inputs, targets = images[:BATCH].clone(), classes[:BATCH].clone()

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        return loss

    if device.startswith("cuda"):
        with trial.section("compile"):
            beside = torch.cuda.Stream()
            beside.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(beside):
                for _ in range(3):
                    step()
            torch.cuda.current_stream().wait_stream(beside)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                loss = step()

        def take_step():
            graph.replay()
            return loss
    else:
        take_step = step

    for _ in trial.epochs(epochs):
        for number in trial.steps(range(TRAIN // BATCH), examples=lambda number: BATCH):
            chosen = slice(number * BATCH, (number + 1) * BATCH)
            inputs.copy_(images[chosen])
            targets.copy_(classes[chosen])
            latest = take_step()
        trial.log({"train/loss": latest})
