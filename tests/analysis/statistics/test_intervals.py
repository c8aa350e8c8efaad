import math
import random

import numpy as np
import pytest

from raybench.analysis.statistics import intervals
from raybench.analysis.statistics.intervals import (
    Difference,
    average,
    heterogeneous,
    paired,
    quantile,
    simultaneous,
    welch,
)


def test_one_run_a_side_shows_no_interval():
    assert intervals.welch([3.0], [1.0]) == Difference(2.0)
    assert intervals.paired([3.0], [1.0]) == Difference(2.0)
    assert intervals.welch([], [1.0]) is None


def test_it_is_scipy_s_welch_and_student_s_pairs():
    """The numbers of `scipy.stats.ttest_ind(…, equal_var=False)` and `ttest_rel`, with their confidence intervals."""
    first, second = [1.0, 1.3, 0.9, 1.1], [2.0, 2.9, 2.2]
    found = intervals.welch(first, second)
    assert (found.low, found.high) == pytest.approx((-2.346205, -0.237128), abs=1e-6)
    found = intervals.paired(first[:3], second)
    assert (found.low, found.high) == pytest.approx((-2.045241, -0.554759), abs=1e-6)


def test_pairs_are_as_many_on_both_sides():
    with pytest.raises(ValueError, match="shorter"):
        paired([1.0, 2.0], [1.0])


def test_a_floor_stands_in_for_a_spread_that_rounding_hid():
    assert intervals.welch([1.0, 1.0], [2.0, 2.0]).low == -1.0
    found = intervals.welch([1.0, 1.0], [2.0, 2.0], floor=0.01)
    assert found.error == pytest.approx(0.1)
    assert found.low < -1.0 < found.high


@pytest.mark.parametrize("runs", [2, 3, 10])
def test_a_difference_as_large_as_the_margin_is_seldom_called_smaller(runs):
    random = np.random.default_rng(runs)
    first, second = random.normal(0.1, 0.03, (2000, runs)), random.normal(0.0, 0.03, (2000, runs))
    found = map(intervals.welch, first.tolist(), second.tolist())
    assert np.mean([each.is_within(0.1) for each in found]) <= 0.065
    assert intervals.welch([1.0, 1.01, 0.99], [1.0, 1.01, 0.99]).is_within(0.1)
    assert not intervals.welch([1.0], [1.0]).is_within(0.1), "one run shows no spread"


def test_the_average_of_independent_differences():
    first, second = welch([2.0, 2.2, 2.1], [1.0, 1.1, 0.9]), welch([3.0, 3.4, 3.2], [1.0, 1.2, 1.1])
    found = average([first, second])
    assert found.value == pytest.approx((first.value + second.value) / 2)
    assert found.error == pytest.approx(math.hypot(first.error, second.error) / 2)
    assert min(first.df, second.df) < found.df < first.df + second.df
    assert average([first, Difference(9.0)]) == average([first]), "without an interval it says less"
    assert average([Difference(1.0), Difference(3.0)]) == Difference(2.0) and average([]) is None
    exact = welch([2.0, 2.0], [1.0, 1.0])
    assert (average([exact, exact]).low, average([exact, exact]).high) == (1.0, 1.0)


def runs(chance, mean, deviation):
    return [chance.gauss(mean, deviation) for _ in range(3)]


def test_an_average_covers_the_truth():
    chance = random.Random(1)
    hits = 0
    for _ in range(2000):
        pairs = [welch(runs(chance, mean + 1, 0.2), runs(chance, mean, 0.1)) for mean in (0.0, 5.0)]
        found = average(pairs)
        hits += found.low <= 1 <= found.high
    assert 0.93 < hits / 2000 < 0.98


def test_one_of_several_has_a_wider_interval():
    found = welch([2.0, 2.2, 2.1], [1.0, 1.1, 0.9])
    wider = simultaneous(found, 10)
    assert wider.low < found.low and wider.value == found.value
    assert wider.high - wider.value == pytest.approx(quantile(found.df, 1 - 0.025 / 10) * found.error)
    assert simultaneous(found, 1) == found and simultaneous(Difference(1.0), 10) == Difference(1.0)


def test_unequal_differences_are_found_and_equal_ones_seldom():
    low, high = welch([2.0, 2.02, 2.01], [1.0, 1.01, 0.99]), welch([3.0, 3.02, 3.01], [1.0, 1.01, 0.99])
    assert heterogeneous([low, high]) and heterogeneous([low, low, high])
    assert not heterogeneous([low, low]) and not heterogeneous([low]) and not heterogeneous([low, Difference(9.0)])
    chance = random.Random(2)
    alarms = sum(
        heterogeneous([welch(runs(chance, 1, 0.1), runs(chance, 0, 0.1)) for _ in range(4)]) for _ in range(1000)
    )
    assert alarms / 1000 < 0.06


def test_a_geometric_mean_is_of_positive_numbers():
    assert intervals.geometric_mean_ci([2.0, 8.0])[0] == pytest.approx(4.0)
    assert intervals.geometric_mean_ci([2.0, 0.0]) == (None, None, None)
