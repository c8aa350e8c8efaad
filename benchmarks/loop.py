"""Is raybench's training loop any slower than the same loop written plainly? DavidNet on real CIFAR-10.

    RAYBENCH_DATA=… python benchmarks/loop.py [--batch 128] [--steps 4] [--rounds 8] [--precision fp32]

Both loops train the same network on the same pictures with the same augmentation and optimiser, in one process, in
turn: one round is so many steps of one and then of the other, the order reversed every round, so that a drift of the
machine falls on both alike. Printed: images/s of each, and the ratio of the times, round by round: its geometric mean
with the 95 % interval of a paired t on logarithms.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from scipy.special import stdtrit

from raybench import datasets, workloads
from raybench.core.job import Recipe
from raybench.datasets.splits import Data
from raybench.devices import Assignment, open_device
from raybench.engines.base import EngineParts
from raybench.engines.loop_facts import open_loop
from raybench.training.declared import DeclaredTraining


def plain_loop(data: Data, batch: int, precision: str, device: torch.device) -> Callable[[int], None]:
    """The loop as one would write it by hand: no ledger, no shapes, no sums but the loss."""
    mean = torch.tensor((125.31, 122.95, 113.87), device=device)
    std = torch.tensor((62.99, 62.09, 66.70), device=device)
    padded = np.pad(data.train.inputs, ((0, 0), (4, 4), (4, 4), (0, 0)), mode="reflect")
    inputs, targets = torch.from_numpy(padded).to(device), torch.from_numpy(data.train.targets).to(device)
    torch.manual_seed(0)
    model = workloads.get("davidnet").build_model("torch").to(device=device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, nesterov=True, weight_decay=5e-4)
    places = torch.arange(32, device=device)
    low = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision)

    def train(steps: int) -> None:
        model.train()
        total = torch.zeros((), device=device)
        order = torch.randperm(len(targets), device=device)
        for step in range(steps):
            index = order[step * batch : (step + 1) * batch]
            rows = places + torch.randint(0, 9, (batch, 1), device=device)
            flip = torch.rand(batch, 1, device=device) < 0.5
            columns = torch.where(flip, 31 - places, places) + torch.randint(0, 9, (batch, 1), device=device)
            images = (inputs[index[:, None, None], rows[:, :, None], columns[:, None, :]].float() - mean) / std
            cut = [torch.randint(0, 25, (batch, 1), device=device) for _ in range(2)]
            inside = [(places >= corner) & (places < corner + 8) for corner in cut]
            images[inside[0][:, :, None] & inside[1][:, None, :]] = 0
            with torch.autocast(device.type, dtype=low, enabled=low is not None):
                loss = torch.nn.functional.cross_entropy(model(images.permute(0, 3, 1, 2)).float(), targets[index])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            total += loss.detach()
        total.item()

    return train


def engine_loop(data: Data, batch: int, precision: str, kind: str, steps: int) -> Callable[[int], None]:
    """raybench's own: the engine as a trial uses it."""
    workload = workloads.get("davidnet")
    asked = {
        "batch_size": batch,
        "precision": precision,
        "epochs": 1_000_000,
        "steps_per_epoch": steps,
        "schedule": "constant",
        "learning_rate": 0.01,
    }
    recipe = Recipe.of({**workload.defaults, **asked})
    device = open_device(kind, "torch", Assignment([], [], torch.get_num_threads()))
    device.open(precision)
    parts = EngineParts(recipe, workload, device, open_loop("torch", device), 0)
    training = DeclaredTraining.alone("torch", parts)
    training.build(lambda: data)
    epochs = training.trial.epochs()

    def train(_: int) -> None:
        next(epochs)
        training.train_epoch()

    return train


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--steps", type=int, default=4, help="steps of each loop in one round")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--kind", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--json", type=Path, help="write the numbers here too")
    options = parser.parse_args()
    whole = datasets.get("cifar10").load(datasets.data_root())
    data = Data(whole.train.first(max(4096, options.batch * options.steps)), whole.val.first(1000))
    device = torch.device(options.kind)
    loops = {
        "raybench": engine_loop(data, options.batch, options.precision, options.kind, options.steps),
        "plain": plain_loop(data, options.batch, options.precision, device),
    }
    for loop in loops.values():
        loop(options.steps)  # warm-up
    seconds: dict[str, list[float]] = {name: [] for name in loops}
    for number in range(options.rounds):
        for name in sorted(loops, reverse=bool(number % 2)):
            if device.type == "cuda":
                torch.cuda.synchronize()
            begun = time.perf_counter()
            loops[name](options.steps)
            if device.type == "cuda":
                torch.cuda.synchronize()
            seconds[name].append(time.perf_counter() - begun)
    images = options.batch * options.steps
    ratios = [a / b for a, b in zip(seconds["raybench"], seconds["plain"], strict=True)]
    for name, times in seconds.items():
        print(f"{name:<9} {images / statistics.median(times):8.1f} images/s (median of {len(times)} rounds)")
    logs = [math.log(ratio) for ratio in ratios]
    half = float(stdtrit(len(logs) - 1, 0.975)) * statistics.stdev(logs) / math.sqrt(len(logs))
    low, middle, high = (math.exp(statistics.fmean(logs) + shift) for shift in (-half, 0.0, half))
    print(
        f"time raybench / plain: {middle:.3f} (95 %: {low:.3f} to {high:.3f}), median {statistics.median(ratios):.3f}"
    )
    if options.json:
        options.json.write_text(
            json.dumps({**vars(options), "json": None, "seconds": seconds, "ratios": ratios}, indent=1)
        )


if __name__ == "__main__":
    main()
