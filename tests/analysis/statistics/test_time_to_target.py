import random
import warnings

import numpy as np
import pytest
from scipy.stats import CensoredData, ecdf
from support.simulated import covers

from raybench.analysis.statistics.time_to_target import (
    CENSORED,
    ENDINGS,
    MISSED,
    NEVER,
    REACHED,
    SurvivalStep,
    TargetAttempt,
    compare_targets,
    epochs_equivalent,
    expected,
    kaplan_meier,
    median_time_to_target,
    target_attempt_of,
)
from raybench.core.job import Target
from raybench.core.status import TrialStatus
from raybench.results.attempt import attempts

LOG_LOG = [(0.03082021, 0.79619074), (0.11824359, 0.87426982), (0.28078198, 0.98769847)]


def tries(hits, misses=(), epochs=None):
    return [TargetAttempt(each, epochs=epochs) for each in hits] + [
        TargetAttempt(each, MISSED, epochs) for each in misses
    ]


def test_the_published_runs_with_restarts():
    """35 of 50 DavidNet runs reach 94 % in 74.0 s."""
    found = expected(tries([74.0] * 35, [74.0] * 15))
    assert round(found.seconds, 1) == 105.7
    assert (found.successes, found.tries, found.share) == (35, 50, 0.7)
    assert (found.share_low, found.share_high) == pytest.approx((0.5625, 0.8090), abs=1e-4)
    assert (found.low, found.high) == pytest.approx((74.0 / found.share_high, 74.0 / found.share_low))


def test_a_miss_costs_what_it_took():
    assert expected(tries([10.0, 20.0], [100.0])).seconds == pytest.approx(15 + 100 / 2)


@pytest.mark.slow
@pytest.mark.parametrize("runs", [20, 100])
def test_the_interval_of_the_expected_time_covers(runs):
    """With fewer tries it covers as Wilson's does, which counts whole successes: 92 % at 7 of 10."""
    random = np.random.default_rng(runs)
    hit, miss = 50.0, 100.0
    grids = []
    for reached in random.random((2000, runs)) < 0.7:
        seconds = np.where(reached, random.normal(hit, 5.0, runs), random.normal(miss, 2.0, runs))
        grids.append(
            [TargetAttempt(s, "reached" if r else MISSED) for s, r in zip(seconds.tolist(), reached, strict=True)]
        )
    found = [expected(grid) for grid in grids]
    assert 0.93 <= covers([each for each in found if each.high], hit + 0.3 / 0.7 * miss) <= 0.985


@pytest.mark.slow
@pytest.mark.parametrize("shares", [(0.7, 0.7), (0.9, 0.6), (0.6, 0.9)])
@pytest.mark.parametrize("runs", [3, 5, 10])
def test_the_interval_of_a_ratio_with_restarts_covers_with_few_runs(runs, shares):
    """Successes take 10 epochs of 24, misses all of them: three of three that got there do not make a miss cheap."""
    random = np.random.default_rng(runs)

    def side(share, speed):
        spent = speed * np.exp(random.normal(0, 0.03, runs))
        return [
            TargetAttempt(10 * s, "reached", 10, 24 * s) if hit else TargetAttempt(24 * s, MISSED, 24)
            for s, hit in zip(spent.tolist(), random.random(runs) < share, strict=True)
        ]

    def truth(share, speed):
        return speed * (10 + (1 - share) / share * 24)

    found = [compare_targets(side(shares[0], 4.0), side(shares[1], 1.0), learn_differently=True) for _ in range(2000)]
    known = [each.seconds for each in found if each.restarts and each.seconds.low]
    assert covers(known, truth(shares[0], 4.0) / truth(shares[1], 1.0)) >= 0.935


def test_what_a_miss_would_have_cost_where_nothing_missed(golden_events):
    found = target_attempt_of(attempts(golden_events)["e5728b716bd9-r0", 1], Target("val/accuracy", 0.5))
    assert (found.seconds, found.epochs, found.miss) == (4.621, 1, 8.542)
    cut = [event for event in golden_events if event.get("epoch") != 2]
    found = target_attempt_of(attempts(cut)["e5728b716bd9-r0", 1], Target("val/accuracy", 0.5))
    assert found.miss == pytest.approx(4.621 + 4.003), "one that stopped there would have had another epoch"
    assert (
        expected([TargetAttempt(10.0, miss=24.0), TargetAttempt(10.0, miss=24.0)]).high
        > expected([TargetAttempt(10.0), TargetAttempt(10.0)]).high
    )


def test_all_reached_is_not_certain_to_be_reached():
    found = expected(tries([10.0, 11.0, 12.0]))
    assert found.seconds == pytest.approx(11.0)
    assert found.share_low < 0.5
    assert found.high > 20


def test_none_reached_leaves_a_lower_end():
    found = expected(tries([], [10.0, 10.0, 10.0]))
    assert (found.seconds, found.high) == (None, None)
    assert found.low == pytest.approx(10 * (1 - found.share_high) / found.share_high)
    assert expected(tries([], [1.0, 3.0])).low == 0, "two runs far apart: nothing below no time at all"
    assert expected([]) is None


def test_a_run_that_a_time_limit_stopped_is_no_miss():
    hits, limited = [TargetAttempt(10.0), TargetAttempt(12.0), TargetAttempt(14.0)], TargetAttempt(9.0, CENSORED)
    found = expected([*hits, limited])
    assert (found.seconds, found.share, found.censored) == (pytest.approx(12.0), 1.0, 1), "none had all its epochs"
    assert found.share_low < expected(hits).share_low, "it might have missed"
    found = expected([*hits, limited, TargetAttempt(30.0, MISSED)])
    assert found.seconds == pytest.approx(12.0 + (1 - found.share) / found.share * 30), "a miss costs what misses took"
    none = expected([limited, limited])
    assert (none.seconds, none.share_high, none.censored) == (None, 1.0, 2)


def test_one_success_shows_no_spread():
    found = expected(tries([10.0], [12.0]))
    assert (found.seconds, found.low, found.high) == (22.0, None, None)


def test_the_curve_is_that_of_scipy():
    chance = random.Random(3)
    for _ in range(100):
        tries = [
            TargetAttempt(float(chance.randint(1, 9)), chance.choice((REACHED, REACHED, CENSORED, MISSED, NEVER)))
            for _ in range(chance.randint(1, 12))
        ]
        hits = [each.seconds for each in tries if each.reached]
        end = 10.0
        others = [each.seconds if each.ending == CENSORED else end for each in tries if not each.reached]
        survival = ecdf(CensoredData(uncensored=hits, right=others)).sf if hits else None
        steps = kaplan_meier(tries)
        assert [step.seconds for step in steps] == sorted(set(hits))
        for step in steps:
            assert step.share == pytest.approx(1 - survival.evaluate(step.seconds))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            interval = survival.confidence_interval(method="log-log") if survival else None
        for step in steps:
            if step.share < 1:
                ends = (1 - interval.high.evaluate(step.seconds), 1 - interval.low.evaluate(step.seconds))
                assert (step.low, step.high) == pytest.approx(ends)


def test_the_curve_is_kaplan_and_meier_s():
    """The numbers of `scipy.stats.ecdf` of `CensoredData.right_censored`, with its interval "log-log"."""
    found = kaplan_meier(
        [
            TargetAttempt(1.0),
            TargetAttempt(2.0),
            TargetAttempt(3.0, CENSORED),
            TargetAttempt(4.0),
            TargetAttempt(5.0, CENSORED),
        ]
    )
    assert [(step.seconds, round(step.share, 6)) for step in found] == [(1.0, 0.2), (2.0, 0.4), (4.0, 0.7)]
    assert [(step.low, step.high) for step in found] == [pytest.approx(ends, abs=1e-6) for ends in LOG_LOG]


def test_what_never_reaches_it_stays_at_risk():
    """Diverged after a second: it is not a run that might have reached the target later."""
    cut = kaplan_meier([TargetAttempt(1.0, CENSORED), TargetAttempt(2.0), TargetAttempt(3.0)])
    never = kaplan_meier([TargetAttempt(1.0, NEVER), TargetAttempt(2.0), TargetAttempt(3.0)])
    assert [step.share for step in cut] == pytest.approx([1 / 2, 1])
    assert [step.share for step in never] == pytest.approx([1 / 3, 2 / 3])
    assert median_time_to_target([TargetAttempt(1.0, NEVER), TargetAttempt(2.0), TargetAttempt(3.0)]) == 3.0
    assert (
        median_time_to_target(
            [TargetAttempt(1.0, NEVER), TargetAttempt(1.0, NEVER), TargetAttempt(2.0, CENSORED), TargetAttempt(3.0)]
        )
        is None
    )
    assert kaplan_meier([TargetAttempt(1.0, NEVER)]) == []


def test_where_all_get_there_the_curve_ends_at_1():
    found = kaplan_meier([TargetAttempt(2.0), TargetAttempt(2.0), TargetAttempt(2.0)])
    assert found == [SurvivalStep(2.0, 1.0, pytest.approx(0.4385, abs=1e-4), 1.0)]


def test_every_status_is_an_observation_or_none():
    known = {TrialStatus.COMPLETED, TrialStatus.TIMEOUT, TrialStatus.OOM, TrialStatus.DIVERGED}
    assert set(ENDINGS) == known
    assert ENDINGS[TrialStatus.TIMEOUT] == CENSORED
    assert ENDINGS[TrialStatus.DIVERGED] == NEVER


def test_alike_has_to_be_shown():
    assert epochs_equivalent([20, 20, 20], [20, 20, 20]) is True
    assert epochs_equivalent([20, 20, 20], [30, 30, 31]) is False
    assert epochs_equivalent([10, 25, 40], [12, 22, 45]) is None, "three runs far apart show nothing"
    assert epochs_equivalent([20], [20]) is None


def test_one_epoch_more_in_two_runs_is_no_difference():
    assert epochs_equivalent([5, 5], [6, 6]) is None
    assert epochs_equivalent([5, 5], [9, 9]) is False
    found = compare_targets(tries([5.0, 5.0], epochs=5), tries([6.0, 6.0], epochs=6))
    assert found.epochs.differs is False


@pytest.mark.slow
@pytest.mark.parametrize("runs", [2, 3, 5])
def test_whole_epochs_of_one_distribution_are_seldom_shown_to_differ(runs):
    random = np.random.default_rng(runs)
    epochs = np.ceil(np.exp(random.normal(np.log(6), 0.05, (2, 2000, runs))))
    told = [epochs_equivalent(*pair) for pair in zip(epochs[0].tolist(), epochs[1].tolist(), strict=True)]
    assert np.mean([each is False for each in told]) <= 0.05


def test_alike_is_seldom_said_of_what_is_not():
    """The truth lies on the margin: two one-sided tests call it alike in at most 5 %."""
    random = np.random.default_rng(0)
    first, second = random.normal(0, 0.03, (2000, 5)), random.normal(np.log(1.1), 0.03, (2000, 5))
    called = [
        epochs_equivalent(*sides) is True for sides in zip(np.exp(first).tolist(), np.exp(second).tolist(), strict=True)
    ]
    assert np.mean(called) <= 0.065


def test_a_ratio_only_where_epochs_are_alike_or_the_difference_is_named():
    slow, fast = tries([40.0, 41.0, 42.0], epochs=20), tries([20.0, 20.5, 21.0], epochs=20)
    found = compare_targets(slow, fast)
    assert found.alike
    assert found.seconds.ratio == pytest.approx(2.0)
    other = tries([30.0, 30.5, 31.0], epochs=30)
    found = compare_targets(slow, other)
    assert (found.alike, found.seconds) == (False, None)
    assert found.epochs.ratio == pytest.approx(20 / 30)
    found = compare_targets(slow, other, learn_differently=True)
    assert found.seconds.ratio == pytest.approx(41.0 / 30.5, rel=1e-3)


def test_with_misses_the_ratio_is_of_expected_times():
    slow, fast = tries([40.0, 40.0], [40.0, 40.0], epochs=20), tries([20.0, 20.0], epochs=20)
    found = compare_targets(slow, fast)
    assert found.restarts
    assert found.seconds.ratio == pytest.approx(4.0)
    assert found.seconds.low < 4.0 < found.seconds.high
    none = compare_targets(tries([], [40.0, 40.0], epochs=20), fast)
    assert (none.seconds, none.epochs, none.restarts) == (None, None, False)


def test_times_to_the_target_on_several_machines_count_once_for_each():
    def side(seconds, hosts):
        return [TargetAttempt(each, epochs=20, host=host) for each, host in zip(seconds, hosts, strict=True)]

    slow, fast = [40.0, 41.0, 44.0, 45.0], [20.0, 20.5, 22.0, 22.5]
    runs = compare_targets(side(slow, ["a"] * 4), side(fast, ["b"] * 4)).seconds
    machines = compare_targets(side(slow, "aabb"), side(fast, "ccdd")).seconds
    assert runs.df > machines.df and machines.low < runs.low
    assert machines.ratio == pytest.approx(runs.ratio)
