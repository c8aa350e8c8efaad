import numpy as np
import pytest

from raybench.analysis import welch
from raybench.analysis.welch import Difference, noncentrality, paired, repeats


def test_one_run_a_side_shows_no_interval():
    assert welch.welch([3.0], [1.0]) == Difference(2.0)
    assert welch.welch([3.0], [1.0]).detectable is None
    assert welch.paired([3.0], [1.0]) == Difference(2.0)
    assert welch.welch([], [1.0]) is None


def test_it_is_scipy_s_welch_and_student_s_pairs():
    """The numbers of `scipy.stats.ttest_ind(…, equal_var=False)` and `ttest_rel`, with their confidence intervals."""
    first, second = [1.0, 1.3, 0.9, 1.1], [2.0, 2.9, 2.2]
    found = welch.welch(first, second)
    assert (found.low, found.high) == pytest.approx((-2.346205, -0.237128), abs=1e-6)
    found = welch.paired(first[:3], second)
    assert (found.low, found.high) == pytest.approx((-2.045241, -0.554759), abs=1e-6)


def test_pairs_are_as_many_on_both_sides():
    with pytest.raises(ValueError, match="shorter"):
        paired([1.0, 2.0], [1.0])


def test_a_floor_stands_in_for_a_spread_that_rounding_hid():
    assert welch.welch([1.0, 1.0], [2.0, 2.0]).low == -1.0
    found = welch.welch([1.0, 1.0], [2.0, 2.0], floor=0.01)
    assert found.error == pytest.approx(0.1)
    assert found.low < -1.0 < found.high


def test_what_is_called_detectable_is_shown_four_times_in_five():
    """By simulation: 5 runs a side, the truth exactly as far off as `noncentrality` says."""
    random = np.random.default_rng(3)
    runs, error = 5, np.sqrt(2 / 5)
    first = random.normal(error * noncentrality(8.0), 1.0, (4000, runs))
    second = random.normal(0.0, 1.0, (4000, runs))
    shown = [found.low > 0 for found in map(welch.welch, first.tolist(), second.tolist())]
    assert np.mean(shown) == pytest.approx(0.8, abs=0.03)


def test_as_many_repeats_as_are_said_are_enough_and_one_less_is_not():
    needed = repeats(1.0, 1.0, 1.0)
    assert needed == 17, "the textbook's number for one standard deviation, 5 % and power 0.8"
    assert repeats(0.5, 1.0, 1.0) > 3 * needed
    assert repeats(1.0, 0.0, 0.0) == 2
    assert repeats(0.0, 1.0, 1.0) is None
    assert repeats(0.001, 1.0, 1.0) is None, "nobody repeats a training run that often"
