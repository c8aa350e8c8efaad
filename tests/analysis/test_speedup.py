from statistics import fmean, geometric_mean

import pytest

from raybench.analysis.speedup import Speedup, speedup

CPU, OTHER = [4.000, 4.100, 4.050], [2.000, 2.020, 1.980]

# Wall seconds of calls 1 to 4 of the published 63-convolution table, three processes a machine.
MAC = [
    [54.792648, 28.602382, 28.086050, 28.610886],
    [56.123174, 30.115714, 28.562303, 28.036568],
    [53.308898, 27.672237, 28.602799, 28.396387],
]
GTX_1080 = [
    [15.327186, 0.204940, 0.178514, 0.177793],
    [15.316593, 0.178353, 0.177940, 0.177911],
    [15.384140, 0.178244, 0.178042, 0.178016],
]
I5 = [
    [23.040985, 9.368206, 9.324023, 9.276448],
    [23.123769, 9.418122, 9.338406, 9.307102],
    [23.061219, 9.415779, 9.299809, 9.267833],
]


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
    assert speedup([4.0], [2.0]) == Speedup(pytest.approx(2.0))
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
