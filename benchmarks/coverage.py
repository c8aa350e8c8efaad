"""Coverage of the intervals of an answer, and claims on grids without any effect, by simulation.

    python benchmarks/coverage.py [--draws 2000] [--seed 0] [--only NOISE] [--table price]

Runs of made-up grids have log times with a known truth and one family of noise each. For every interval that an answer
states (a configuration against its reference, an effect over matched sets, the best of several) it counts how often the
truth is inside, and on grids in which nothing differs how often anything is claimed: a configuration of the table, or
the best, differs significantly from its reference, or an effect depends on a different axis.

A table on scaling has the efficiency of several devices and the serial share. Two are of two configurations:
the expected time to a target that some runs miss, where the truth is the time with restarts (or, if no run missed it,
that of successes, as the report says), and differences of an accuracy. One on prices has the price of a configuration,
and what is wrongly said to be slower and more expensive than another.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
from numpy.typing import NDArray

from raybench.analysis.best import best
from raybench.analysis.effects import effects
from raybench.analysis.intervals import Sample
from raybench.analysis.matching import Matching
from raybench.analysis.measured import Measured, Try, with_candidates
from raybench.analysis.ratios import cost_ratio, cost_summary, priced, quality_difference
from raybench.analysis.scaling import serial_share
from raybench.analysis.targets import expected, target_ratio
from raybench.analysis.trade_off import trade_offs

Array = NDArray[np.float64]
Noise = Callable[[np.random.Generator, int, int], Array]
"""Noise of log times by repeat and configuration; the first half of the configurations is the first device's."""

EPOCHS = 5
METRIC = "val/accuracy"
SLOW_STATE = 1.3


def _runs(cv: float) -> Noise:
    return lambda rng, n, k: rng.normal(0, cv, (n, k))


def _autocorrelated(rng: np.random.Generator, n: int, k: int) -> Array:
    epochs = np.empty((EPOCHS, n, k))
    epochs[0] = rng.normal(0, 0.03, (n, k))
    for number in range(1, EPOCHS):
        epochs[number] = 0.8 * epochs[number - 1] + 0.6 * rng.normal(0, 0.03, (n, k))
    return np.median(epochs, axis=0) + rng.normal(0, 0.01, (n, k))


def _in_time(rng: np.random.Generator, values: Array, n: int, k: int) -> Array:
    """Values in the order of time, by repeat and configuration: shuffled, and every other repeat in reverse order."""
    places = rng.permuted(np.tile(np.arange(k), (n, 1)), axis=1)
    places[1::2] = k - 1 - places[: n - 1 : 2]
    return np.take_along_axis(values.reshape(n, k), places, axis=1)


def _drift(rng: np.random.Generator, n: int, k: int) -> Array:
    return _in_time(rng, np.linspace(0, 0.10, n * k), n, k) + rng.normal(0, 0.01, (n, k))


def _walk(rng: np.random.Generator, n: int, k: int) -> Array:
    return _in_time(rng, rng.normal(0, 0.04 / math.sqrt(k / 2), n * k).cumsum(), n, k) + rng.normal(0, 0.01, (n, k))


def _slow_epochs(rng: np.random.Generator, n: int, k: int) -> Array:
    epochs = rng.normal(0, 0.03, (EPOCHS, n, k)) + math.log(3) * (rng.random((EPOCHS, n, k)) < 0.05)
    return np.median(epochs, axis=0)


def _slow_runs(factor: float) -> Noise:
    return lambda rng, n, k: rng.normal(0, 0.03, (n, k)) + math.log(factor) * (rng.random((n, k)) < 0.05)


def _memory(rng: np.random.Generator, n: int, k: int) -> Array:
    """Runs in the order of time, with an autocorrelation of 0.8 from one to the next."""
    values = rng.normal(0, 0.03, n * k)
    for number in range(1, n * k):
        values[number] = 0.8 * values[number - 1] + 0.6 * values[number]
    return values


def _states(rng: np.random.Generator, n: int, k: int) -> Array:
    """Runs in the order of time on a machine that changes between two states, one of them 1.3x as slow."""
    changes = rng.random(n * k) < 0.1
    return math.log(SLOW_STATE) * ((changes.cumsum() + rng.integers(2)) % 2) + rng.normal(0, 0.01, n * k)


def _shuffled(series: Noise) -> Noise:
    return lambda rng, n, k: _in_time(rng, series(rng, n, k), n, k)


def _in_fixed_order(series: Noise) -> Noise:
    return lambda rng, n, k: series(rng, n, k).reshape(n, k)


def _two_states(rng: np.random.Generator, n: int, k: int) -> Array:
    return math.log(SLOW_STATE) * rng.integers(0, 2, (n, k)) + rng.normal(0, 0.01, (n, k))


def _states_of_devices(rng: np.random.Generator, n: int, k: int) -> Array:
    of_device = rng.integers(0, 2, (n, 2))[:, (np.arange(k) >= k / 2).astype(int)]
    return math.log(SLOW_STATE) * of_device + rng.normal(0, 0.01, (n, k))


def _unequal(rng: np.random.Generator, n: int, k: int) -> Array:
    scale = np.where(np.arange(k) < k / 2, 0.01, 0.06)
    return rng.normal(0, 1, (n, k)) * scale


def _one_noisy(rng: np.random.Generator, n: int, k: int) -> Array:
    return rng.normal(0, 1, (n, k)) * np.where(np.arange(k) == 0, 0.05, 0.002)


def _heavy_tails(rng: np.random.Generator, n: int, k: int) -> Array:
    return 0.03 * rng.standard_t(3, (n, k))


def _device_repeat(rng: np.random.Generator, n: int, k: int) -> Array:
    of_device = rng.normal(0, 0.02, (n, 2))[:, (np.arange(k) >= k / 2).astype(int)]
    return of_device + rng.normal(0, 0.01, (n, k))


FAMILIES: dict[str, Noise] = {
    "runs, cv 5%": _runs(0.05),
    "autocorrelated epochs": _autocorrelated,
    "linear drift 10%": _drift,
    "random walk 4%": _walk,
    "5% of epochs 3x": _slow_epochs,
    "5% of runs 1.5x": _slow_runs(1.5),
    "5% of runs 3x": _slow_runs(3.0),
    "unequal noise 1:6": _unequal,
    "one noisy of all": _one_noisy,
    "t with 3 df": _heavy_tails,
    "device x repeat 2%": _device_repeat,
    "device x repeat 1.3x": _states_of_devices,
    "bimodal runs 1.3x": _two_states,
    "memory 0.8": _shuffled(_memory),
    "memory, fixed order": _in_fixed_order(_memory),
    "states 1.3x": _shuffled(_states),
    "states, fixed order": _in_fixed_order(_states),
}
"""Every family of noise by its name; of runs with a different cv all intervals are as much wider."""

GRIDS = {"2": (2,), "2x3": (2, 3), "2x3x3": (2, 3, 3), "6": (6,), "6x3": (6, 3)}
"""Shapes of grids; the first axis is the device."""


class Grid:
    """A made-up grid: its configurations, and a truth in which the first axis and the second have effects.

    Args:
        shape: numbers of values of its axes.
        differs: whether values of the axes differ in speed.
    """

    def __init__(self, shape: Sequence[int], differs: bool) -> None:
        names = ("device", "batch_size", "weight_decay")[: len(shape)]
        self.points = [dict(zip(names, values, strict=True)) for values in product(*map(range, shape))]
        steps = (0.5, 0.2, 0.0)
        self.truth = np.array(
            [-sum(step * value for step, value in zip(steps, point.values(), strict=False)) for point in self.points]
        )
        self.truth *= differs
        self.matching = Matching([Measured(index, point) for index, point in enumerate(self.points)], {})

    def draw(self, rng: np.random.Generator, noise: Noise, repeats: int) -> list[Measured]:
        """Return the runs of one draw."""
        k = len(self.points)
        logs = self.truth + noise(rng, repeats, k)
        measured = [
            Measured(
                index,
                point,
                times=tuple(_sample(repeat, float(logs[repeat, index])) for repeat in range(repeats)),
            )
            for index, point in enumerate(self.points)
        ]
        return with_candidates(measured)


class Counts:
    """How often intervals contained the truth, by kind of interval, and how often something was claimed."""

    def __init__(self) -> None:
        self.inside: dict[str, list[bool]] = {}
        self.widths: dict[str, list[float]] = {}
        self.claims: list[tuple[bool, bool]] = []

    def add(self, kind: str, low: float | None, high: float | None, truth: float) -> None:
        """Count an interval."""
        if low is not None and high is not None:
            self.inside.setdefault(kind, []).append(bool(low <= math.exp(truth) <= high))
            self.widths.setdefault(kind, []).append(math.log(high / low) / 2 if low else math.inf)

    def coverage(self, kind: str) -> float:
        """Return the fraction of intervals that contained the truth; NaN if there was none."""
        return float(np.mean(self.inside.get(kind) or [math.nan]))

    @property
    def wrong_claims(self) -> float:
        """The fraction of draws in which a configuration was claimed to be better."""
        return float(np.mean([claimed for claimed, _ in self.claims]))


def simulate(shape: Sequence[int], noise: Noise, repeats: int, draws: int, seed: int, differs: bool) -> Counts:
    """Return the counts of one kind of grid and noise."""
    rng, counts = np.random.default_rng(seed), Counts()
    grid = Grid(shape, differs)
    references = grid.matching.references
    for _ in range(draws):
        measured = grid.draw(rng, noise, repeats)
        last = len(measured) - 1
        others = [
            (each, measured[references[each.index] or 0]) for each in measured if each.index != references[each.index]
        ]
        pair, *further = (cost_ratio(*sides) for sides in reversed(others if not differs else others[-1:]))
        if pair:
            counts.add("pair", pair.low, pair.high, grid.truth[references[last] or 0] - grid.truth[last])
        rows = effects(measured, grid.matching, ())
        depends, claimed = (
            any(row.varies for row in rows),
            any(each and each.is_significant for each in (pair, *further)),
        )
        for row in rows:
            if row.sets > 1 and row.speed and row.axis == "device":
                pairs = grid.matching.sets(row.axis, row.value, row.other)
                truth = float(np.mean([grid.truth[b] - grid.truth[a] for a, b in pairs]))
                counts.add("effect", row.speed.low, row.speed.high, truth)
        for each in best(measured, grid.matching, "", {}):
            for ratio in each.ratios.values():
                if ratio and each.other is not None:
                    truth = grid.truth[each.other] - grid.truth[each.configuration]
                    counts.add("best", ratio.low, ratio.high, float(truth))
                    claimed |= ratio.is_significant
        counts.claims.append((claimed, depends))
    return counts


def coverage_table(draws: int, seed: int, repeats: Sequence[int] = (2, 3, 4, 5, 10), only: str = "") -> list[str]:
    """Return lines with the coverage by family (or of one alone), grid and number of repeats."""
    lines = [f"{'coverage, %':<24}{'grid':<8}{'n':>3}{'pair':>7}{'effect':>8}{'best':>7}"]
    for name, noise in FAMILIES.items():
        for grid in ("2", "2x3", "2x3x3") if only in ("", name) else ():
            for n in repeats:
                counts = simulate(GRIDS[grid], noise, n, draws, seed, differs=True)
                shown = [f"{100 * counts.coverage(kind):.1f}" for kind in ("pair", "effect", "best")]
                lines.append(f"{name:<24}{grid:<8}{n:>3}{shown[0]:>7}{shown[1]:>8}{shown[2]:>7}")
    return lines


def null_table(draws: int, seed: int, only: str = "") -> list[str]:
    """Return lines with how often something is claimed on grids in which nothing differs."""
    lines = [f"{'claimed, %':<24}{'grid':<8}{'n':>3}{'a ratio':>9}{'a dependence':>14}{'either':>8}"]
    for name, noise in FAMILIES.items():
        for grid in ("2x3x3", "6", "6x3") if only in ("", name) else ():
            for n in (2, 3, 5):
                claims = np.array(simulate(GRIDS[grid], noise, n, draws, seed, differs=False).claims)
                shown = [100 * float(each.mean()) for each in (claims[:, 0], claims[:, 1], claims.any(axis=1))]
                lines.append(f"{name:<24}{grid:<8}{n:>3}{shown[0]:>9.1f}{shown[1]:>14.1f}{shown[2]:>8.1f}")
    return lines


TARGETS = {
    "no run misses": (1.0, 1.0),
    "9 of 10 reach it": (0.9, 0.9),
    "7 of 10 reach it": (0.7, 0.7),
    "half of one reach it": (0.5, 1.0),
    "half reach it": (0.5, 0.5),
}
"""Probabilities to reach the target, of each of two configurations, by name."""

SPREADS: dict[str, float | tuple[float, float] | None] = {"cv 10%": 0.10, "1:6": (0.02, 0.12), "whole epochs": None}
"""Spread of the logs of times to the target; None: at the end of the second, third or fourth epoch."""


def target_table(draws: int, seed: int) -> list[str]:
    """Return lines with the coverage of times to a target and their ratio, and wrong claims if both are equal."""
    lines = [f"{'time to target, %':<24}{'times':<14}{'n':>3}{'time':>7}{'ratio':>7}{'wrong':>7}"]
    for (name, chances), (spread, sd) in product(TARGETS.items(), SPREADS.items()):
        for n in (3, 5, 10):
            time, ratio = (targets(n, chances, sd, draws, seed, speeds) for speeds in ((2.0, 1.0), (1.0, 1.0)))
            shown = [time.coverage("time"), time.coverage("ratio"), ratio.wrong_claims]
            lines.append(f"{name:<24}{spread:<14}{n:>3}" + "".join(f"{100 * each:>7.1f}" for each in shown))
    return lines


def _sample(repeat: int, value: float) -> Sample:
    """Return a number of a run; the two sides of a repeat alternate."""
    return Sample(repeat, value, "", 2.0 * repeat, 2.0 * repeat + 1)


def targets(
    n: int,
    chances: tuple[float, float],
    spread: float | tuple[float, float] | None,
    draws: int,
    seed: int,
    speeds: tuple[float, float],
) -> Counts:
    """Return the counts for two configurations; a claim is a significant ratio on the wrong side of the truth."""
    rng, counts = np.random.default_rng(seed), Counts()
    spreads = spread if isinstance(spread, tuple) else (spread or 0.0, spread or 0.0)
    if spread is None:
        factors, weights = np.array([2.0, 3.0, 4.0]) / 3, np.array([0.25, 0.5, 0.25])
        mean, typical = float(factors @ weights), math.exp(float(np.log(factors) @ weights))

    step = 1 / 108 if spread is None else 0.0  # of an epoch, which takes a third of the usual time

    def times(side: int) -> Array:
        if spread is None:
            return speeds[side] * rng.choice(factors, n, p=weights) * np.exp(rng.normal(0, 0.01, n))
        return speeds[side] * np.exp(rng.normal(0, spreads[side], n))

    def truth(side: int, chance: float = 0.0) -> float:
        success = speeds[side] * (mean if spread is None else math.exp(spreads[side] ** 2 / 2))
        return success + (1 / (chance or chances[side]) - 1) * 2 * speeds[side]

    def success(side: int) -> float:
        return speeds[side] * (typical if spread is None else 1.0)

    for _ in range(draws):
        sides = []
        for side in range(2):
            reached = rng.random(n) < chances[side]
            whole = 2 * speeds[side]
            tries = tuple(
                Try(_sample(repeat, math.log(each)), bool(hit), (each, whole), rounding=step if hit else 0.0)
                for repeat, (each, hit) in enumerate(
                    (float(time if hit else whole), hit) for time, hit in zip(times(side), reached, strict=True)
                )
            )
            sides.append(Measured(side, {}, tries=tries))
        if (time := expected(sides[1].tries)) is not None:
            all_reached = time.reached == time.runs
            counts.add("time", time.low, time.high, math.log(truth(1, 1.0 if all_reached else 0.0)))
        ratio = target_ratio(sides[1], sides[0])
        if ratio is None:
            continue
        of = success if all(each.reached for side in sides for each in side.tries) else truth
        counts.add("ratio", ratio.low, ratio.high, math.log(of(0) / of(1)))
        right = math.log(truth(0) / truth(1))
        counts.claims.append((ratio.is_significant and math.log(ratio.value) * right <= 0, False))
    return counts


def scaling_table(draws: int, seed: int, repeats: Sequence[int] = (4, 10)) -> list[str]:
    """Return lines with the coverage of the efficiency with most devices, and of the serial share of the times."""
    lines = [f"{'scaling, %':<24}{'counts':<10}{'n':>3}{'serial':>8}{'efficiency':>12}{'share':>7}{'stated':>8}"]
    noises = {f"runs, cv {cv}%": _runs(cv / 100) for cv in (1, 2, 3, 5)}
    noises |= {name: FAMILIES[name] for name in ("random walk 4%", "device x repeat 2%")}
    for (name, noise), count, share in product(noises.items(), (3, 4), (0.02, 0.1, 0.3)):
        for n in repeats:
            counts = scaling(noise, [2**power for power in range(count)], share, n, draws, seed)
            stated = len(counts.inside.get("share", ())) / draws
            shown = [counts.coverage("efficiency"), counts.coverage("share"), stated]
            columns = f"{name:<24}{f'1 to {2 ** (count - 1)}':<10}{n:>3}{share:>8.0%}"
            lines.append(
                columns + "".join(f"{100 * each:>{size}.1f}" for each, size in zip(shown, (12, 7, 8), strict=True))
            )
    return lines


def scaling(noise: Noise, amounts: Sequence[int], share: float, n: int, draws: int, seed: int) -> Counts:
    """Return the counts for times that follow Amdahl's law."""
    rng, counts = np.random.default_rng(seed), Counts()
    truth = share + (1 - share) / np.array(amounts)
    for _ in range(draws):
        logs = np.log(truth) + noise(rng, n, len(amounts))
        measured = [
            Measured(i, {"count": each}, times=tuple(_sample(repeat, float(logs[repeat, i])) for repeat in range(n)))
            for i, each in enumerate(amounts)
        ]
        measured = with_candidates(measured)
        rows = effects(measured, Matching(measured, {}), ())
        efficiency = next(row.efficiency for row in rows if row.value == amounts[-1])
        if efficiency:
            counts.add("efficiency", efficiency.low, efficiency.high, -math.log(truth[-1] * amounts[-1]))
        serial = serial_share([{each.axes["count"]: each.times for each in measured}])
        if serial and serial.low is not None and serial.high is not None:
            counts.inside.setdefault("share", []).append(serial.low <= share <= serial.high)
    return counts


QUALITIES: dict[str, Callable[[np.random.Generator, int, int], Array]] = {
    "sd 0.3 points": lambda rng, n, side: rng.normal(0, 0.003, n),
    "sd 3 points": lambda rng, n, side: rng.normal(0, 0.03, n),
    "sd 0.2 and 1 points": lambda rng, n, side: rng.normal(0, (0.002, 0.010)[side], n),
    "t with 3 df": lambda rng, n, side: 0.003 * rng.standard_t(3, n),
    "100 examples": lambda rng, n, side: rng.normal(0, 0.002, n),
    "1 in 20 loses 10 points": lambda rng, n, side: rng.normal(0, 0.003, n) - 0.1 * (rng.random(n) < 0.05),
}
"""Noise of an accuracy by name; the true difference is 0.4 points."""


def quality_table(draws: int, seed: int) -> list[str]:
    """Return lines with the coverage of differences of accuracy; runs of n = 5 and 10 alternate, and are paired."""
    lines = [f"{'accuracy, %':<24}{'n':>3}{'coverage':>10}"]
    for (name, noise), n in product(QUALITIES.items(), (2, 3, 5, 10)):
        rng, counts = np.random.default_rng(seed), Counts()
        examples = 100 if name == "100 examples" else 10_000

        measured = partial(_accuracies, rng, noise, examples)
        truth = float(measured(1, 200_000).mean() - measured(0, 200_000).mean())
        for _ in range(draws):
            sides = []
            for side in range(2):
                samples = tuple(_sample(repeat, float(each)) for repeat, each in enumerate(measured(side, n)))
                floor = {METRIC: 1 / (12 * examples**2)}
                sides.append(Measured(side, {}, qualities={METRIC: samples}, roundings=floor))
            found = quality_difference(sides[1], sides[0], METRIC)
            if found and found.low is not None and found.high is not None:
                counts.inside.setdefault("pair", []).append(found.low <= truth <= found.high)
        lines.append(f"{name:<24}{n:>3}{100 * counts.coverage('pair'):>10.1f}")
    return lines


def _accuracies(
    rng: np.random.Generator,
    noise: Callable[[np.random.Generator, int, int], Array],
    examples: int,
    side: int,
    runs: int,
) -> Array:
    """Return the accuracies of runs, each a number of right answers among the examples."""
    return np.asarray(np.round((0.902 + 0.004 * side + noise(rng, runs, side)) * examples) / examples)


def price_table(draws: int, seed: int) -> list[str]:
    """Return lines with the coverage of a price, and claims that a configuration is slower and more expensive.

    The log times of 6 configurations on 2 devices vary by 10% around each other, prices of the devices by 20%. A claim
    is false unless the better configuration is truly faster and cheaper; the last column is the detection rate at 10%.
    """
    lines = [f"{'price, %':<24}{'n':>3}{'covered':>9}{'grids with a false claim':>26}{'worse by 10%, found':>21}"]
    for (name, noise), repeats in product(FAMILIES.items(), (3, 5)):
        rng, counts, found = np.random.default_rng(seed), Counts(), list[bool]()
        grid = Grid((2, 3), differs=False)
        # The price is that of typical runs, also of a machine that becomes slower.
        shift = float(np.median([noise(rng, repeats, 6)[:, 0] for _ in range(2000)]))
        for _ in range(draws):
            grid.truth = rng.normal(0, 0.1, len(grid.points))
            hour = np.repeat(np.exp(rng.normal(0, 0.2, 2)), 3)
            measured = [
                replace(e, price_per_hour=float(p)) for e, p in zip(grid.draw(rng, noise, repeats), hour, strict=True)
            ]
            price = priced(cost_summary(measured[0].times), measured[0].price_per_hour)
            if price:
                counts.add("price", price.low, price.high, grid.truth[0] + shift + math.log(hour[0] / 3600))
            costs, (trade_off,) = grid.truth + np.log(hour), trade_offs(with_candidates(measured), "", {})
            margins = {
                (a, b): min(grid.truth[b] - grid.truth[a], costs[b] - costs[a])
                for a, b in product(range(len(costs)), repeat=2)
            }
            counts.claims.append((any(margins[own, index] <= 0 for index, own in trade_off.beaten.items()), False))
            worst = {b for (_, b), margin in margins.items() if margin > 0.1}
            found += [index in trade_off.beaten for index in worst]
        shown = 100 * counts.coverage("price"), 100 * counts.wrong_claims, 100 * float(np.mean(found))
        lines.append(f"{name:<24}{repeats:>3}{shown[0]:>9.1f}{shown[1]:>26.1f}{shown[2]:>21.1f}")
    return lines


def main() -> None:
    """Print all tables, or the lines of one kind of noise."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="a kind of noise, such as 'unequal noise 1:6'")
    parser.add_argument("--table", default="", help="one table alone, such as price")
    arguments = parser.parse_args()
    options = arguments.draws, arguments.seed
    if arguments.only:
        print("\n".join([*coverage_table(*options, only=arguments.only), *null_table(*options, only=arguments.only)]))
        return
    tables = (coverage_table, null_table, target_table, scaling_table, quality_table, price_table)
    for table in (each for each in tables if each.__name__.startswith(arguments.table)):
        print("\n".join(table(*options)), "\n")


if __name__ == "__main__":
    main()
