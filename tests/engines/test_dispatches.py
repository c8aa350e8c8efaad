"""What the host submits to a device in a step: on `meta`, whose tensors have no values, reading one is an error."""

from collections import Counter
from contextlib import contextmanager
from unittest import mock

import numpy as np
import pytest
import torch
from support.recorded_trial import Kept
from torch.utils._python_dispatch import TorchDispatchMode

from raybench import workloads
from raybench.core.job import Recipe
from raybench.core.ledger import Ledger
from raybench.datasets.splits import Data, Split
from raybench.devices import Assignment
from raybench.devices.cpu import TorchDevice
from raybench.engines.base import EngineParts
from raybench.engines.loop_facts import open_loop
from raybench.training.clock import TrainingClock
from raybench.training.declared import DeclaredTraining
from raybench.training.trial import Trial, TrialOptions

BATCH, STEPS = 2, 4


class Operations(TorchDispatchMode):
    """Counts operations other than views, by the step in which they are submitted."""

    def __init__(self):
        super().__init__()
        self.steps = [Counter()]

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        if not operation.is_view and operation.namespace != "profiler":
            self.steps[-1][operation.overloadpacket.__name__] += 1
        return operation(*args, **kwargs or {})


class MetaDevice(TorchDevice):
    """A device that works behind the host's back, as a GPU does; waits for it count as operations."""

    torch_name, synchronous, own_clock = "meta", False, True
    counted = Operations()

    def synchronize(self):
        self.counted.steps[-1]["synchronize"] += 1


@contextmanager
def trial_on_meta():
    device = MetaDevice(Assignment([], (), 1))
    clock = TrainingClock(Ledger(), device, open_loop("torch", device))
    yield Trial(TrialOptions(1, None, None), Kept(), lambda: clock), device, clock


def steps_of(training, device):
    """The operations of a step of a trial, once it has been taken before."""
    counted = device.counted = Operations()
    step = training.engine.train_step

    def counted_step(batch):
        counted.steps.append(Counter())
        step(batch)

    with counted, mock.patch.object(training.engine, "train_step", counted_step):
        training.engine.train_means = training.engine.settle = dict  # the end of an epoch waits
        for _ in training.trial.epochs():
            training.train_epoch()
    assert counted.steps[-2] == counted.steps[2]
    return counted.steps[2]


def plain_step(workload, inputs, targets):
    """The operations of the same step, written by hand."""
    model = workload.build_model("torch").to("meta")
    used = {"sgd": ("momentum", "nesterov"), "adamw": ("betas",)}[workload.defaults["optimizer"]]
    settings = {name: workload.defaults[name] for name in used}
    kind = torch.optim.SGD if "momentum" in used else torch.optim.AdamW
    optimizer = kind(model.parameters(), lr=0.1, weight_decay=0.1, **settings)
    for _ in range(2):
        with Operations() as counted:
            outputs = model(inputs)
            loss = torch.nn.functional.cross_entropy(outputs.flatten(0, -2), targets.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return counted.steps[0]


GATHER, TOTALS = "index_select index_select", "stack sum add"
ADDED = {
    "gpt": ({"layers": 2, "width": 16, "heads": 2, "context": 8}, f"{GATHER} mean div {TOTALS}"),
    "resnet50": ({}, f"{GATHER} sub div_ argmax eq _to_copy {TOTALS}"),
}
"""Model options of a workload; what its step has that one by hand has not: batch, normalization and metrics."""


@pytest.mark.parametrize("name", ADDED)
def test_declared_step_waits_for_nothing_and_adds_little(name):
    options, added = ADDED[name]
    workload = workloads.get(name).with_options(options)
    examples = BATCH * STEPS
    if name == "gpt":
        inputs = targets = np.zeros((examples, 8), np.int64)
        by_hand = torch.from_numpy(inputs[:BATCH]).to("meta")
    else:
        inputs, targets = np.zeros((examples, 32, 32, 3), np.uint8), np.zeros(examples, np.int64)
        by_hand = torch.zeros(BATCH, 3, 32, 32, device="meta")
    split = Split(inputs, targets)
    changes = {"batch_size": BATCH, "epochs": 1, "steps_per_epoch": STEPS, "gradient_clipping": None}
    with trial_on_meta() as (trial, device, clock):
        parts = EngineParts(Recipe.of({**workload.defaults, **changes}), workload, device, clock.loop, 0)
        training = DeclaredTraining(trial, "torch", parts)
        training.build(lambda: Data(split, split))
        ours = steps_of(training, device)
    plain = plain_step(workload, by_hand, torch.from_numpy(targets[:BATCH]).to("meta"))
    assert ours - plain == Counter(added.split())
    assert plain - ours == Counter(["ones_like"]), "the gradient of the loss"


def test_steps_of_a_function_add_nothing():
    def train(steps, counted):
        model = torch.nn.Linear(4, 4, device="meta")
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in steps:
            counted.steps.append(Counter())
            optimizer.zero_grad()
            model(torch.zeros(2, 4, device="meta")).sum().backward()
            optimizer.step()
        return counted.steps[1:]

    with Operations() as plain:
        by_hand = train(range(STEPS), plain)
    with trial_on_meta() as (trial, device, _), Operations() as counted:
        device.counted = counted
        for _ in trial.epochs():
            ours = train(trial.steps(range(STEPS), examples=2), counted)
    assert ours[1:-1] == by_hand[1:-1]
