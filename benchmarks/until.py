"""Repeats until it is certain, by simulation: coverage, number of repeats, and false differences under repeated looks.

    python benchmarks/until.py [--grids 200] [--seed 0]

Each grid is run by `raybench.run.run_grid`, with its planning, its order of trials, its rule and its results folder;
only the trials end at once, with a time that is drawn. It has a reference and a configuration that takes 1.2 times as
long, and `repeats: {until: 5%}`. Printed for each spread of the times: how often the reported interval contains 1.2,
and the mean number of repeats. Below, two equal configurations get one more repeat after a report, from 3 to 10: how
often a report calls them different, with the intervals of repeated looks, and with those of a fixed number.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import fmean

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.executors import DrawnTimes

from raybench.analysis.answer import Ratio
from raybench.analysis.intervals import mean
from raybench.config import load_grid
from raybench.core.job import Job
from raybench.core.options import GridOptions
from raybench.run import run_grid

GRID = """
name: drawn
workload: {command: [train, "--speed={speed}"]}
axes: {device: [cpu], params.speed: [reference, other]}
"""
TRUTH = 1 / 1.2
LOOKS = range(3, 11)


def run(folder: Path, repeats: str, draw: Callable[[Job], float]) -> Ratio:
    """Return the reported ratio of a grid."""
    (folder / "grid.yaml").write_text(GRID)
    options = GridOptions(results=folder / "results", checks=False, tracking=None, report=False)
    spec = load_grid(folder / "grid.yaml", [f"repeats={repeats}"])
    ratio = run_grid(spec, DrawnTimes(draw), None, options).report.answer.configurations[1].ratio
    assert ratio is not None
    return ratio


def until_row(cv: float, grids: int, rng: np.random.Generator) -> str:
    """Return a line with the coverage and the mean number of repeats for a spread of the times."""
    found = []
    for _ in range(grids):
        with tempfile.TemporaryDirectory() as folder:
            found.append(
                run(
                    Path(folder),
                    "{until: 5%}",
                    lambda job: math.exp(rng.normal(0, cv)) * (1.2 if job.cell.params["speed"] == "other" else 1.0),
                )
            )
    inside = fmean((each.low or 0.0) <= TRUTH <= (each.high or 0.0) for each in found)
    reached = fmean(math.log((each.high or 0.0) / (each.low or 1.0)) / 2 <= math.log(1.05) + 1e-9 for each in found)
    repeats = fmean(each.runs for each in found)
    return f"{cv:>4.0%}  {inside:>9.1%}  {repeats:>7.2f}  {reached:>9.1%}"


def looks_row(cv: float, grids: int, rng: np.random.Generator) -> str:
    """Return a line with how often equal configurations are called different at any look."""
    honest, naive = [], []
    for _ in range(grids):
        drawn: dict[tuple[str, int], float] = {}

        def draw(job: Job, drawn: dict[tuple[str, int], float] = drawn) -> float:
            return drawn.setdefault((job.cell.params["speed"], job.repeat), math.exp(rng.normal(0, cv)))

        different, as_fixed = False, False
        with tempfile.TemporaryDirectory() as folder:
            for repeats in LOOKS:
                different |= run(Path(folder), str(repeats), draw).is_significant
                logs = [math.log(drawn["other", n] / drawn["reference", n]) for n in range(repeats)]
                low, high = mean(logs).interval() or (0.0, 0.0)
                as_fixed |= not low <= 0 <= high
        honest.append(different)
        naive.append(as_fixed)
    return f"{cv:>4.0%}  {fmean(honest):>14.1%}  {fmean(naive):>11.1%}"


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--grids", type=int, default=200, help="grids of each row")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    rng = np.random.default_rng(asked.seed)
    print("  cv   coverage  repeats  within 5%")
    for cv in (0.01, 0.02, 0.03, 0.05, 0.10):
        print(until_row(cv, asked.grids, rng), flush=True)
    print("\n  cv  called different  fixed alpha  (equal pairs, a report after each of 3 to 10 repeats)")
    print(looks_row(0.03, asked.grids, rng))


if __name__ == "__main__":
    main()
