from dataclasses import replace
from statistics import fmean, geometric_mean

import numpy as np
import pytest
from support.resnet63_times import GTX_1080, I5, MAC
from support.simulated import COVERS, GRIDS, covers

from raybench.analysis.statistics.break_even import (
    RunCost,
    break_even_length,
    break_even_price,
    cost_ratio,
    job,
    long_run,
    of_attempt,
    run_costs_of,
    speedup_at,
)
from raybench.results import timing
from raybench.results.attempt import attempts


def published(calls):
    """A script that makes two cold calls; the mean of the two after them is steady."""
    return [RunCost(fmean(each[2:]), warmup=tuple(each[:2])) for each in calls]


@pytest.mark.parametrize(
    ("slow", "first", "four", "steady"), [(MAC, 3.57, 8.83, 159.42), (I5, 1.50, 3.22, 52.25)], ids=["mac", "i5"]
)
def test_the_published_table_at_every_job_length(slow, first, four, steady):
    slow, fast = published(slow), published(GTX_1080)
    assert round(speedup_at(slow, fast, 1).ratio, 2) == first
    assert round(speedup_at(slow, fast, 4).ratio, 2) == four
    assert round(long_run(slow, fast).ratio, 2) == steady
    assert speedup_at(slow, fast, 10**7).ratio == pytest.approx(steady, rel=1e-3)
    found = break_even_length(slow, fast)
    assert (found.turns_at, found.sure_from, found.sure_before) == (None, 1, None), "the card wins from the first call"


def test_the_job_length_at_which_the_verdict_turns():
    """100 s of start-up against 1 s, a step of 1 s against 0.1 s: 110 steps are a tie, by hand."""
    host = [RunCost(1.0 * each, once=1.0) for each in (0.99, 1.0, 1.01)]
    card = [RunCost(0.1 * each, once=100.0) for each in (0.99, 1.0, 1.01)]
    found = break_even_length(host, card)
    assert found.turns_at == 111
    assert found.sure_before < 110 < found.sure_from
    assert found.first.ratio < 1 < found.long_run.ratio
    turned = break_even_length(card, host)
    assert (turned.turns_at, turned.sure_before, turned.sure_from) == (111, found.sure_before, found.sure_from)
    single = break_even_length(host[:1], card[:1])
    assert (single.turns_at, single.sure_before, single.sure_from) == (112, None, None)


def test_no_length_at_which_it_turns():
    fast, slow = [RunCost(0.1), RunCost(0.11)], [RunCost(1.0), RunCost(1.1)]
    found = break_even_length(slow, fast)
    assert (found.turns_at, found.sure_from) == (None, 1)
    tie = break_even_length(fast, fast)
    assert (tie.turns_at, tie.sure_before, tie.sure_from) == (None, None, None)
    assert break_even_length([], fast) is None


@pytest.mark.slow
@pytest.mark.parametrize("repeats", [3, *(pytest.param(repeats, marks=pytest.mark.exhaustive) for repeats in (5, 10))])
def test_the_interval_of_the_turn_covers(repeats):
    random = np.random.default_rng(repeats)

    def side(once, steady):
        noise = np.exp(random.normal(0, 0.03, (2, GRIDS // 4, repeats)))
        return [
            [RunCost(steady * s, once * o) for o, s in zip(*pair, strict=True)] for pair in zip(*noise, strict=True)
        ]

    sides = zip(side(1.0, 1.0), side(100.0, 0.1), strict=True)
    found = [break_even_length(*pair) for pair in sides]
    covered = np.mean([each.sure_before < 110 < (each.sure_from or np.inf) for each in found])
    assert 0.93 <= covered <= 0.985


@pytest.mark.parametrize("repeats", [3, 5, 10])
def test_the_intervals_of_a_job_and_of_its_price_cover(repeats):
    random = np.random.default_rng(repeats)
    noise = np.exp(random.normal(0, 0.03, (4, GRIDS, repeats)))
    slow, slow_once, fast, fast_once = noise * np.array([4.0, 40.0, 1.0, 40.0])[:, None, None]
    sides = [
        [[RunCost(*each) for each in zip(*run, strict=True)] for run in zip(*side, strict=True)]
        for side in ((slow, slow_once), (fast, fast_once))
    ]
    # The spread of a sum of the two, for 10 steps of the slow side, is close to log-normal around its median.
    assert COVERS[0] <= covers([job(processes, 10) for processes in sides[0]], 80.0) <= COVERS[1]
    ratios = [long_run(*pair) for pair in zip(*sides, strict=True)]
    assert COVERS[0] <= covers([cost_ratio(ratio, 0.1, 0.35) for ratio in ratios], 4 * 0.1 / 0.35) <= COVERS[1]
    assert COVERS[0] <= covers([break_even_price(ratio, 0.1) for ratio in ratios], 0.4) <= COVERS[1]


def test_what_a_job_takes_and_costs():
    processes = [RunCost(1.0, once=10.0), RunCost(1.1, once=12.0)]
    found = job(processes, 100)
    assert found.value == pytest.approx(geometric_mean([110.0, 122.0]))
    assert found.low < 110 < 122 < found.high
    assert found.times(3.6 / 3600).value == pytest.approx(found.value / 1000)
    assert job(processes[:1], 100).low is None
    assert job([], 100) is None


def test_the_price_at_which_it_turns():
    """DAWNBench's ResNet-164: a K80 is 8.25 × as fast as 16 cores, at $42.35 against $9.31."""
    cores, card = [RunCost(286_014.0)], [RunCost(34_672.0)]
    found = long_run(cores, card)
    assert round(found.ratio, 2) == 8.25
    prices = 42.35 / (286_014 / 3600), 9.31 / (34_672 / 3600)
    assert cost_ratio(found, *prices).value == pytest.approx(42.35 / 9.31)
    turn = break_even_price(found, prices[0])
    assert cost_ratio(found, prices[0], turn.value).value == pytest.approx(1)
    assert turn.low is None


def test_of_a_run(golden_events):
    """The contract's trial: import, setup, data, build and compile once, and how much longer its first epoch was."""
    run = next(iter(attempts(golden_events).values()))
    found = of_attempt(run)
    assert found.steady == pytest.approx(timing.steady(run) / 156)
    assert found.once == pytest.approx(2.412 + 0.041 + 0.310 + 0.052 + 0.618 + (4.003 - 3.921))
    told = sum(map(timing.epoch_seconds, run.epochs))
    assert found.seconds(312) == pytest.approx(2.412 + 0.041 + 0.310 + 0.052 + told)
    run.ledger = {}
    assert of_attempt(run) is None


def test_what_runs_on_several_machines_paid_is_the_mean_of_each_machine(golden_events):
    run = next(iter(attempts(golden_events).values()))
    runs = [replace(run, host={"name": host}) for host in ("a", "a", "b")]
    assert run_costs_of(runs) == (of_attempt(run),) * 2
    assert len(run_costs_of(runs[:2])) == 2, "on one machine every run counts"
