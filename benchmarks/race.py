"""Repeats until the best is known (`repeats: {until: best}`), by simulation: trials, the best, false claims, coverage.

    python benchmarks/race.py [--draws 200] [--seed 0] [--only NOISE]

A race is decided by `raybench.analysis.race`, as that of a grid is; only the log times are drawn: those of the
configurations evenly between 0 and a spread, with the noise of a family of `benchmarks/coverage.py`. A line has

    trials      mean number, and that of a fixed grid of 10 repeats
    dropped     of races in which the best left
    near        of races whose answer names one that is at most 2% slower than the best
    false       of races in which a statement is false: that one is slower than another, or the best faster than its
                reference
    best, left, effect
                coverage of the intervals of the best against its reference, of those that left against the best, and
                of the effect of the first axis
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Mapping, Sequence

import numpy as np
from coverage import FAMILIES, GRIDS, Array, Counts, Grid, Noise

from raybench.analysis.best import best, ranking
from raybench.analysis.effects import effects
from raybench.analysis.intervals import REPEATED_LOOKS, Sample, Stopping
from raybench.analysis.matching import Matching
from raybench.analysis.measured import Measured, with_candidates
from raybench.analysis.race import Race
from raybench.analysis.ratios import cost_ratio
from raybench.core.repeats import RepeatRule

SHAPES = {**GRIDS, "2x10": (2, 10)}
RACES = (("2x3", 0.15), ("2x10", 0.0), ("2x10", 0.05), ("2x10", 0.15), ("2x10", 0.4))
"""Shapes of grids with the spread of the log times of their configurations."""

FIRST, MOST, WITHIN = 3, 10, 0.02


def at_look(points: Sequence[Mapping[str, int]], logs: Array, runs: Mapping[int, int]) -> list[Measured]:
    """Return the configurations with as many runs as each has."""
    stopping = Stopping.of(REPEATED_LOOKS, FIRST, is_common=True, is_race=True)
    samples = {
        index: tuple(
            Sample(repeat, float(logs[repeat, index]), "", 2.0 * repeat, 2.0 * repeat + 1, stopping)
            for repeat in range(count)
        )
        for index, count in runs.items()
    }
    return with_candidates([Measured(index, point, times=samples[index]) for index, point in enumerate(points)])


class Races:
    """What came of races.

    Attributes:
        outcomes: of each race: trials, whether the best left, whether the named one is near it, a false statement.
    """

    def __init__(self) -> None:
        self.outcomes: list[tuple[int, bool, bool, bool]] = []
        self.counts = Counts()

    def run(self, grid: Grid, truth: Array, logs: Array) -> None:
        """Run a race to its end, and judge its answer by the truth."""
        rule = RepeatRule(FIRST, MOST, within=WITHIN)
        runs = dict.fromkeys(range(len(truth)), FIRST)
        race = Race(frozenset(runs))
        for repeats in range(FIRST, MOST + 1):
            runs |= dict.fromkeys(race.racing, repeats)
            race = race.after(at_look(grid.points, logs, runs), repeats, rule)
            if race.is_over:
                break
        measured = at_look(grid.points, logs, runs)
        matching = Matching(measured, {}, ranking(measured))
        (named, *_) = best(measured, matching, "", {})
        wrong = any(
            truth[index] <= truth[each.than] for index, each in race.departures.items() if each.than is not None
        )
        for ratio in named.ratios.values():
            if ratio and named.other is not None:
                gain = float(truth[named.other] - truth[named.configuration])
                self.counts.add("best", ratio.low, ratio.high, gain)
                wrong |= ratio.is_significant and gain <= 0
        for index in race.departures if np.ptp(truth) else ():
            if ratio := cost_ratio(measured[named.configuration], measured[index]):
                self.counts.add("left", ratio.low, ratio.high, float(truth[index] - truth[named.configuration]))
        for row in effects(measured, matching, ()):
            if row.axis == "device" and row.speed:
                pairs = matching.sets(row.axis, row.value, row.other)
                effect = float(np.mean([truth[b] - truth[a] for a, b in pairs]))
                self.counts.add("effect", row.speed.low, row.speed.high, effect)
        first_of_all = int(np.argmin(truth))
        is_near = bool(truth[named.configuration] - truth[first_of_all] <= math.log1p(WITHIN))
        is_dropped = first_of_all in race.departures and np.ptp(truth) > 0
        self.outcomes.append((sum(runs.values()), is_dropped, is_near, bool(wrong)))


def line(name: str, noise: Noise, shape: str, spread: float, draws: int, seed: int) -> str:
    """Return the line of a family, a shape and a spread."""
    rng, grid, races = np.random.default_rng(seed), Grid(SHAPES[shape], differs=False), Races()
    size = len(grid.points)
    for _ in range(draws):
        truth = rng.uniform(0, spread, size)
        races.run(grid, truth, truth + noise(rng, MOST, size))
    trials, *shares = np.mean(np.array(races.outcomes, dtype=float), axis=0)
    numbers = [*shares, *(races.counts.coverage(kind) for kind in ("best", "left", "effect"))]
    shown = "".join(f"{'-' if math.isnan(each) else f'{100 * each:.1f}':>9}" for each in numbers)
    return f"{name:<24}{shape:<6}{spread:>6.0%}{trials:>7.0f}/{MOST * size:<4}{shown}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=200, help="races of each line")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="a family of noise, such as 'runs, cv 5%%'")
    asked = parser.parse_args()
    began = time.monotonic()
    heads = ("dropped", "near", "false", "best", "left", "effect")
    print(f"{'%':<24}{'grid':<6}{'spread':>6}{'trials':>12}" + "".join(f"{each:>9}" for each in heads))
    families = {"runs, cv 1%": lambda rng, n, k: rng.normal(0, 0.01, (n, k)), **FAMILIES}
    for name, noise in families.items():
        for shape, spread in RACES if asked.only in ("", name) else ():
            print(line(name, noise, shape, spread, asked.draws, asked.seed), flush=True)
    print(f"{asked.draws} races of each line, seed {asked.seed}, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
