"""Declared workloads and training functions of trials with ranks, some of which end badly in rank 1."""

import os
import signal
import time

import numpy as np
import torch
import torch.distributed
from torch.nn.parallel import DistributedDataParallel

from raybench import Data, Split, Workload

EXAMPLES, FEATURES = 240, 6
AFTER_TRAINING = 2 * EXAMPLES // 24 + 5  # a step of those that measure communication


def data(root):
    random = np.random.default_rng(0)
    inputs = random.normal(size=(EXAMPLES + 70, FEATURES)).astype(np.float32)
    inputs += np.linspace(-1, 1, len(inputs), dtype=np.float32)[:, None]
    targets = (inputs.sum(1) > 0).astype(np.int64)
    return Data(Split(inputs[:EXAMPLES], targets[:EXAMPLES]), Split(inputs[EXAMPLES:], targets[EXAMPLES:]))


class Watched(torch.nn.Module):
    """A small model, by default with batch norm."""

    def __init__(self, norm=True):
        super().__init__()
        layers = [torch.nn.Linear(FEATURES, 8), torch.nn.BatchNorm1d(8) if norm else torch.nn.Identity()]
        self.layers = torch.nn.Sequential(*layers, torch.nn.ReLU(), torch.nn.Linear(8, 2))
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


def build(**options):
    made.append(Watched(**options))
    return made[-1]


class Trouble(Watched):
    """Does something at the third step or later, in rank 1 only; the others train on."""

    def __init__(self, what, step=3):
        super().__init__()
        self.what, self.step = what, step

    def forward(self, inputs):
        self.steps += self.training
        if self.training and self.steps == self.step:
            number = torch.distributed.get_rank()
            print(f"rank {number} is {os.getpid()}", flush=True)
            if number == 1:
                TROUBLES[self.what]()
        return super().forward(inputs)


def raises():
    raise KeyError("only in rank 1")


def is_killed():
    """Die, while a forked child lives on, such as a worker of a pool."""
    if os.fork():
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(600)


TROUBLES = {
    "raising": raises,
    "killed": is_killed,
    "greedy": lambda: torch.empty(1 << 60),
    "hanging": lambda: time.sleep(600),
}

learning = Workload(model=build, data=data, metrics=seen(lambda: made[-1]))
plain = Workload(model=lambda: build(norm=False), data=data, metrics=seen(lambda: made[-1]))
raising = Workload(model=lambda: Trouble("raising"), data=data)
killed = Workload(model=lambda: Trouble("killed"), data=data)
greedy = Workload(model=lambda: Trouble("greedy"), data=data)
hanging = Workload(model=lambda: Trouble("hanging"), data=data)
raising_later = Workload(model=lambda: Trouble("raising", AFTER_TRAINING), data=data)
killed_later = Workload(model=lambda: Trouble("killed", AFTER_TRAINING), data=data)
hanging_later = Workload(model=lambda: Trouble("hanging", AFTER_TRAINING), data=data)


def train(trial, batch_size=24, per_device_batch_size=0, trouble="", epochs_of_rank_1=2):
    """DistributedDataParallel as under torchrun; rank 0 alone logs."""
    torch.distributed.init_process_group("gloo")
    rank, world = torch.distributed.get_rank(), torch.distributed.get_world_size()
    assert (rank, world, int(os.environ["LOCAL_RANK"])) == (trial.rank, trial.world_size, rank)
    assert torch.get_num_threads() == 2 // world
    torch.manual_seed(0)
    model = DistributedDataParallel(Trouble(trouble) if trouble else Watched(norm=False))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    split = data(None).train
    tensors = (torch.tensor(each).split(batch_size) for each in (split.inputs, split.targets))
    batches = list(zip(*tensors, strict=True))
    for epoch in trial.epochs():
        if rank == 1 and epoch == epochs_of_rank_1:
            break
        for inputs, targets in trial.steps([tuple(each[rank::world] for each in batch) for batch in batches]):
            loss = torch.nn.functional.cross_entropy(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            trial.count(words=len(inputs))
        if rank == 0:
            time.sleep(0.3)  # an evaluation while rank 1 waits, whose time is not one of training
            weights = sum(parameter.abs().sum() for parameter in model.parameters())
            trial.log({"train/loss": loss, "train/weights": weights, "val/share": per_device_batch_size})
