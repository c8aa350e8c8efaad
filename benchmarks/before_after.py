"""How often does `raybench compare` call unchanged code slower, and does it find code that does 10 % more work?

    python benchmarks/before_after.py [--pairs 20] [--repeats 5] [--folder WORK] [--json FILE]
    python benchmarks/before_after.py --expected

Each round runs a grid of two cells whose steps are matrix products on one thread, with `raybench grid`: as it is, again
unchanged, and with 22 products for every 20. The second and the third are compared with the first, as two sessions
each. Then `raybench compare --interleave` runs and compares the same two pairs of versions. Every other round runs the
changed version before the unchanged one. Each command is a process of its own, as in a pipeline.

Printed for each: in how many pairs the command ended with the exit status of a slow-down, the verdicts on the cells,
and the median and the range of the ratios of times. A round with 5 repeats takes about three minutes on two cores.

`--expected` runs nothing, and prints what theory expects of interleaved comparisons: a paired t of logarithms that are
normal with a known standard deviation from run to run.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from scipy.special import nctdtr, stdtrit

GRID = """
name: products
workload: train.py:train
epochs: 4
steps_per_epoch: 40
threads: 1
axes: {device: [cpu], params.width: [192, 256]}
"""
TRAIN = """
import torch
from work import PRODUCTS

def train(trial, *, width: int):
    weights = torch.full((width, width), 1 / width)
    for epoch in trial.epochs():
        for step in trial.steps(range(10**6), examples=1):
            value = weights
            for _ in range(PRODUCTS):
                value = value @ weights
        trial.log({"val/value": value[0, 0]})
"""
PRODUCTS, MORE_PRODUCTS = 20, 22
SLOWER_STATUS = 4
VERDICTS = ("slower", "lower quality", "no completed run of new", "inconclusive", "within the limit")


@dataclass
class Outcomes:
    """What the comparisons of one kind say.

    Attributes:
        pairs: number of comparisons.
        alarms: number of those that ended with `SLOWER_STATUS`.
        cells: number of cells by verdict.
        ratios: new ÷ base of each cell.
    """

    pairs: int = 0
    alarms: int = 0
    cells: dict[str, int] = field(default_factory=lambda: dict.fromkeys(VERDICTS, 0))
    ratios: list[float] = field(default_factory=list)

    def add(self, status: int, comparison: dict[str, Any]) -> None:
        """Count one comparison."""
        self.pairs += 1
        self.alarms += status == SLOWER_STATUS
        for change in comparison["changes"]:
            self.cells[change["verdict"]] += 1
            if change["speed"]:
                self.ratios.append(1 / change["speed"]["value"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=20, metavar="N", help="comparisons of each kind")
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="repeats of each cell")
    parser.add_argument("--folder", type=Path, metavar="WORK", help="keep code and results here")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers here as well")
    parser.add_argument("--expected", action="store_true", help="print what theory expects, and run nothing")
    asked = parser.parse_args()
    if asked.expected:
        print_expected()
        return 0
    with tempfile.TemporaryDirectory(prefix="before-after-") as scratch:
        outcomes = measure(asked.folder or Path(scratch), asked.pairs, asked.repeats, asked.json)
    print(f"{asked.pairs} pairs of each kind, 2 cells, {asked.repeats} repeats; limit 5 %")
    print("change     sessions     alarms  slower  inconclusive  within  ratio: median (range)")
    for (change, how), found in outcomes.items():
        counts = [found.cells[verdict] for verdict in ("slower", "inconclusive", "within the limit")]
        spread = f"{statistics.median(found.ratios):.3f} ({min(found.ratios):.3f} to {max(found.ratios):.3f})"
        print("{:<9}  {:<11}  {:6d}  {:6d}  {:12d}  {:6d}  {}".format(change, how, found.alarms, *counts, spread))
    return 0


def print_expected() -> None:
    """Print the shares of false alarms and of slow-downs that are found, for a limit of 5 %."""
    print("deviation  repeats  false alarm in any of 10 cells  10 % found  20 % found")
    for deviation, repeats in ((0.01, 3), (0.01, 5), (0.02, 5), (0.02, 10), (0.05, 3), (0.05, 10)):
        shares = [share_slower(deviation, repeats, slowdown) for slowdown in (0.0, 0.1, 0.2)]
        shares[0] = 1 - (1 - shares[0]) ** 10
        print("{:>9.0%}  {:>7}  {:>30.2%}  {:>10.1%}  {:>10.1%}".format(deviation, repeats, *shares))


def share_slower(deviation: float, repeats: int, slowdown: float, limit: float = 0.05) -> float:
    """The probability that the whole 95 % interval of a cell's ratio is above the limit."""
    of_pair = math.sqrt(2) * deviation
    shift = math.sqrt(repeats) * (math.log1p(slowdown) - math.log1p(limit)) / of_pair
    return float(1 - nctdtr(repeats - 1, shift, stdtrit(repeats - 1, 0.975)))


def measure(folder: Path, pairs: int, repeats: int, file: Path | None) -> dict[tuple[str, str], Outcomes]:
    """Run all rounds; the outcomes by change and by the way of comparing, also written to the file after each round."""
    products = {"base": PRODUCTS, "none": PRODUCTS, "10 % more": MORE_PRODUCTS}
    changes = [name for name in products if name != "base"]
    outcomes = {(change, how): Outcomes() for change in changes for how in ("two", "interleaved")}
    files = {name: write(folder / name.replace(" % ", "_"), number) for name, number in products.items()}
    for number in range(pairs):
        place = folder / f"round-{number}"
        order = changes if number % 2 == 0 else changes[::-1]
        options = ["--repeats", str(repeats), "--no-tracking"]
        for name in ("base", *order):
            run("grid", files[name], "--results", place / files[name].parent.name, *options)
        for change in order:
            names = [place / files[name].parent.name for name in ("base", change)]
            outcomes[change, "two"].add(*compare(*names))
            both = ["--interleave", files["base"], files[change]]
            outcomes[change, "interleaved"].add(*compare(*both, "--results", place / "both", *options))
        print(f"round {number + 1} of {pairs}", file=sys.stderr, flush=True)
        if file:
            rows = [{"change": change, "sessions": how, **asdict(found)} for (change, how), found in outcomes.items()]
            file.write_text(json.dumps({"repeats": repeats, "rows": rows}, indent=1))
    return outcomes


def write(folder: Path, products: int) -> Path:
    """Write a version of the code; return its grid file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train.py").write_text(TRAIN)
    (folder / "work.py").write_text(f"PRODUCTS = {products}\n")
    (folder / "grid.yaml").write_text(GRID)
    return folder / "grid.yaml"


def compare(*arguments: object) -> tuple[int, dict[str, Any]]:
    """The exit status of a comparison, and what it says."""
    done = run("compare", *arguments, "--json", "-", expected=(0, SLOWER_STATUS))
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
