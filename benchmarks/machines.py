"""Coverage of intervals between models of device, whose machines differ in speed, by simulation.

    python benchmarks/machines.py [--draws 1000] [--seed 0]

Machines of one model differ by a standard deviation of their log speeds, runs on one by another. Two models are
compared: a pair of configurations, the effect of the device over three settings, the ratio of times to a target that
some runs miss, and of prices. `alone` is the interval for these machines alone, which takes runs as the unit. Both
models are equally fast, so what does not cover is a wrong claim. `setting` is an effect of a setting on the same
machines of the first model, which is compared within each of them.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import replace
from itertools import product

import numpy as np

from raybench.analysis.answer import Ratio
from raybench.analysis.intervals import Sample
from raybench.analysis.measured import TIME, Machines, Measured, Try, with_candidates
from raybench.analysis.ratios import as_ratio, cost_ratio, effect_on
from raybench.analysis.targets import target_ratio
from raybench.results.run_table import Run

SETTINGS = 3
REACHED = 0.8
"""Probability to reach the target."""

DESIGNS = ((1, 1), (1, 7), (2, 2), (3, 3), (5, 5), (1, 1, 4))
"""Numbers of machines of each model; the third is in the grid, and not compared."""

SPREADS = (0.003, 0.009, 0.01, 0.025, 0.039)
"""Standard deviations between machines of one model."""

KINDS = ("pair", "effect", "target", "price", "setting", "alone")


def draw(rng: np.random.Generator, machines: tuple[int, ...], between: float, within: float, repeats: int, same: bool):
    """Return the configurations of one grid: of each model with each setting."""
    run = Run(trial="a-r0", host={"kernel": "6.8"}, versions={"torch": "2.13"}) if same else Run(trial="a-r0")
    measured = []
    for model, count in enumerate(machines):
        of_machine = rng.normal(0, between, count)
        for setting in range(SETTINGS):
            logs = 0.3 * setting + of_machine[:, None] + rng.normal(0, within, (count, repeats))
            places = [(host, repeat) for host in range(count) for repeat in range(repeats)]
            times = [
                Sample(host * repeats + repeat, float(logs[host, repeat]), f"{model}-{host}") for host, repeat in places
            ]
            tries = [
                Try(each, bool(rng.random() < REACHED), (seconds := math.exp(each.value), seconds)) for each in times
            ]
            axes = {"device": str(model), "batch_size": setting}
            own = Measured(len(measured), axes, times=tuple(times), tries=tuple(tries), completed=(run,))
            measured.append(replace(own, price_per_hour=1.0 + model))
    return measured


def as_grid(configurations: list[Measured]) -> list[Measured]:
    """Return configurations as those of one grid."""
    own = with_candidates([replace(each, index=index) for index, each in enumerate(configurations)])
    machines = Machines(own)
    return [replace(each, machines=machines) for each in own]


def ratios(configurations: list[Measured]):
    """Yield ratios of the second model to the first by kind, each with its truth."""
    single = as_grid([each for each in configurations if not each.axes["batch_size"]])
    pair = cost_ratio(single[1], single[0])
    yield "pair", pair, 1.0
    yield "alone", pair and Ratio(pair.value, pair.these_low, pair.these_high), 1.0
    yield "target", target_ratio(single[1], single[0]), 1.0
    yield "price", cost_ratio(single[1], single[0], factor=0.5), 0.5
    grid = as_grid(configurations)
    pairs = [(grid[setting], grid[SETTINGS + setting]) for setting in range(SETTINGS)]
    found = effect_on(TIME, pairs)
    yield "effect", found and as_ratio(found.mean), 1.0
    first = as_grid(configurations[:2])
    yield "setting", cost_ratio(first[1], first[0]), math.exp(-0.3)


def table(draws: int, seed: int, runs: tuple[int, ...], noises: tuple[float, ...]) -> list[str]:
    """Return lines with the coverage of each kind of interval, and the median half-width of a pair."""
    head = "".join(f"{kind:>9}" for kind in KINDS)
    lines = [f"{'machines':<10}{'software':<10}{'runs':>5}{'sd of runs':>11}{'of machines':>12}{head}{'pair ±':>9}"]
    print(lines[0])
    for machines, same, within, repeats, between in product(DESIGNS, (True, False), noises, runs, SPREADS):
        if not same and between < 0.01:
            continue
        rng = np.random.default_rng(seed)
        inside: dict[str, list[bool]] = {}
        halves = []
        for _ in range(draws):
            for kind, ratio, truth in ratios(draw(rng, machines, between, within, repeats, same)):
                if ratio and ratio.low and ratio.high:
                    inside.setdefault(kind, []).append(ratio.low <= truth <= ratio.high)
                    halves += [math.log(ratio.high / ratio.low) / 2] if kind == "pair" else []
        shown = "".join(f"{100 * float(np.mean(inside.get(kind) or [math.nan])):>9.1f}" for kind in KINDS)
        names = ", ".join(map(str, machines)), "same" if same else "other"
        columns = f"{names[0]:<10}{names[1]:<10}{repeats:>5}{within:>11.1%}{between:>12.1%}"
        lines.append(f"{columns}{shown}{np.median(halves):>9.1%}")
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--runs", type=int, nargs="+", default=[3])
    parser.add_argument("--noises", type=float, nargs="+", default=[0.001, 0.01, 0.05])
    options = parser.parse_args()
    table(options.draws, options.seed, tuple(options.runs), tuple(options.noises))


if __name__ == "__main__":
    main()
