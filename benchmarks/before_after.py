"""What does `raybench compare` decide about unchanged, slower, and faster but worse code, and in what machine time?

    python benchmarks/before_after.py [--pairs 20] [--folder WORK] [--json FILE]

Each round compares three changes of a training function, whose steps are matrix products on one thread: none, 22
products for every 20, and 3 % fewer products with 2 % more loss. Each is compared in two ways: until there is a verdict
with short trials, and strictly with 5 repeats of long trials. The order of the six changes from round to round.
Each command is a process of its own, as in a pipeline. Goals for 20 pairs: at most 1 alarm without a change, at least
18 slow-downs found, at least 16 worse versions discarded, in no more time than the strict way takes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

GRID = """
name: products
workload: train.py:train
epochs: {epochs}
steps_per_epoch: 8
threads: 1
axes: {{device: [cpu], params.width: [256]}}
"""
TRAIN = """
import random

import torch
from work import LOSS, PRODUCTS

def train(trial, *, width: int):
    weights = torch.full((width, width), 1 / width)
    noise = random.Random(trial.seed)
    for epoch in trial.epochs():
        for step in trial.steps(range(10**6), examples=1):
            value = weights
            for _ in range(PRODUCTS):
                value = value @ weights
        trial.log({"val/loss": LOSS * noise.gauss(1, 0.003) * float(value[0, 0] * width)})
"""
CHANGES = {"none": (100, 1.0), "10 % slower": (110, 1.0), "3 % faster, 2 % worse": (97, 1.02)}
"""Products of a step and loss of each change; base is as without one."""

QUALITY = ("--quality", "val/loss", "--max-quality-loss", "1%")
WAYS = {
    "until verdict, 3 epochs": ("--set", "epochs=3", *QUALITY),
    "strict, 5 x 6 epochs": ("--set", "epochs=6", "--repeats", "5", "--strict", *QUALITY),
}
STATUSES = {0: "keep", 4: "discard", 5: "undecided"}


@dataclass
class Outcomes:
    """The decisions about one change in one way, with the ratios of times and the seconds of each comparison."""

    decisions: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STATUSES.values(), 0))
    ratios: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


def main() -> int:
    """Run all rounds and print the decisions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=20, metavar="N", help="comparisons of each kind")
    parser.add_argument("--folder", type=Path, metavar="WORK", help="keep code and results here")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers here as well")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="before-after-") as scratch:
        outcomes = measure(asked.folder or Path(scratch), asked.pairs, asked.json)
    print(f"{'change':<23}{'how':<25}{'keep':>5}{'discard':>9}{'undecided':>11}{'mean s':>8}  new ÷ base")
    for (change, way), found in outcomes.items():
        counts = "{keep:>5}{discard:>9}{undecided:>11}".format(**found.decisions)
        mean_s = sum(found.seconds) / len(found.seconds)
        spread = f"{min(found.ratios):.3f} to {max(found.ratios):.3f}" if found.ratios else ""
        print(f"{change:<23}{way:<25}{counts}{mean_s:>8.0f}  {spread}")
    return 0


def measure(folder: Path, pairs: int, file: Path | None) -> dict[tuple[str, str], Outcomes]:
    """Run all rounds; the outcomes by change and way, also written to the file after each round."""
    outcomes = {(change, way): Outcomes() for change in CHANGES for way in WAYS}
    for number in range(pairs):
        kinds = [*outcomes][number % len(outcomes) :] + [*outcomes][: number % len(outcomes)]
        for count, (change, way) in enumerate(kinds):
            place = folder / f"round-{number}-{count}"
            base, new = (write(place / name, *CHANGES[each]) for name, each in (("base", "none"), ("new", change)))
            began = time.monotonic()
            status, comparison = compare(
                "--interleave", base, new, "--results", place / "results", "--no-tracking", *WAYS[way]
            )
            found = outcomes[change, way]
            found.seconds.append(time.monotonic() - began)
            found.decisions[STATUSES[status]] += 1
            found.ratios += [1 / each["speed"]["value"] for each in comparison["changes"] if each["speed"]]
        print(f"round {number + 1} of {pairs}", file=sys.stderr, flush=True)
        if file:
            rows = [{"change": change, "how": way, **asdict(found)} for (change, way), found in outcomes.items()]
            file.write_text(json.dumps(rows, indent=1))
    return outcomes


def write(folder: Path, products: int, loss: float) -> Path:
    """Write a version of the code; return its grid file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train.py").write_text(TRAIN)
    (folder / "work.py").write_text(f"PRODUCTS, LOSS = {products}, {loss}\n")
    (folder / "grid.yaml").write_text(GRID.format(epochs=3))
    return folder / "grid.yaml"


def compare(*arguments: object) -> tuple[int, dict[str, Any]]:
    """The exit status of a comparison, and what it says."""
    done = run("compare", *arguments, "--json", "-", expected=tuple(STATUSES))
    return done.returncode, json.loads(done.stdout)


def run(*arguments: object, expected: Sequence[int] = (0,)) -> subprocess.CompletedProcess[str]:
    """Run a command of raybench; end with its output if it fails."""
    command = [sys.executable, "-m", "raybench", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in expected:
        raise SystemExit(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done


if __name__ == "__main__":
    sys.exit(main())
