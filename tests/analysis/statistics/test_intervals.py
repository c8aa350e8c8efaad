import numpy as np
import pytest

from raybench.analysis.statistics import intervals
from raybench.analysis.statistics.intervals import Difference, paired


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
