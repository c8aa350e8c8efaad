"""What do eight replicas on one device cost against one? DavidNet on real CIFAR-10, whole training steps.

    RAYBENCH_DATA=… python benchmarks/replicas.py [--batch 128] [--replicas 8] [--precision fp32] [--threads 2]

Two trainings of the same network run on the same pictures in one process, in turn: with `replicas: 1`, and with grouped
statistics of so many replicas on the one device. One round is so many steps of one and then of the other, the order
reversed every round, so that a drift of the machine falls on both alike. Printed: images/s of each, and the ratio of
the times, round by round: its geometric mean with the 95 % interval of a paired t on logarithms. Of the wall time, and
of the processor time, which other programs on the same cores disturb less.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from scipy.special import stdtrit

from raybench import datasets, workloads
from raybench.core.job import Recipe
from raybench.datasets.splits import Data
from raybench.devices import Assignment, open_device
from raybench.engines.base import EngineParts
from raybench.engines.loop_facts import open_loop
from raybench.training.declared import DeclaredTraining


def make_training(data: Data, replicas: int, options: argparse.Namespace) -> Callable[[], None]:
    """A function that trains an epoch, which is one round, as a trial does."""
    workload = workloads.get("davidnet")
    asked = {
        "batch_size": options.batch,
        "precision": options.precision,
        "channels_last": not options.contiguous,
        "epochs": 1_000_000,
        "steps_per_epoch": options.steps,
        "schedule": "constant",
        "learning_rate": 0.01,
    }
    opened = open_device(options.kind, "torch", Assignment([], [], options.threads))
    opened.open(options.precision)
    recipe = replace(
        Recipe.of({**workload.defaults, **asked}),
        replicas=replicas,
    )
    training = DeclaredTraining.alone("torch", EngineParts(recipe, workload, opened, open_loop("torch", opened), 0))
    training.build(lambda: data)
    epochs = training.trial.epochs()

    def train() -> None:
        next(epochs)
        training.train_epoch()  # ends when the device is done

    return train


def with_interval(ratios: list[float]) -> str:
    """The geometric mean of paired ratios and its 95 % interval."""
    logs = [math.log(ratio) for ratio in ratios]
    half = float(stdtrit(len(logs) - 1, 0.975)) * statistics.stdev(logs) / math.sqrt(len(logs))
    low, middle, high = (math.exp(statistics.fmean(logs) + shift) for shift in (-half, 0.0, half))
    return f"{middle:.3f} (95 %: {low:.3f} to {high:.3f}), median {statistics.median(ratios):.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--replicas", type=int, default=8)
    parser.add_argument("--steps", type=int, default=2, help="steps of each in one round")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--contiguous", action="store_true", help="channels first in memory, not last")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--kind", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--json", type=Path, help="write the numbers here too")
    options = parser.parse_args()
    whole = datasets.get("cifar10").load(datasets.data_root())
    data = Data(whole.train.first(max(4096, options.batch * options.steps)), whole.val.first(1000))
    trainings = {replicas: make_training(data, replicas, options) for replicas in (1, options.replicas)}
    for train in trainings.values():
        train()  # warm-up
    wall: dict[int, list[float]] = {replicas: [] for replicas in trainings}
    cpu: dict[int, list[float]] = {replicas: [] for replicas in trainings}
    for number in range(options.rounds):
        for replicas in sorted(trainings, reverse=bool(number % 2)):
            begun, begun_cpu = time.perf_counter(), time.process_time()
            trainings[replicas]()
            wall[replicas].append(time.perf_counter() - begun)
            cpu[replicas].append(time.process_time() - begun_cpu)
    images = options.batch * options.steps
    for replicas, times in wall.items():
        print(
            f"replicas {replicas:<3} {images / statistics.median(times):8.1f} images/s (median of {len(times)} rounds)"
        )
    for name, times in (("wall", wall), ("processor", cpu)):
        ratios = [many / one for many, one in zip(times[options.replicas], times[1], strict=True)]
        print(f"{name} time, replicas {options.replicas} / 1: {with_interval(ratios)}")
    if options.json:
        options.json.write_text(json.dumps({**vars(options), "json": None, "wall": wall, "processor": cpu}, indent=1))


if __name__ == "__main__":
    main()
