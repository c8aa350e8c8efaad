"""What does `raybench compare` decide about unchanged, slower, and faster but worse code, and in what machine time?

    python benchmarks/before_after.py [--pairs 20] [--folder WORK] [--json FILE]

Three changes of a training function, whose steps are matrix products on one thread: none, 110 products for every 100,
and 3 % fewer products with 2 % more loss. In each round one `raybench compare --interleave` judges each of them. Every
fourth round also compares strictly with 5 repeats of trials that are twice as long. Each command is a process of its
own, as in a pipeline. Goals for 20 pairs: at most 1 alarm without a change, at least 18 slow-downs found, at least 16
worse versions discarded, in no more time than the strict way takes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

CHANGES = {"none": (100, 1.0), "10 % slower": (110, 1.0), "3 % faster, 2 % worse": (97, 1.02)}
"""Products of a step and loss after each change; before it they are those of `none`."""

GRID = """
name: products
workload: train.py:train
epochs: 3
steps_per_epoch: 4
threads: 1
axes: {device: [cpu]}
"""
TRAIN = """
import random

import torch
from work import PRODUCTS, LOSS, VERSION

def train(trial):
    weights = torch.full((256, 256), 1 / 256)
    noise = random.Random(f"{VERSION} {trial.seed}")
    for epoch in trial.epochs():
        for step in trial.steps(range(10**6), examples=1):
            value = weights
            for _ in range(PRODUCTS):
                value = value @ weights
        trial.log({"val/loss": LOSS * noise.gauss(1, 0.003) * float(value[0, 0] * 256)})
"""
WAYS = {"until verdict": (1, ()), "strict, 5 repeats": (4, ("--set", "epochs=6", "--repeats", "5", "--strict"))}
"""Each way of comparing: every how many rounds, and its options."""

QUALITY = ("--quality", "val/loss", "--max-quality-loss", "1%")
STATUSES = (0, 4, 5)


def main() -> int:
    """Run all rounds; print the decisions after each, since a long series may be interrupted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=20, metavar="N", help="comparisons of each change")
    parser.add_argument("--folder", type=Path, metavar="WORK", help="keep code and results here")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write each comparison here as well")
    asked = parser.parse_args()
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="before-after-") as scratch:
        for number in range(asked.pairs):
            for way, (every, options) in WAYS.items():
                for change in CHANGES if number % every == 0 else ():
                    folder = (asked.folder or Path(scratch)) / f"{number}-{every}-{change}".replace(" ", "_")
                    found.append(compare(folder, number, change, way, *options))
            if asked.json:
                asked.json.write_text(json.dumps(found, indent=1))
            print(f"round {number + 1} of {asked.pairs}", *summary(found), sep="\n", flush=True)
    return 0


def compare(folder: Path, number: int, change: str, way: str, *options: str) -> dict[str, Any]:
    """Write both versions and compare them; what is found of the change."""
    for version, (products, loss) in (("base", CHANGES["none"]), ("new", CHANGES[change])):
        (folder / version).mkdir(parents=True)
        (folder / version / "grid.yaml").write_text(GRID)
        (folder / version / "train.py").write_text(TRAIN)
        (folder / version / "work.py").write_text(
            f"VERSION, PRODUCTS, LOSS = '{version} {change} {number}', {products}, {loss}\n"
        )
    files = (str(folder / version / "grid.yaml") for version in ("base", "new"))
    command = [sys.executable, "-m", "raybench", "compare", "--interleave", *files, *QUALITY, *options]
    began = time.monotonic()
    command += ["--results", str(folder / "results"), "--tracking", "none", "--no-checks", "--json", "-"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in STATUSES:
        raise SystemExit(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    comparison = json.loads(done.stdout)
    (found,) = comparison["changes"]
    cautions = [each["code"] for each in comparison["cautions"]]
    return found | {"way": way, "change": change, "seconds": time.monotonic() - began, "cautions": cautions}


def summary(found: list[dict[str, Any]]) -> list[str]:
    """The verdicts about each change in each way."""
    verdicts = ("within the limit", "slower", "lower quality", "undecided")
    lines = [f"{'change':<23}{'how':<19}{'  '.join(verdicts)}  repeats  mean s  speed of new: mean (range)  half-width"]
    for way in WAYS:
        for name in CHANGES:
            rows = [each for each in found if (each["way"], each["change"]) == (way, name)]
            if not rows:
                continue
            counts = Counter(each["verdict"] for each in rows)
            speeds = [each["speed"] for each in rows]
            values = [each["value"] for each in speeds]
            half = sum(each["high"] / each["low"] for each in speeds) / len(rows) / 2 - 0.5
            cells = "  ".join(f"{counts[each]:>{len(each)}}" for each in verdicts)
            repeats = sum(each["runs"] for each in speeds) / len(rows)
            seconds = sum(each["seconds"] for each in rows) / len(rows)
            spread = f"{sum(values) / len(rows):.3f} ({min(values):.3f} to {max(values):.3f})"
            lines.append(f"{name:<23}{way:<19}{cells}  {repeats:>7.1f}  {seconds:>6.0f}  {spread:<26}  ±{half:.1%}")
    return lines


if __name__ == "__main__":
    sys.exit(main())
