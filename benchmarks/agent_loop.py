"""Does an agent that tries to speed up a training decide rightly? Ten candidate changes, one after the other.

    python benchmarks/agent_loop.py [--folder WORK] [--changes 10]

The loop is that of the page "Before and after a change": each change is compared with the best version so far, and is
adopted if the decision is keep and the whole interval of its speed is above 1. The truth beside each decision is
measured without raybench: processor time (and sleep) of the training in this process, and its loss, in alternating
runs with the same seeds. It is hardly affected by other programs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import fmean, median
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits

GRID = "{name: digits, workload: train.py:train, epochs: 4, threads: 1, axes: {device: [cpu]}}\n"
TRAIN = """
import time

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

BATCH, RATE = 64, 0.003
FORMAT = torch.contiguous_format


def augmented(images):
    return images + 0.1 * torch.randn(images.shape)


def train(trial):
    torch.manual_seed(trial.seed)
    digits = np.load("DIGITS")
    images = torch.tensor(digits["images"], dtype=torch.float32)[:, None].to(memory_format=FORMAT) / 16
    labels = torch.tensor(digits["target"])
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(512, 10),
    ).to(memory_format=FORMAT)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, foreach=False, fused=False)
    for epoch in trial.epochs():
        total = 0.0
        order = torch.randperm(1500)
        for batch in trial.steps(order.split(BATCH), examples=BATCH):
            with torch.autocast("cpu", torch.bfloat16, enabled=False):
                loss = cross_entropy(model(augmented(images[batch])), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        with trial.evaluation(), torch.no_grad():
            validation = cross_entropy(model(images[1500:]), labels[1500:])
        trial.log({"train/loss": float(total) * BATCH / 1500, "val/loss": float(validation)})
"""
CHANGES = {
    "a variable has another name": [("total", "summed")],
    "fused optimizer": [("fused=False", "fused=True")],
    "10 % more work in a step": [("optimizer.step()", "optimizer.step()\n            model[:4](images[:20])")],
    "sleep of 1 ms in the loader": [("    return images + 0.1", "    time.sleep(0.001)\n    return images + 0.1")],
    "learning rate 10 times lower": [("BATCH, RATE = 64, 0.003", "BATCH, RATE = 64, 0.0003")],
    "batch 256 with the same rate": [("BATCH, RATE = 64, 0.003", "BATCH, RATE = 256, 0.003")],
    "channels_last": [("FORMAT = torch.contiguous_format", "FORMAT = torch.channels_last")],
    "loss not read in each step": [("total += loss.item()", "total += loss.detach()")],
    "bfloat16": [("enabled=False", "enabled=True")],
    "no augmentation": [("augmented(images[batch])", "images[batch]")],
}
"""Texts that each change replaces."""

RUNS = 4
"""Runs of each version for the truth."""


def main() -> int:
    """Run the loop and print each decision."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, metavar="WORK", help="keep code and results here")
    parser.add_argument("--changes", type=int, metavar="N", help="only the first N changes")
    asked = parser.parse_args()
    heads = f"{'truth: speed':>12}{'loss':>8}  {'compare: speed (95% CI)':<24}{'loss':>8}{'runs':>6}{'s':>5}  decision"
    print(f"{'change':<30}{heads}")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="agent-loop-") as scratch:
        folder = (asked.folder or Path(scratch)).absolute()
        folder.mkdir(exist_ok=True)
        digits = load_digits()
        np.savez(folder / "digits.npz", images=digits.images, target=digits.target)
        best = TRAIN.replace("DIGITS", str(folder / "digits.npz"))
        truth(best, best)  # the first runs start libraries
        for number, (name, texts) in enumerate([*CHANGES.items()][: asked.changes]):
            new = best
            for old, text in texts:
                new = new.replace(old, text)
            began = time.monotonic()
            status, change = compare(folder / str(number), best, new)
            seconds = time.monotonic() - began
            faster, worse = truth(best, new)
            speed, quality = change["speed"], change["quality"]["val/loss"]
            words = {0: "adopt" if speed["low"] > 1 else "keep, no gain", 4: f"discard, {change['verdict']}"}
            decision = words.get(status, "undecided")
            interval = f"{speed['value']:.2f} ({speed['low']:.2f} to {speed['high']:.2f})"
            true = f"{faster:>12.2f}{worse:>+8.3f}"
            found = f"{interval:<24}{quality['value']:>+8.3f}{speed['runs']:>6}{seconds:>5.0f}"
            print(f"{name:<30}{true}  {found}  {decision}", flush=True)
            best = new if decision == "adopt" else best
    return 0


def compare(folder: Path, *versions: str) -> tuple[int, dict[str, Any]]:
    """The exit status of a comparison of two versions of the code, and what it says of the configuration."""
    files = []
    for name, text in zip(("base", "new"), versions, strict=True):
        (folder / name).mkdir(parents=True)
        (folder / name / "train.py").write_text(text)
        (folder / name / "grid.yaml").write_text(GRID)
        files.append(str(folder / name / "grid.yaml"))
    command = [sys.executable, "-m", "raybench", "compare", "--interleave", *files, "--quality", "val/loss"]
    command += ["--max-quality-loss", "5%", "--results", str(folder / "results"), "--tracking", "none", "--no-checks"]
    done = subprocess.run([*command, "--json", "-"], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 4, 5):
        raise SystemExit(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.returncode, json.loads(done.stdout)["changes"][0]


class Plain:
    """What the training functions use of a trial."""

    def __init__(self, seed: int) -> None:
        self.seed, self.loss = seed, 0.0

    def epochs(self) -> Iterable[int]:
        """As many as in the grid."""
        return range(4)

    def steps(self, batches: Iterable[Any], examples: int) -> Iterable[Any]:
        """The batches."""
        return batches

    @contextlib.contextmanager
    def evaluation(self) -> Iterator[None]:
        """Nothing else."""
        yield

    def log(self, metrics: dict[str, float]) -> None:
        """Keep the loss."""
        self.loss = metrics["val/loss"]


def truth(*versions: str) -> tuple[float, float]:
    """The speed of the second version relative to the first, and its loss minus that of the first."""
    seconds: list[list[float]] = [[], []]
    losses: list[list[float]] = [[], []]
    for seed in range(RUNS):
        for number in (0, 1)[:: 1 if seed % 2 else -1]:
            slept: list[float] = []
            names: dict[str, Any] = {}
            exec(versions[number], names)
            names["time"] = SimpleNamespace(sleep=slept.append)
            trial, began = Plain(seed), time.process_time()
            names["train"](trial)
            seconds[number].append(time.process_time() - began + sum(slept))
            losses[number].append(trial.loss)
    return median(seconds[0]) / median(seconds[1]), fmean(losses[1]) - fmean(losses[0])


if __name__ == "__main__":
    sys.exit(main())
