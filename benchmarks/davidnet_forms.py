"""Is DavidNet the same training as a declared workload and as a training function? Epoch times and accuracy.

    RAYBENCH_DATA=… python benchmarks/davidnet_forms.py [--batch 64] [--examples 512] [--epochs 4] [--rounds 4]

The declared workload runs raybench's own loop; the function is a loop as one would write it by hand, with a `Trial`.
Both train the same network with the same recipe from the same initial weights, in one process, in turn: a round is a
training of each, an epoch of one and then of the other, the order reversed every epoch, so that a drift of the machine
falls on both alike. Their augmentation draws other numbers. The first epoch of each training is warm-up.

Printed: the ratio of the times of an epoch, function ÷ declared, its geometric mean with the 95 % interval of a paired
t on logarithms, for training alone, for its processor time, which other jobs on the machine disturb less, and with
evaluation; and the difference of the accuracies after the last epoch with the 95 % interval of a paired t, in points.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from scipy.special import stdtrit

from raybench import datasets, workloads
from raybench.core.job import Recipe
from raybench.core.ledger import Ledger
from raybench.datasets.splits import Data
from raybench.devices import Assignment, open_device
from raybench.engines import EngineParts, open_engine
from raybench.engines.torch.user_loop import TorchLoop
from raybench.training.clock import TrainingClock
from raybench.training.local import Printer
from raybench.training.trial import Trial, TrialOptions

EVALUATED_AT_ONCE = 1000


class Epoch(NamedTuple):
    """Seconds of an epoch, without and with evaluation, those of its training on processors, and its accuracy."""

    train_s: float
    whole_s: float
    cpu_s: float
    accuracy: float


class Watch:
    """The time since it was started, and the processor time of this process."""

    def __init__(self) -> None:
        self._begun, self._cpu = time.perf_counter(), time.process_time()

    def read(self) -> tuple[float, float]:
        """Seconds, and seconds on processors."""
        return time.perf_counter() - self._begun, time.process_time() - self._cpu


def recipe_of(batch: int, epochs: int) -> Recipe:
    defaults = workloads.get("davidnet").defaults
    own = {"batch_size": batch, "epochs": epochs, "evaluation_batch_size": EVALUATED_AT_ONCE}
    return Recipe.of({**defaults, **own})


def declared(data: Data, batch: int, epochs: int, kind: str, seed: int) -> Iterator[Epoch]:
    """Yield each epoch of raybench's own loop."""
    device = open_device(kind, "torch", Assignment([], [], torch.get_num_threads()))
    device.open("fp32")
    ledger = Ledger()
    workload = workloads.get("davidnet")
    engine = open_engine("torch", EngineParts(recipe_of(batch, epochs), workload, device, ledger, seed))
    engine.load(data)
    engine.build()
    for number in range(1, epochs + 1):
        watch = Watch()
        ledger.begin_epoch()
        engine.train_epoch(number)
        train_s, cpu_s = watch.read()
        metrics, _ = engine.evaluate()
        yield Epoch(train_s, watch.read()[0], cpu_s, metrics["accuracy"])


class Loader:
    """Batches on the device: random crops, mirrored by chance, with a square set to the mean."""

    def __init__(self, data: Data, batch: int, device: torch.device) -> None:
        padded = np.pad(data.train.inputs, ((0, 0), (4, 4), (4, 4), (0, 0)), mode="reflect")
        self._images, self._classes = (
            torch.from_numpy(padded).to(device),
            torch.from_numpy(data.train.targets).to(device),
        )
        self._batch, self._places = batch, torch.arange(32, device=device)

    def __len__(self) -> int:
        return len(self._classes) // self._batch

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        places, device = self._places, self._places.device
        order = torch.randperm(len(self._classes), device=device)
        for index in order[: len(self) * self._batch].split(self._batch):
            shape = (len(index), 1)
            rows = places + torch.randint(0, 9, shape, device=device)
            columns = torch.where(torch.rand(shape, device=device) < 0.5, 31 - places, places)
            columns = columns + torch.randint(0, 9, shape, device=device)
            images = normalised(self._images[index[:, None, None], rows[:, :, None], columns[:, None, :]])
            corners = [torch.randint(0, 25, shape, device=device) for _ in range(2)]
            inside = [(places >= corner) & (places < corner + 8) for corner in corners]
            images = images.masked_fill_((inside[0][:, :, None] & inside[1][:, None, :])[..., None], 0.0)
            yield images.permute(0, 3, 1, 2), self._classes[index]


def normalised(images: torch.Tensor) -> torch.Tensor:
    workload = workloads.get("davidnet")
    mean, std = (torch.tensor(values, device=images.device) for values in (workload.mean, workload.std))
    return images.float().sub_(mean).div_(std)


def function(trial: Trial, data: Data, batch: int, epochs: int) -> Iterator[Epoch]:
    """A training function that yields after each epoch."""
    device = torch.device(trial.device)
    loader = Loader(data, batch, device)
    val = torch.from_numpy(data.val.inputs).to(device), torch.from_numpy(data.val.targets).to(device)
    torch.manual_seed(trial.seed)
    model = workloads.get("davidnet").build_model("torch").to(device=device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), 0.4, momentum=0.9, nesterov=True, weight_decay=5e-4)
    steps = epochs * len(loader)
    peak = 5 / 24 * steps
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / peak, (steps - step - 1) / (steps - peak))
    )
    watch = Watch()
    for _ in trial.epochs():
        model.train()
        total = torch.zeros((), device=device)
        for images, classes in trial.steps(loader):
            loss = torch.nn.functional.cross_entropy(model(images), classes)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.detach()
        total.item()
        train_s, cpu_s = watch.read()
        with trial.evaluation(), torch.inference_mode():
            model.eval()
            outputs = torch.cat(
                [model(normalised(part).permute(0, 3, 1, 2)) for part in val[0].split(EVALUATED_AT_ONCE)]
            )
            accuracy = (outputs.argmax(1) == val[1]).float().mean().item()
        trial.log({"train/loss": total / len(loader), "val/accuracy": accuracy})
        yield Epoch(train_s, watch.read()[0], cpu_s, accuracy)
        watch = Watch()


def in_turn(forms: dict[str, Iterator[Epoch]], epochs: int) -> dict[str, list[Epoch]]:
    """All epochs of both trainings."""
    results: dict[str, list[Epoch]] = {name: [] for name in forms}
    for number in range(epochs):
        for name in sorted(forms, reverse=bool(number % 2)):
            results[name].append(next(forms[name]))
    return results


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """The mean with the 95 % interval of a t distribution: mean, low, high."""
    middle = statistics.fmean(values)
    if len(values) < 2:
        return middle, -math.inf, math.inf
    half = float(stdtrit(len(values) - 1, 0.975)) * statistics.stdev(values) / math.sqrt(len(values))
    return middle, middle - half, middle + half


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--examples", type=int, default=512, help="to train on")
    parser.add_argument("--val-examples", type=int, default=500)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--kind", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--json", type=Path, help="write the numbers here too")
    options = parser.parse_args()
    whole = datasets.get("cifar10").load(datasets.data_root())
    data = Data(whole.train.first(options.examples), whole.val.first(options.val_examples))
    rounds = []
    for seed in range(options.rounds):
        device = open_device(options.kind, "torch", Assignment([], [], torch.get_num_threads()))
        device.open("fp32")
        loop = TorchLoop(device)
        clock = TrainingClock(Ledger(), device, loop, lambda phase: None)
        told = TrialOptions(options.epochs, datasets.data_root(), Path(), seed=seed)
        trial = Trial(told, Printer(silent=True), lambda clock=clock: clock)
        forms = {
            "declared": declared(data, options.batch, options.epochs, options.kind, seed),
            "function": function(trial, data, options.batch, options.epochs),
        }
        rounds.append(in_turn(forms, options.epochs))
        loop.close()
    numbers: dict[str, object] = {"rounds": [{name: list(epochs) for name, epochs in each.items()} for each in rounds]}
    labels = {"train_s": "training", "cpu_s": "training, on processors", "whole_s": "with evaluation"}
    for field, label in labels.items():
        logs = [
            math.log(getattr(one, field) / getattr(other, field))
            for each in rounds
            for one, other in zip(each["function"][1:], each["declared"][1:], strict=True)
        ]
        middle, low, high = map(math.exp, interval(logs))
        numbers[field] = {"ratio": middle, "low": low, "high": high, "median": math.exp(statistics.median(logs))}
        print(
            f"time of an epoch, {label}, function / declared: {middle:.3f} (95 %: {low:.3f} to {high:.3f}), "
            f"median {math.exp(statistics.median(logs)):.3f}"
        )
    for name in ("declared", "function"):
        accuracies = [each[name][-1].accuracy * 100 for each in rounds]
        numbers[name] = accuracies
        extremes = f"min {min(accuracies):.1f}, max {max(accuracies):.1f}"
        print(f"{name}: {statistics.fmean(accuracies):.1f} % accuracy, {extremes}")
    differences = [(each["function"][-1].accuracy - each["declared"][-1].accuracy) * 100 for each in rounds]
    middle, low, high = interval(differences)
    numbers["points"] = {"mean": middle, "low": low, "high": high}
    print(f"accuracy, function - declared: {middle:+.1f} points (95 %: {low:+.1f} to {high:+.1f})")
    if options.json:
        options.json.write_text(json.dumps(numbers))


if __name__ == "__main__":
    main()
