"""Intervals with known values, and their coverage in short simulations."""

import math

import numpy as np
import pytest
from scipy import stats

from benchmarks.coverage import FAMILIES, GRIDS, TARGETS, simulate, targets
from raybench.analysis import intervals
from raybench.analysis.intervals import (
    REPEATED_LOOKS,
    UNTIL_NARROW,
    Candidates,
    Estimate,
    Sample,
    Stopping,
    TwoWayTable,
    difference,
)
from raybench.analysis.machines import effect
from raybench.analysis.measured import TIME, Measured

BASE = (10.10, 9.95, 10.20, 10.02)
NEW = (9.61, 9.40, 9.95, 9.52)


def samples(values, host="", times=True, stopping=None):
    return tuple(
        Sample(repeat, math.log(value), host, *((2.0 * repeat, 2.0 * repeat + 1) if times else (None, None)), stopping)
        for repeat, value in enumerate(values)
    )


def compared(base, new, times=True):
    """The difference of runs whose repeats were added until it was certain; without times they are not paired."""
    return difference(*(samples(each, times=times, stopping=Stopping.of(UNTIL_NARROW, 4)) for each in (base, new)))


def test_reference_values_of_repeats_until_certain():
    welch, paired = compared(BASE, NEW, times=False), compared(BASE, NEW)
    assert (welch.error, welch.df, welch.half) == pytest.approx((0.013305, 4.1087, 0.044283), rel=1e-3)
    ratio = [math.exp(each) for each in (welch.value, *welch.interval())]
    assert ratio == pytest.approx([1.04671, 1.00137, 1.09410], rel=1e-5)
    assert paired.half == pytest.approx(0.028456, rel=1e-4) and paired.paired
    for n, quantile in enumerate((4.0005, 3.3717, 3.0632, 2.8816, 2.7624, 2.6783, 2.6159), 4):
        estimate = compared([1.0] * n, [1.0 + 0.01 * number for number in range(n)])
        assert estimate.half / estimate.error == pytest.approx(quantile, rel=1e-4)


def effect_over(pairs):
    """The effect over sets of two configurations with these runs."""
    return effect(TIME, [tuple(Measured(index, {}, times=runs) for index, runs in enumerate(pair)) for pair in pairs])


@pytest.mark.parametrize(
    ("alphas", "of_looks"), [(UNTIL_NARROW, [0.0215, 0.0215, 0.0321]), (REPEATED_LOOKS, [0.0080, 0.0106, 0.0162])]
)
def test_alphas_by_the_first_look(alphas, of_looks):
    assert [Stopping.of(alphas, first).welch for first in (1, 3, 8)] == of_looks


@pytest.mark.parametrize(("side", "other"), [((1.0, 1.2, 1.1, 1.4), (2.0, 2.1)), ((2.0, 2.9), (1.0, 1.01, 1.02, 1.0))])
def test_unequal_sides_are_welchs(side, other):
    """Whatever side has fewer runs, or noisier ones; the degrees of freedom are below the cap, or 2."""
    found = difference(samples(side, times=False), samples(other, times=False))
    expected = stats.ttest_ind(np.log(side), np.log(other), equal_var=False)
    assert found.value / found.error == pytest.approx(expected.statistic)
    assert found.df == pytest.approx(min(expected.df, 2))


def test_degrees_of_freedom_are_capped():
    side, other = samples((1.0, 1.0001), times=False), samples((2.0, 2.1, 1.9, 2.05, 1.95), times=False)
    assert difference(side, other).df == 2, "not the 4 of the side with the larger variance"


@pytest.mark.parametrize(
    ("side", "error", "df"),
    [
        ((20.0, 20.01, 19.99), 0.00762, 16),  # the pooled one
        ((20.0, 20.6, 19.4), 0.0185, 16),  # its own, as it is larger
        ((20.0, 25.0, 15.0), 0.155, 2.02),  # far noisier than the others
    ],
)
def test_variance_of_one_of_several_candidates(side, error, df):
    others = [samples((21.0, 21.2, 20.8 + shift), times=False) for shift in (-0.1, 0.0, 0.1)] * 2
    candidates = Candidates([samples(side, times=False), samples((9.0, 9.1, 9.2), times=False), *others])
    estimate = difference(samples(side, times=False), others[0], 0.0, candidates)
    assert (estimate.error, estimate.df) == (pytest.approx(error, rel=0.05), pytest.approx(df, rel=0.01))
    assert estimate.alpha <= 0.05 / 7, "of seven comparisons"


def test_runs_in_a_later_block_are_unpaired():
    later = tuple(
        Sample(each.repeat, each.value, "", 100.0 + each.repeat, 100.5 + each.repeat) for each in samples(NEW)
    )
    assert not difference(samples(BASE), later).paired
    assert difference(samples(BASE)[::-1], samples(NEW)).paired, "whatever the order in which they are listed"


def test_a_machine_is_one_sample():
    side = (*samples(BASE, "a"), *samples(NEW, "b"))
    assert difference(side, (*samples(NEW, "c"), *samples(BASE, "d"))).df <= 2


def test_no_runs_no_estimate():
    assert difference((), samples(BASE)) is None
    assert effect_over([]) is None


def test_effect_of_one_pair():
    pair = samples(BASE), samples(NEW)
    assert effect_over([pair]).mean == difference(*pair)


def test_effects_allow_for_repeated_looks():
    new, base = (samples(values, stopping=Stopping.of(REPEATED_LOOKS, 4)) for values in (NEW, BASE))
    assert effect_over([(new, base)] * 2).mean.alpha == REPEATED_LOOKS[4][1]


def test_effect_by_hand():
    """Two repeats of two sets: without what they share in a repeat, (n − 1)·m degrees of freedom."""
    table = TwoWayTable(np.array([[0.10, 0.14], [0.12, 0.10], [0.11, 0.12]]))
    assert table.ms_repeats == pytest.approx(2 * np.var([0.12, 0.11, 0.115], ddof=1))
    assert table.df == 2
    estimate = table.mean
    together = (table.ms_repeats + table.ms_residual) / 2
    assert (estimate.value, estimate.df) == (pytest.approx(0.115), 4)
    assert estimate.error == pytest.approx(math.sqrt(together / 6))


def test_degrees_of_freedom_with_shared_repeats():
    table = TwoWayTable(np.array([[0.1, 0.101], [0.2, 0.199], [0.3, 0.302]]))
    assert table.mean.df == 2


def test_dependence_on_groups_of_sets_is_students_t_of_each_two():
    table = TwoWayTable(np.array([[0.10, 0.14, 0.13], [0.12, 0.10, 0.16], [0.11, 0.12, 0.15], [0.10, 0.13, 0.17]]))
    columns = table.values.mean(axis=0)
    t = (columns[2] - columns[0]) / math.sqrt(table.ms_residual * 2 / 4)
    assert table.dependence([0, 1, 2]) == pytest.approx(3 * 2 * stats.t.sf(t, 6))


def test_dependence_allows_for_runs_that_are_alike_in_a_repeat():
    """The first two sets share what happens in a repeat, and the last two."""
    shared = np.array([[0.1, 0.1, 0.0, 0.0], [0.3, 0.3, 0.0, 0.0], [0.2, 0.2, 0.0, 0.0]])
    table = TwoWayTable(shared + np.arange(12).reshape(3, 4) % 5 / 1000)
    gap = table.values[:, :2].mean(axis=1) - table.values[:, 2:].mean(axis=1)
    assert table.dependence([0, 0, 1, 1]) == pytest.approx(2 * stats.t.sf(gap.mean() / stats.sem(gap), 6), rel=1e-6)


def test_errors_shrink_with_the_root_of_the_repeats():
    assert Estimate(0.0, 0.1, 1e9).repeats_until(0.1, 4) == math.ceil(4 * 1.96**2)


@pytest.mark.parametrize(
    ("effects", "spread", "changes"),
    [((1, 2), 0.1, False), ((-2, -1), 0.1, False), ((-1, 1), 0.1, True), ((-1, 4), 1.0, False), ((-1, 1), 3.0, False)],
)
def test_sets_with_effects_of_both_signs(effects, spread, changes):
    noise = spread * np.array([[1, -1, 0], [-1, 0, 1]])
    pairs = [(samples(np.exp(value + own)), samples((1.0,) * 3)) for value, own in zip(effects, noise, strict=True)]
    assert effect_over(pairs).changes_sign() == changes


@pytest.mark.parametrize(("effects", "changes"), [((0.8, 1.3), True), ((0.95, 1.04), False), ((1.2, 1.3), False)])
def test_single_runs_with_effects_of_both_signs(effects, changes):
    assert effect_over([(samples((value,)), samples((1.0,))) for value in effects]).changes_sign() == changes


def test_holm_stops_at_the_first_insignificant():
    assert intervals.holm({"a": 0.01, "b": 0.06, "c": 0.001}) == ["c", "a"]
    assert intervals.holm({"a": 0.02, "b": 0.03, "c": 0.04}) == []


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
