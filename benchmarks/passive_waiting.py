"""What does it cost a trial if its threads wait without spinning, and does a small network need several threads?

    python benchmarks/passive_waiting.py [--rounds 40] [--processes 3] [--jobs digits_cnn:32,davidnet:64] [--busy]

OpenMP's threads spin for some milliseconds before they sleep. On a quiet machine that saves the time of waking them; on
a busy one they spin away the processor time that the thread they wait for needs. OpenMP reads its settings when torch
is imported, so each way is a process of its own, on random pictures of the data set's shape:

    default     as OpenMP has it
    passive     OMP_WAIT_POLICY=passive and GOMP_SPINCOUNT=0
    one thread  torch.set_num_threads(1)

A round is a short block of training steps of each way, one after another, in an order that changes every round. Printed
are the medians over rounds of each way's seconds a step, and of its time ÷ that of `default` in the same round, with
the smallest and largest median of one set of processes: two processes differ by a little whatever they do. A round
begins when other programs leave the cores alone, and is left out if they took more than 5% of them meanwhile. Once the
patience is over, a set of processes has no further rounds, but if it has none yet, disturbed ones. `--busy` keeps every
core busy on purpose.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from raybench.devices.host import usable_cores
from raybench.monitoring.host_load import LoadMeter, measure_load

WAYS: dict[str, dict[str, str]] = {
    "default": {},
    "passive": {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0"},
    "one thread": {},
}
QUIET = 0.05
"""The part of the cores that other programs may take in a round that counts."""

BLOCK_S = 0.2
"""Seconds of one block of one thread, about, on a quiet machine."""


def work(workload: str, batch: int, threads: int) -> None:
    """Be a process that trains: for each number of steps on standard input, the seconds that they took."""
    import numpy as np

    from raybench import workloads
    from raybench.core.job import Recipe
    from raybench.core.ledger import Ledger
    from raybench.datasets.splits import Data, Split
    from raybench.devices import Assignment, open_device
    from raybench.engines import EngineParts, open_engine

    side, channels = {"digits": (8, 1), "mnist": (28, 1), "cifar10": (32, 3)}[workloads.get(workload).dataset]
    rng = np.random.default_rng(0)
    pictures = Split(
        rng.integers(0, 256, (max(2000, 4 * batch), side, side, channels), dtype=np.uint8),
        rng.integers(0, 10, max(2000, 4 * batch)),
    )
    device = open_device("cpu", "torch", Assignment([], [], threads))
    device.open("fp32")
    engines: dict[int, Any] = {}

    def engine(steps: int) -> Any:
        asked = {"batch_size": batch, "steps_per_epoch": steps, "schedule": "constant", "learning_rate": 1e-4}
        recipe = Recipe.of({**workloads.get(workload).defaults, **asked})
        made = open_engine("torch", EngineParts(recipe, workloads.get(workload), device, Ledger(), 0))
        made.load(Data(pictures, pictures.first(10)))
        made.build()
        made.train_epoch(1)  # the first epoch compiles
        return made

    print("ready", flush=True)
    for line in sys.stdin:
        steps = int(line)
        if steps not in engines:
            engines[steps] = engine(steps)
        begun = time.perf_counter()
        engines[steps].train_epoch(2)
        print(time.perf_counter() - begun, flush=True)


class Worker:
    """A process of one way."""

    def __init__(self, way: str, workload: str, batch: int) -> None:
        threads = 1 if way == "one thread" else len(usable_cores())
        ours = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_", "KMP_"))}
        package = str(Path(__file__).parent.parent)
        path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--worker", workload, str(batch), str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**ours, **WAYS[way], "PYTHONPATH": path},
        )
        self._answer()  # it is ready

    def _answer(self) -> str:
        assert self._process.stdout
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit("a process that trains has ended")
        return answer

    def train(self, steps: int) -> float:
        """Train so many steps; the seconds that they took."""
        assert self._process.stdin
        self._process.stdin.write(f"{steps}\n")
        self._process.stdin.flush()
        return float(self._answer())

    def close(self) -> None:
        """End it."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


def measure(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """The rounds of one job: for each set of processes, a list of seconds a step by way."""
    workload, batch = name.split(":")
    sets: list[list[dict[str, float]]] = []
    left_out = disturbed = 0
    for number in range(options.processes):
        with ExitStack() as stack:
            workers = {}
            for way in WAYS:
                workers[way] = Worker(way, workload, int(batch))
                stack.callback(workers[way].close)
            end = time.monotonic() + options.patience
            wait_for_quiet(end)
            steps = options.steps or steps_of_a_block(workers["one thread"])
            for worker in workers.values():
                worker.train(steps)
            if options.busy:
                keep_busy(stack)
            order, shuffled, calm = list(workers), random.Random(number), 0
            rounds: list[dict[str, float]] = []
            while len(rounds) < options.rounds:
                late = not options.busy and not wait_for_quiet(end)
                if late and calm:
                    break
                shuffled.shuffle(order)
                meter = LoadMeter()
                seconds = {way: workers[way].train(steps) for way in order}
                load = meter.read()
                quiet = load is None or load.busy <= QUIET * load.cores
                if not (options.busy or quiet or late):
                    left_out += 1
                    continue
                disturbed, calm = disturbed + (not quiet), calm + quiet
                rounds.append({way: value / steps for way, value in seconds.items()})
        sets.append(rounds)
    return {"sets": sets, "left_out": left_out, "disturbed": disturbed}


def steps_of_a_block(worker: Worker) -> int:
    step = min(worker.train(2) for _ in range(3)) / 2
    return max(1, min(400, round(BLOCK_S / step)))


def wait_for_quiet(end: float) -> bool:
    """Wait until other programs leave the cores alone, or until the end by the monotonic clock; whether they do."""
    while time.monotonic() < end:
        load = measure_load(0.2)
        if load is None or load.busy <= QUIET * load.cores:
            return True
    return False


def keep_busy(stack: ExitStack) -> None:
    """Keep every core busy until the stack is closed."""
    for _ in usable_cores():
        hog = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        stack.callback(hog.wait)
        stack.callback(hog.kill)


def ratio(sets: list[list[dict[str, float]]], way: str) -> tuple[float, float, float]:
    """The median over rounds of a way's time ÷ default, and the smallest and largest median of one set of processes."""
    of_sets = [[each[way] / each["default"] for each in rounds] for rounds in sets]
    medians = [statistics.median(ratios) for ratios in of_sets]
    return math.exp(statistics.fmean(map(math.log, medians))), min(medians), max(medians)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--processes", type=int, default=3, help="sets of processes, one after another")
    parser.add_argument("--jobs", default="digits_cnn:32,digits_cnn:128,mnist_cnn:128,davidnet:64")
    parser.add_argument("--steps", type=int, help=f"steps of a block; by default about {BLOCK_S} s")
    parser.add_argument("--busy", action="store_true", help="keep every core busy meanwhile")
    parser.add_argument("--patience", type=float, default=600, help="seconds to wait for quiet, for each set")
    parser.add_argument("--json", type=Path, help="write the numbers here too")
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.worker[0], *map(int, options.worker[1:]))
        return
    state = "busy" if options.busy else "quiet"
    print(f"{len(usable_cores())} cores, {state}; {options.processes} sets of processes, {options.rounds} rounds each")
    found: dict[str, Any] = {}
    for name in options.jobs.split(","):
        found[name] = measure(name, options)
        sets = found[name]["sets"]
        counted, left_out, disturbed = sum(map(len, sets)), found[name]["left_out"], found[name]["disturbed"]
        print(f"{name}: {counted} rounds, {disturbed} of them disturbed; {left_out} more left out", flush=True)
        for way in WAYS:
            step = statistics.median(each[way] for rounds in sets for each in rounds)
            middle, low, high = ratio(sets, way)
            print(f"  {way:<10} {step * 1000:9.2f} ms a step, ÷ default {middle:.3f} (min {low:.3f}, max {high:.3f})")
    if options.json:
        options.json.write_text(json.dumps({**vars(options), "json": None, "worker": None, "jobs": found}, indent=1))


if __name__ == "__main__":
    main()
