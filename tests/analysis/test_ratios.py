"""Signs, sides and units of the numbers of an answer."""

import math

import pytest

from raybench.analysis.answer import Ratio, Summary
from raybench.analysis.intervals import Estimate, Sample, difference
from raybench.analysis.ratios import as_ratio, priced


@pytest.mark.parametrize(
    ("low", "high", "is_equal", "is_better"),
    [
        (0.96, 1.04, True, False),
        (0.80, 1.04, False, False),
        (0.96, 1.20, False, False),
        (1.01, 1.40, False, True),
        (1.01, 1.04, True, True),
    ],
)
def test_what_an_interval_of_a_ratio_shows(low, high, is_equal, is_better):
    ratio = Ratio(math.sqrt(low * high), low, high)
    assert (ratio.is_equal, ratio.is_better) == (is_equal, is_better)


@pytest.mark.parametrize("times", [True, False])
def test_more_of_the_first_side_is_positive(times):
    def samples(*values):
        spans = [(2.0 * repeat, 2.0 * repeat + 1) if times else (None, None) for repeat in range(len(values))]
        return [Sample(repeat, value, "", *spans[repeat]) for repeat, value in enumerate(values)]

    estimate = difference(samples(0.7, 0.72, 0.71, 0.69), samples(0.1, 0.11, 0.1, 0.12))
    assert estimate.value == pytest.approx(0.5975) and estimate.paired is times
    ratio = as_ratio(estimate)
    assert 1 < ratio.low < ratio.value < ratio.high


def test_equality_is_shown_by_two_tests_at_5_percent():
    assert Estimate(0.0, 1.0).is_within(1.7) and not Estimate(0.0, 1.0).is_within(1.6)


def test_a_price_is_of_an_hour():
    assert priced(Summary(1800.0, 900.0, 3600.0), 4.0) == Summary(2.0, 1.0, 4.0)
