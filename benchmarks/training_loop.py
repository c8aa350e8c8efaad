"""What does `Trial` cost a training loop? The same loop plainly and with epochs(), steps() and evaluation(), in turn.

    python benchmarks/training_loop.py [--step-ms 1 100] [--seconds 0.5] [--rounds 40] [--json FILE]

Both loops take the same steps of the same PyTorch model in one process on one thread; a step of so many milliseconds
takes as many products of matrices before it. One round is an epoch of one and then of the other, the order reversed
every round, so that a drift of the machine falls on both alike. Printed for each length of a step: the ratio of the
times, with / without, its geometric mean over the rounds with the 95 % interval of a paired t on logarithms. And, read
off directly, what an empty step costs: the time of the fastest epoch of steps that do nothing, for each of them.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from scipy.special import stdtrit

from raybench.training.local import Printer, open_clock
from raybench.training.trial import Trial, TrialOptions

EMPTY_STEPS = 5000
Step = Callable[[Any], Any]


def make_step(milliseconds: float) -> Step:
    """A step of a small model, after products of matrices that take the rest of the time."""
    torch.manual_seed(0)
    model, matrix = torch.nn.Linear(16, 4), torch.rand(64, 64) / 64
    optimizer = torch.optim.SGD(model.parameters(), 0.01, weight_decay=1e-3)

    def step(batch: Any, products: int) -> torch.Tensor:
        for _ in range(products):
            torch.mm(matrix, matrix)
        loss = model(batch[0]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    batch, count = make_batches(1)[0], 256
    for _ in range(3):  # the first are slower
        begun = time.perf_counter()
        for _ in range(count):
            torch.mm(matrix, matrix)
        product_s = (time.perf_counter() - begun) / count
    begun = time.perf_counter()
    for _ in range(count):
        step(batch, 0)
    model_s = (time.perf_counter() - begun) / count
    products = max(0, round((milliseconds / 1e3 - model_s) / product_s))
    return lambda batch: step(batch, products)


def make_batches(count: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(torch.ones(32, 16), torch.zeros(32))] * count


def plain(step: Step, batches: Sequence[Any]) -> Iterator[None]:
    """The loop without raybench; yields after each epoch."""
    while True:
        for batch in batches:
            loss = step(batch)
        step(batches[0])
        float(loss.item() if loss is not None else 0)
        yield


def with_trial(step: Step, batches: Sequence[Any]) -> Iterator[None]:
    """The same loop with a trial."""
    options = TrialOptions(1_000_000, Path(), Path())
    trial = Trial(options, Printer(silent=True), lambda: open_clock("torch"))
    for _ in trial.epochs():
        for batch in trial.steps(batches):
            loss = step(batch)
        with trial.evaluation():
            step(batches[0])
        trial.log({"train/loss": 0 if loss is None else loss})
        yield


def seconds_of(step: Step, steps: int, rounds: int) -> dict[str, list[float]]:
    """Seconds of each epoch of both loops."""
    batches = make_batches(steps)
    loops = {"plain": plain(step, batches), "trial": with_trial(step, batches)}
    seconds: dict[str, list[float]] = {name: [] for name in loops}
    for number in range(-2, rounds):
        for name in sorted(loops, reverse=bool(number % 2)):
            begun = time.perf_counter()
            next(loops[name])
            if number >= 0:  # the others are warm-up
                seconds[name].append(time.perf_counter() - begun)
    return seconds


def ratio_of(seconds: dict[str, list[float]]) -> dict[str, float]:
    """The ratio of the times with its interval."""
    logs = [math.log(a / b) for a, b in zip(seconds["trial"], seconds["plain"], strict=True)]
    middle = statistics.fmean(logs)
    half = float(stdtrit(len(logs) - 1, 0.975)) * statistics.stdev(logs) / math.sqrt(len(logs))
    return {
        "ratio": math.exp(middle),
        "low": math.exp(middle - half),
        "high": math.exp(middle + half),
        "median": math.exp(statistics.median(logs)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--step-ms", type=float, nargs="+", default=[1.0, 100.0], help="milliseconds of a step")
    parser.add_argument("--seconds", type=float, default=0.5, help="of an epoch")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--json", type=Path, help="write the numbers here too")
    options = parser.parse_args()
    torch.set_num_threads(1)
    numbers: dict[str, Any] = {"steps": []}
    for milliseconds in options.step_ms:
        steps = max(2, round(options.seconds * 1e3 / milliseconds))
        seconds = seconds_of(make_step(milliseconds), steps, options.rounds)
        took_ms = statistics.median(seconds["plain"]) / (steps + 1) * 1e3
        result = {"step_ms": took_ms, "steps_per_epoch": steps, **ratio_of(seconds)}
        numbers["steps"].append(result)
        interval = f"{result['low']:.4f} to {result['high']:.4f}"
        middle = result["median"]
        print(
            f"steps of {took_ms:.3g} ms with / without: {result['ratio']:.4f} (95 %: {interval}), median {middle:.4f}"
        )
    empty = seconds_of(lambda batch: None, EMPTY_STEPS, max(5, options.rounds // 4))
    fastest = {name: min(times) / EMPTY_STEPS * 1e6 for name, times in empty.items()}
    numbers["empty_step_us"] = fastest
    print(f"an empty step: {fastest['plain']:.3g} µs plainly, {fastest['trial']:.3g} µs with a trial")
    if options.json:
        options.json.write_text(json.dumps(numbers))


if __name__ == "__main__":
    main()
