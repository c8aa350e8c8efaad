"""Intervals with known values, and their coverage in short simulations."""

import math

import numpy as np
import pytest

from benchmarks.coverage import FAMILIES, GRIDS, TARGETS, simulate, targets
from raybench.analysis import intervals
from raybench.analysis.intervals import Residual, Sample, TwoWayTable, difference, effect, quantile

BASE = (10.10, 9.95, 10.20, 10.02)
NEW = (9.61, 9.40, 9.95, 9.52)


def samples(values, host="", times=True):
    return tuple(
        Sample(repeat, math.log(value), host, *((2.0 * repeat, 2.0 * repeat + 1) if times else ()))
        for repeat, value in enumerate(values)
    )


def test_welch_of_the_specification():
    estimate = difference(samples(BASE, times=False), samples(NEW, times=False))
    assert estimate.error == pytest.approx(0.013305, abs=1e-6)
    assert estimate.df == pytest.approx(4.1087, abs=1e-4)
    assert quantile(estimate.df, 1 - 0.014) == pytest.approx(3.3282, abs=1e-4)
    half = quantile(estimate.df, 1 - 0.014) * estimate.error
    assert [math.exp(estimate.value + each) for each in (0, -half, half)] == pytest.approx(
        [1.04671, 1.00137, 1.09410], abs=1e-5
    )


def test_paired_half_width_of_the_specification():
    estimate = difference(samples(BASE), samples(NEW))
    assert estimate.paired
    assert quantile(estimate.df, 1 - 0.014) * estimate.error == pytest.approx(0.028456, abs=1e-6)


@pytest.mark.parametrize(
    ("repeats", "t"), [(4, 4.0005), (5, 3.3717), (6, 3.0632), (7, 2.8816), (8, 2.7624), (9, 2.6783), (10, 2.6159)]
)
def test_quantiles_of_the_specification(repeats, t):
    assert quantile(repeats - 1, 1 - 0.014) == pytest.approx(t, abs=1e-4)


def test_degrees_of_freedom_are_capped():
    side, other = samples((1.0, 1.0001), times=False), samples((2.0, 2.1, 1.9, 2.05, 1.95), times=False)
    assert difference(side, other).df == 2, "not the 4 of the side with the larger variance"


@pytest.mark.parametrize(
    ("runs", "df", "is_pooled"), [(3, 34, True), (3, 4, False), (2, 34, False), (4, 34, False), (1, 34, False)]
)
def test_pooled_variance_serves_three_runs_of_many_configurations(runs, df, is_pooled):
    side, other = (samples(value * np.linspace(1, 1.02, runs), times=False) for value in (1, 2))
    estimate = difference(side, other, Residual(1e-4, df))
    assert (estimate.alpha == intervals.POOLED_ALPHA) == is_pooled
    assert (estimate.interval() is None) == (runs == 1)


def test_runs_in_a_later_block_are_unpaired():
    later = tuple(
        Sample(each.repeat, each.value, "", 100.0 + each.repeat, 100.5 + each.repeat) for each in samples(NEW)
    )
    assert not difference(samples(BASE), later).paired


def test_a_machine_is_one_sample():
    side = (*samples(BASE, "a"), *samples(NEW, "b"))
    assert difference(side, (*samples(NEW, "c"), *samples(BASE, "d"))).df <= 2


def test_no_runs_no_estimate():
    assert difference((), samples(BASE)) is None
    assert effect([]) is None


def test_effect_of_one_pair():
    pair = samples(BASE), samples(NEW)
    assert effect([pair]).mean == difference(*pair)


def test_effect_by_hand():
    """Two repeats of two sets: without what they share in a repeat, (n − 1)·m degrees of freedom."""
    table = TwoWayTable.of(np.array([[0.10, 0.14], [0.12, 0.10], [0.11, 0.12]]))
    assert table.ms_repeats == pytest.approx(2 * np.var([0.12, 0.11, 0.115], ddof=1))
    assert table.df == 2
    estimate = table.mean
    together = (table.ms_repeats + table.ms_residual) / 2
    assert (estimate.value, estimate.df) == (pytest.approx(0.115), 4)
    assert estimate.error == pytest.approx(math.sqrt(together / 6))


def test_degrees_of_freedom_with_shared_repeats():
    table = TwoWayTable.of(np.array([[0.1, 0.101], [0.2, 0.199], [0.3, 0.302]]))
    assert table.mean.df == 2


def test_holm_stops_at_the_first_insignificant():
    assert intervals.holm({"a": 0.01, "b": 0.06, "c": 0.001}) == {"a", "c"}
    assert intervals.holm({"a": 0.02, "b": 0.03, "c": 0.04}) == set()


@pytest.mark.parametrize(
    ("values", "step"), [([0.25, 0.5], 0.01), ([1.0, 2.0], 1.0), ([1 / 3], 0.0), ([0.12345], 1e-5), ([], 1.0)]
)
def test_rounding_step(values, step):
    assert intervals.rounding(values) == pytest.approx(step)


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_intervals_cover_the_truth(family):
    """A short form of `benchmarks/coverage.py`; 150 draws of a coverage of 95% give 90% or less once in 200."""
    counts = simulate(GRIDS["2x3"], FAMILIES[family], 3, 150, 1, differs=True)
    assert {kind: counts.coverage(kind) >= 0.90 for kind in ("pair", "effect", "best")} == {
        "pair": True,
        "effect": True,
        "best": True,
    }


@pytest.mark.parametrize("grid", ["2x3x3", "6"])
def test_null_grid_claims_nothing(grid):
    claims = simulate(GRIDS[grid], FAMILIES["runs, cv 5%"], 3, 100, 1, differs=False).claims
    assert np.mean(np.any(claims, axis=1)) <= 0.10


@pytest.mark.parametrize("name", TARGETS)
def test_time_to_a_target_covers_misses(name):
    counts = targets(5, TARGETS[name], 0.10, 200, 1, (1.0, 1.0))
    assert min(counts.coverage("time"), counts.coverage("ratio")) >= 0.90
    assert counts.wrong_claims <= 0.08
