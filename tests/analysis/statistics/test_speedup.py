import math
from statistics import fmean, geometric_mean

import numpy as np
import pytest
from support.resnet63_times import GTX_1080, I5, MAC
from support.simulated import CALLS, COVERS, GRIDS, covers, steady

from raybench.analysis.statistics import intervals
from raybench.analysis.statistics.intervals import Difference
from raybench.analysis.statistics.speedup import (
    AS_FAST,
    FASTER,
    SLOWER,
    UNCLEAR,
    Speedup,
    inverse,
    is_heterogeneous,
    mean_speedup,
    paired_or_welch,
    paired_speedup,
    selected,
    speedup,
)

CPU, OTHER = [4.000, 4.100, 4.050], [2.000, 2.020, 1.980]


# Wall seconds of calls 1 to 4 of the published 63-convolution table, three processes a machine.
def rounded(found: Speedup, digits):
    return tuple(round(value, digits) for value in (found.ratio, found.low, found.high))


def test_the_contract_s_verdict_digit_for_digit():
    assert (round(geometric_mean(CPU), 4), round(geometric_mean(OTHER), 4)) == (4.0498, 1.9999)
    found = speedup(CPU, OTHER)
    assert rounded(found, 2) == (2.02, 1.97, 2.08)
    assert round(found.df, 2) == 3.83


@pytest.mark.parametrize(
    ("slow", "ratio", "digits", "interval"), [(MAC, 159.42, 1, (158.0, 160.8)), (I5, 52.25, 2, (52.00, 52.50))]
)
def test_the_published_table_under_its_own_rule(slow, ratio, digits, interval):
    found = speedup([fmean(calls[2:]) for calls in slow], [fmean(calls[2:]) for calls in GTX_1080])
    assert round(found.ratio, 2) == ratio
    assert rounded(found, digits)[1:] == interval


@pytest.mark.parametrize(("slow", "cold", "first"), [(MAC, 8.83, 3.57), (I5, 3.22, 1.50)])
def test_the_published_table_with_its_cold_calls(slow, cold, first):
    assert round(speedup([fmean(calls) for calls in slow], [fmean(calls) for calls in GTX_1080]).ratio, 2) == cold
    assert round(speedup([calls[0] for calls in slow], [calls[0] for calls in GTX_1080]).ratio, 2) == first


def test_one_run_each_has_no_interval():
    assert speedup([4.0], [2.0]) == Speedup(pytest.approx(2.0), difference=Difference(pytest.approx(math.log(2.0))))
    assert speedup([4.0, 4.1], [2.0]).low is None


def test_the_other_way_round_is_the_inverse():
    there, back = speedup(CPU, OTHER), speedup(OTHER, CPU)
    assert back.ratio == pytest.approx(1 / there.ratio)
    assert (back.low, back.high) == (pytest.approx(1 / there.high), pytest.approx(1 / there.low))


def test_no_spread_at_all_is_an_interval_of_no_width():
    found = speedup([4.0, 4.0], [2.0, 2.0])
    assert (found.low, found.high) == (found.ratio, found.ratio)


@pytest.mark.parametrize(("baseline", "other"), [([], [1.0]), ([1.0], []), ([1.0, 0.0], [1.0])])
def test_nothing_to_compare(baseline, other):
    assert speedup(baseline, other) is None


@pytest.mark.parametrize("repeats", [3, 5, 10])
def test_intervals_cover_the_truth_and_an_a_a_grid_is_seldom_called_different(repeats):
    random = np.random.default_rng(repeats)
    baseline = steady(random, repeats, seconds=2.0, process=0.03)
    other = steady(random, repeats, seconds=1.0, process=0.01)
    found = list(map(speedup, baseline.tolist(), other.tolist()))
    assert COVERS[0] <= covers(found, 2.0) <= COVERS[1]
    again = list(map(speedup, baseline.tolist(), steady(random, repeats, seconds=2.0, process=0.03).tolist()))
    assert np.mean([each.differs for each in again]) <= CALLS


@pytest.mark.slow
@pytest.mark.parametrize(("repeats", "drift"), [(3, 0.0), (3, 0.02), (3, 0.1), (5, 0.02), (10, 0.0)])
def test_pairing_by_what_other_cells_show_keeps_the_coverage(repeats, drift):
    """Four cells; the machine moves by `drift` from repeat to repeat, for all of them alike."""
    random = np.random.default_rng(repeats)
    cells = steady(random, repeats, shape=(GRIDS, 4)) * np.exp(random.normal(0.0, drift, (GRIDS, 1, repeats)))
    grids = [[dict(enumerate(cell)) for cell in grid] for grid in cells.tolist()]
    found = [paired_or_welch(grid[0], grid[1], grid[2:]) for grid in grids]
    held = covers(found, 1.0)
    assert held >= COVERS[0]
    pairs = np.mean([each.paired for each in found])
    if drift == 0.1:
        unpaired = [speedup(list(grid[0].values()), list(grid[1].values())) for grid in grids]
        widths = [np.median([np.log(each.high / each.low) for each in some]) for some in (found, unpaired)]
        assert pairs > 0.8
        assert widths[0] < 0.6 * widths[1], "pairs are tighter by much where the machine moves"
        assert held <= COVERS[1]
    if drift == 0.0:
        assert pairs < 0.4
        assert held <= COVERS[1]


def test_to_take_the_narrower_interval_would_lie():
    """Why other cells decide: the choice by width loses what the interval claims."""
    random = np.random.default_rng(1)
    baseline, other = steady(random, 3).tolist(), steady(random, 3).tolist()
    logs = [np.log(side).tolist() for side in (baseline, other)]
    narrower = [
        min(intervals.welch(first, second), intervals.paired(first, second), key=lambda found: found.high - found.low)
        for first, second in zip(*logs, strict=True)
    ]
    assert covers(narrower, 0.0) < COVERS[0]


def test_repeats_are_paired_only_where_both_sides_have_them():
    beside = [{0: 1.0, 1: 2.0, 2: 4.0}, {0: 1.1, 1: 2.1, 2: 4.1}]
    baseline, other = {0: 2.0, 1: 4.1, 2: 8.0}, {2: 4.0, 0: 1.0, 1: 2.0}
    found = paired_or_welch(baseline, other, beside)
    assert found.paired
    assert found.df == 2
    assert found.ratio == pytest.approx(speedup(list(baseline.values()), list(other.values())).ratio)
    assert not paired_or_welch(baseline, {0: 1.0, 1: 2.0}, beside).paired
    assert not paired_or_welch(baseline, other, beside[:1]).paired, "one cell beside it shows nothing of the machine"
    assert not paired_or_welch(baseline, other).paired


def test_two_repeats_are_not_paired():
    """With one degree of freedom an interval would be wide by chance: 1.41 to 3.71 where Welch's is 1.95 to 2.69."""
    beside = [{0: 1.0, 1: 2.0}, {0: 1.1, 1: 2.1}]
    found = paired_or_welch({0: 2.0, 1: 4.1}, {0: 1.0, 1: 2.0}, beside)
    assert (found.paired, round(found.df, 1)) == (False, 2.0)


def test_pairs_by_design_are_the_repeats_that_both_have():
    """Student's t on the three differences of logarithms: 0.1 ± 4.303 · 0.01 / √3."""
    base = {0: 1.0, 1: 2.0, 2: 4.0, 3: 8.0}
    other = {repeat: base[repeat] * math.exp(0.1 + noise) for repeat, noise in ((1, 0.01), (2, -0.01), (3, 0.0))}
    found = paired_speedup(other, base)
    assert (found.paired, found.df) == (True, 2)
    half = 4.302653 * 0.01 / math.sqrt(3)
    assert (math.log(found.low), math.log(found.high)) == pytest.approx((0.1 - half, 0.1 + half), rel=1e-6)
    assert paired_speedup({0: 1.0}, {1: 1.0}) is None
    assert paired_speedup({0: 1.0}, {0: 1.0}).low is None


def test_as_fast_has_to_be_shown():
    assert speedup([1.0, 1.01, 0.99], [1.0, 1.01, 0.995]).verdict() == AS_FAST
    close = speedup([1.068, 1.10, 1.036], [1.0, 1.03, 0.97])
    assert close.low < 1 < close.high
    assert close.verdict() == UNCLEAR, f"up to {close.high} is not as fast within 10 %"
    assert [speedup([2.0, 2.1], sides).verdict() for sides in ([1.0, 1.05], [4.0, 4.2])] == [FASTER, SLOWER]
    assert speedup([2.0], [1.0]).verdict() == FASTER


def test_the_mean_speed_up_is_geometric():
    two, eight = speedup(CPU, OTHER), speedup([each * 4 for each in CPU], OTHER)
    found = mean_speedup([two, eight])
    assert found.ratio == pytest.approx(math.sqrt(two.ratio * eight.ratio))
    assert found.low < found.ratio < found.high and mean_speedup([]) is None
    assert is_heterogeneous([two, eight]) and not is_heterogeneous([two, two])
    near = speedup([each * 1.05 for each in CPU], OTHER)
    assert not is_heterogeneous([two, near]), "within 10%"


def test_a_selected_speed_up_has_a_wider_interval():
    found = speedup(CPU, OTHER)
    wider = selected(found, 12)
    assert wider.ratio == found.ratio and wider.low < found.low < found.high < wider.high
    restarts = Speedup(2.0, 1.6, 2.5)
    wider = selected(restarts, 12)
    assert wider.low < 1.6 and wider.low * wider.high == pytest.approx(1.6 * 2.5)
    assert selected(restarts, 1).low == pytest.approx(1.6)
    assert selected(Speedup(2.0), 12) == Speedup(2.0)


def test_the_inverse_of_a_speed_up():
    found, back = speedup(CPU, OTHER), speedup(OTHER, CPU)
    turned = inverse(found)
    assert (turned.ratio, turned.low, turned.high) == pytest.approx((back.ratio, back.low, back.high))
    assert turned.verdict() == back.verdict() and inverse(Speedup(2.0)) == Speedup(0.5)
