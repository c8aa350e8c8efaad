"""Is the generator of synthetic scenes fast enough not to be what a U-net waits for, and constant in memory?

    python benchmarks/scenes.py [--workloads resunet_v1 resunet_v2] [--batch 16] [--steps 1] [--rounds 8] [--side 96]
    python benchmarks/scenes.py --memory 1200000

The first takes turns in one process: so many pictures made as training reads them (batches in a shuffled order, on one
core, as the thread that streams them has), then so many trained on; the order reversed every round, so that a drift of
the machine falls on both alike. Printed: pictures/s of each, and how many times as fast the generator is as each model,
round by round: its geometric mean with the 95 % interval of a paired t on logarithms. Below 1 the model would wait.

The second reads so many pictures with their targets one after another, in a process without a framework, and prints
the most memory the process has held after ten thousand and after each tenth of them.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import time
from pathlib import Path
from statistics import median

import numpy as np

from raybench.datasets import synthetic_scenes

BATCH = 128
"""Pictures that are read at once where only memory is looked at."""


def generate(count: int, batch: int, side: int, seed: int) -> float:
    """Seconds that so many pictures and targets take, in a shuffled order."""
    train = synthetic_scenes.sized(synthetic_scenes.read(Path()), side).train
    order = np.random.default_rng(seed).permutation(len(train.inputs))[:count]
    begun = time.perf_counter()
    for start in range(0, count, batch):
        for part in (train.inputs, train.targets):
            part[order[start : start + batch]]
    return time.perf_counter() - begun


def made(options: argparse.Namespace) -> dict[str, list[float]]:
    """Seconds of each round: of the generator, and of each model on as many pictures."""
    import torch

    from raybench import workloads
    from raybench.core.job import Recipe
    from raybench.core.ledger import Ledger
    from raybench.devices import Assignment, open_device
    from raybench.engines import EngineParts, open_engine
    from raybench.trial.run import in_memory

    count = options.batch * options.steps
    data = synthetic_scenes.sized(synthetic_scenes.read(Path()), options.side)
    few = in_memory(type(data)(data.train.first(4 * count), data.val.first(options.batch)))
    engines = {}
    for name in options.workloads:
        workload = workloads.get(name)
        asked = {"batch_size": options.batch, "steps_per_epoch": options.steps, "channels_last": True}
        device = open_device(options.kind, "torch", Assignment([], [], torch.get_num_threads()))
        device.open("fp32")
        recipe = Recipe.of({**workload.defaults, **asked})
        engines[name] = open_engine("torch", EngineParts(recipe, workload, device, Ledger(), 0))
        engines[name].load(few)
        engines[name].build()
        engines[name].train_epoch(1)  # warm-up
    seconds: dict[str, list[float]] = {name: [] for name in ("generator", *engines)}
    for number in range(options.rounds):
        for name in sorted(seconds, reverse=bool(number % 2)):
            if name in engines:
                begun = time.perf_counter()
                engines[name].train_epoch(number + 2)  # ends when the device is done
                seconds[name].append(time.perf_counter() - begun)
            else:
                pictures = max(count, options.pictures)
                took = generate(pictures, options.batch, options.side, number)
                seconds[name].append(took * count / pictures)
    return seconds


def told(seconds: dict[str, list[float]], count: int) -> list[str]:
    """The lines that say what came of it."""
    from raybench.analysis.statistics import intervals

    lines = [f"{name:<11} {count / median(times):9.2f} pictures/s" for name, times in seconds.items()]
    generator = seconds["generator"]
    for name in list(seconds)[1:]:
        logs = [math.log(model / own) for model, own in zip(seconds[name], generator, strict=True)]
        found = intervals.mean(logs)
        assert found is not None and found.low is not None and found.high is not None
        middle, low, high = (math.exp(end) for end in (found.value, found.low, found.high))
        lines.append(f"generator ÷ {name}: {middle:.0f} × as fast (95 %: {low:.0f} to {high:.0f})")
    return lines


def peak() -> float:
    """MiB that this process has held at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def memory(count: int, side: int) -> list[tuple[int, float, float]]:
    """How many pictures were read, the most memory until then in MiB, and seconds since the first."""
    train = synthetic_scenes.sized(synthetic_scenes.read(Path()), side).train
    wanted = {10_000, *(count * tenth // 10 for tenth in range(1, 11))}
    found, begun = [], time.perf_counter()
    for start in range(0, count, BATCH):
        end = min(start + BATCH, count)
        places = np.arange(start, end)
        for part in (train.inputs, train.targets):
            part[places]
        if any(start < mark <= end for mark in wanted):
            seconds = time.perf_counter() - begun
            found.append((end, round(peak(), 1), round(seconds, 1)))
            print(f"{end:>9,} pictures: at most {peak():.1f} MiB, {end / seconds:,.0f} pictures/s", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", nargs="+", default=["resunet_v1", "resunet_v2"])
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--steps", type=int, default=1, help="steps of each model in one round")
    parser.add_argument("--pictures", type=int, default=512, help="pictures of the generator in one round, at least")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--side", type=int, default=synthetic_scenes.SIDE)
    parser.add_argument("--kind", default="cpu", help="the device of the models")
    parser.add_argument("--memory", type=int, metavar="N", help="read N pictures, and look at memory alone")
    parser.add_argument("--json", type=Path, help="write the numbers here too")
    options = parser.parse_args()
    found: dict[str, object]
    if options.memory:
        found = {"memory": memory(options.memory, options.side)}
    else:
        seconds = made(options)
        print("\n".join(told(seconds, options.batch * options.steps)))
        found = {"seconds": seconds}
    if options.json:
        options.json.write_text(json.dumps({**vars(options), "json": None, **found}, indent=1))


if __name__ == "__main__":
    main()
