"""Is raybench's training loop slower than a plain one? In one process, round by round in turn, in reversed order.

    RAYBENCH_DATA=… python benchmarks/loop.py [--batch 128] [--steps 4] [--rounds 8] [--precision fp32]
    python benchmarks/loop.py --engine torch|tensorflow|torch_xla [--workload digits_cnn] [--batch 64] [--steps 16]
    python benchmarks/loop.py --nanogpt FOLDER [--only raybench|plain] [--batch 12] [--steps 4]

Without `--engine`: DavidNet on real CIFAR-10 beside the same training written by hand in PyTorch. With it: a workload
in an engine, in the loop of a trial beside the engine's steps alone. With `--nanogpt`: the workload `gpt` beside
nanoGPT's own model and loop, from a checkout of it, in the size of its example for a CPU. Printed: the ratios of the
wall and of the processor times, as geometric means over the rounds with the 95 % interval of a paired t on logarithms,
and the peak memory of the process, which tells with `--only`.
"""

from __future__ import annotations

import argparse
import math
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from scipy.special import stdtrit

from raybench import datasets, workloads
from raybench.core.job import Recipe
from raybench.datasets import python_code
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


GPT = {"layers": 4, "width": 128, "heads": 4, "context": 64}


def nanogpt_loop(folder: Path, options: argparse.Namespace, device: torch.device) -> Callable[[int], None]:
    """The loop of nanoGPT's train.py with its model, on the same text."""
    sys.path.insert(0, str(folder))
    import model as nanogpt

    code = np.frombuffer(python_code.source_code(), np.uint8)
    sizes = {"n_layer": GPT["layers"], "n_head": GPT["heads"], "n_embd": GPT["width"], "block_size": GPT["context"]}
    torch.manual_seed(0)
    model = nanogpt.GPT(nanogpt.GPTConfig(vocab_size=256, dropout=0.0, bias=True, **sizes)).to(device)
    optimizer = model.configure_optimizers(0.1, 0.01, (0.9, 0.99), device.type)
    low = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(options.precision)

    def get_batch() -> list[torch.Tensor]:
        starts, context = torch.randint(len(code) - GPT["context"], (options.batch,)), GPT["context"]
        parts = [[code[i + by : i + by + context].astype(np.int64) for i in starts] for by in (0, 1)]
        return [torch.stack([torch.from_numpy(each) for each in part]).to(device) for part in parts]

    def train(steps: int) -> None:
        model.train()
        for _ in range(steps):
            inputs, targets = get_batch()
            with torch.autocast(device.type, dtype=low, enabled=low is not None):
                _, loss = model(inputs, targets)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        loss.item()

    return train


def training_of(name: str, framework: str, kind: str, data: Data, options: argparse.Namespace) -> DeclaredTraining:
    """A declared workload as a trial trains it."""
    workload = workloads.get(name).with_options(GPT if options.nanogpt else {})
    asked = {
        "batch_size": options.batch,
        "precision": options.precision,
        "epochs": 1_000_000,
        "steps_per_epoch": options.steps,
        "schedule": "constant",
        "learning_rate": 0.01,
    }
    recipe = Recipe.of({**workload.defaults, **asked})
    device = open_device(kind, framework, Assignment([], [], torch.get_num_threads()))
    device.open(options.precision)
    training = DeclaredTraining.alone(framework, EngineParts(recipe, workload, device, open_loop(framework, device), 0))
    training.build(lambda: data)
    return training


def trial_loop(training: DeclaredTraining) -> Callable[[int], None]:
    """The loop of a trial."""
    epochs = training.trial.epochs()

    def train(_: int) -> None:
        next(epochs)
        training.train_epoch()

    return train


def engine_loop(training: DeclaredTraining) -> Callable[[int], None]:
    """The engine's steps without a trial, with the same means at the end of an epoch."""

    def train(_: int) -> None:
        for batch in training.engine.begin_epoch():
            training.engine.train_step(batch)
            if after_step := training._loop.after_step:
                after_step()
        training.engine.train_means()

    return train


def ratio_text(logs: list[float]) -> str:
    """A ratio from its logarithms by round."""
    half = float(stdtrit(len(logs) - 1, 0.975)) * statistics.stdev(logs) / math.sqrt(len(logs))
    low, middle, high = (math.exp(statistics.fmean(logs) + shift) for shift in (-half, 0.0, half))
    return f"{middle:.3f} (95 %: {low:.3f} to {high:.3f}), median {math.exp(statistics.median(logs)):.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=("torch", "tensorflow", "torch_xla"))
    parser.add_argument("--workload", default="digits_cnn", help="with --engine")
    parser.add_argument("--nanogpt", type=Path, metavar="FOLDER", help="a checkout of nanoGPT")
    parser.add_argument("--only", choices=("raybench", "plain"), help="one of the two loops, for its memory")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--steps", type=int, default=4, help="steps of each loop in one round")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--precision", default="fp32")
    options = parser.parse_args()
    name = "gpt" if options.nanogpt else options.workload if options.engine else "davidnet"
    kind = "xla_cpu" if options.engine == "torch_xla" else "cuda" if torch.cuda.is_available() else "cpu"
    workload = workloads.get(name).with_options(GPT if options.nanogpt else {})
    whole = workload.prepare_data(datasets.get(str(workload.dataset)).load(datasets.data_root()))
    data = Data(whole.train.first(max(4096, options.batch * options.steps)), whole.val.first(1000))
    training = training_of(name, options.engine or "torch", kind, data, options) if options.only != "plain" else None
    if options.nanogpt:
        plain = nanogpt_loop(options.nanogpt, options, torch.device(kind))
    elif options.engine:
        plain = engine_loop(training)
    else:
        plain = plain_loop(data, options.batch, options.precision, torch.device(kind))
    loops = {"plain": plain} | ({"raybench": trial_loop(training)} if training else {})
    if options.only == "raybench":
        del loops["plain"], plain
    for _ in range(3):  # warm-up
        for loop in loops.values():
            loop(options.steps)
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in loops}
    for number in range(options.rounds):
        for name in sorted(loops, reverse=bool(number % 2)):
            if kind == "cuda":
                torch.cuda.synchronize()
            begun = time.perf_counter(), time.process_time()
            loops[name](options.steps)
            if kind == "cuda":
                torch.cuda.synchronize()
            seconds[name].append((time.perf_counter() - begun[0], time.process_time() - begun[1]))
    step_ms = 1000 * statistics.median(wall for wall, _ in next(iter(seconds.values()))) / options.steps
    print(f"{options.rounds} rounds of {options.steps} steps of {step_ms:.3g} ms")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")
    for clock, unit in enumerate(("wall", "processor") if len(loops) == 2 else ()):
        pairs = zip(seconds["raybench"], seconds["plain"], strict=True)
        print(f"{unit} time raybench / plain: {ratio_text([math.log(a[clock] / b[clock]) for a, b in pairs])}")


if __name__ == "__main__":
    main()
