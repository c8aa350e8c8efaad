"""Whether times began slow: how often noise is taken for it, and how surely it is found."""

import numpy as np
import pytest

from raybench.analysis.statistics.change_point import AT_ONCE, slow_start, slow_starts

RUNS = 400


def autocorrelated(random, count, spread, kept):
    """Logarithms of times in which each remembers the last, as on a machine that others use."""
    values = random.normal(0, spread * np.sqrt(1 - kept**2), count)
    values[0] = random.normal(0, spread)
    for place in range(1, count):
        values[place] += kept * values[place - 1]
    return values


NOISE = {
    "little, one epoch of blocks": lambda random: random.normal(0, 0.02, 64),
    "much, one epoch of blocks": lambda random: random.normal(0, 0.2, 64),
    "much, five epochs of blocks": lambda random: random.normal(0, 0.2, 320),
    "five epochs": lambda random: random.normal(0, 0.1, 5),
    "alike when near": lambda random: autocorrelated(random, 320, 0.1, 0.8),
    "slow spells": lambda random: np.log(1 + 0.02 * random.random(192) + 3 * (random.random(192) < 0.03)),
}


@pytest.mark.parametrize("kind", NOISE)
def test_noise_is_hardly_ever_taken_for_a_slow_start(kind):
    random = np.random.default_rng(5)
    alarms = sum(slow_start(list(np.exp(NOISE[kind](random)))) is not None for _ in range(RUNS))
    assert alarms <= 0.03 * RUNS


def test_independent_noise_raises_no_more_alarms_than_promised():
    random = np.random.default_rng(6)
    alarms = sum(slow_start(list(np.exp(random.normal(0, 0.3, 48)))) is not None for _ in range(2000))
    assert alarms <= 6, "0.001 of 2000 is 2; more than 6 come by chance once in two hundred times"


@pytest.mark.parametrize(
    ("count", "slow", "factor", "spread"), [(64, 21, 1.1, 0.03), (256, 64, 1.5, 0.2), (320, 160, 1.05, 0.05)]
)
def test_a_slow_start_is_found_and_told(count, slow, factor, spread):
    random = np.random.default_rng(7)
    found = []
    for _ in range(100):
        times = np.exp(random.normal(0, spread, count)) * np.where(np.arange(count) < slow, factor, 1.0)
        found.append(slow_start(list(times)))
    told = [start for start in found if start]
    assert len(told) >= 95
    assert np.median([start.part for start in told]) == pytest.approx(slow / count, abs=0.05)
    assert np.median([start.slower for start in told]) == pytest.approx(factor, rel=0.02)
    assert np.median([start.excess for start in told]) == pytest.approx((factor - 1) * slow / count, rel=0.3)


def test_times_that_fall_all_along_are_a_slow_start():
    random = np.random.default_rng(8)
    times = np.exp(random.normal(0, 0.05, 256)) * (1 + 0.5 * np.exp(-np.arange(256) / 60))
    assert slow_start(list(times)).part < 0.5


@pytest.mark.parametrize(
    "shape",
    [
        lambda place: 1.5 if 60 <= place < 120 else 1.0,
        lambda place: 1.5 if place >= 90 else 1.0,
        lambda place: 3.0 if place == 0 else 1.0,
        lambda place: 2.0 if place % 64 == 0 else 1.0,
    ],
    ids=["a slow stretch in the middle", "slower at the end", "one slow step of many", "each epoch's first step slow"],
)
def test_what_is_slow_at_another_time_is_no_slow_start(shape):
    random = np.random.default_rng(9)
    times = [shape(place) * np.exp(random.normal(0, 0.03)) for place in range(192)]
    assert slow_start(times) is None


def test_too_few_times_say_nothing():
    assert slow_start([]) is None
    assert slow_start([3.0, 1.0]) is None
    assert slow_start([0.0, 0.0, 0.0]) is None
    assert slow_start([2.0, 1.0, 1.1]) is None, "three times: chance makes the like"


def test_times_equal_to_the_last_digit_do_not_break_it():
    assert slow_start([1.0] * 20) is None
    assert slow_start([2.0] * 10 + [1.0] * 10).slower == pytest.approx(2.0)


def test_many_series_are_judged_as_each_alone():
    random = np.random.default_rng(11)
    series = []
    for number in range(AT_ONCE + 50):
        count = (0, 1, 2, 3, 8, 33, 64)[number % 7]
        slow = np.where(np.arange(count) < count // 3, 1.5 if number % 3 else 1.0, 1.0)
        series.append(list(np.exp(random.normal(0, 0.02, count)) * slow))
    series[10] = [0.0, *series[10][1:]]
    found = slow_starts(series)
    assert found == [slow_start(each) for each in series]
    assert 100 < sum(each is not None for each in found) < len(series)
