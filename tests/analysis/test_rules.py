from dataclasses import replace

import pytest

from raybench.analysis import rules
from raybench.analysis.results import Attempt, attempts
from raybench.trial import events
from raybench.trial.job import Target


def attempt(*epochs, wall=None, ledger=None, warmup=1, first=1):
    """An attempt whose epochs took (compile, train, accuracy)."""
    told = [events.trial_started("c-r0", 1, cell={"warmup_epochs": warmup})]
    for number, (compile_s, train, accuracy) in enumerate(epochs, first):
        account = {"compile": compile_s, "train": train, "input_wait": 0.5, "evaluate": 0.25}
        metrics = {} if accuracy is None else {"val/accuracy": accuracy}
        told.append(events.epoch_ended("c-r0", 1, epoch=number, steps=1, examples=8, ledger=account, metrics=metrics))
    told.append(events.trial_ended("c-r0", 1, "completed", ledger=ledger, wall=wall))
    return attempts(told)["c-r0", 1]


@pytest.mark.parametrize(
    ("rule", "seconds"),
    [
        ("steady", 3.921),
        ("mean_steady", 3.921),
        ("first", 4.621),
        ("epochs", 8.542),
        ("total", 12.212),
        ("airbench", 8.325),
        ("dawnbench", 8.234),
        ("mlperf", 9.089),
    ],
)
def test_the_contract_digit_for_digit(golden_events, rule, seconds):
    assert rules.RULES[rule](attempts(golden_events)["960070f40c0c-r0", 1]) == seconds


def test_the_contract_s_epochs(golden_events):
    told = attempts(golden_events)["960070f40c0c-r0", 1]
    assert [rules.epoch_seconds(epoch) for epoch in told.epochs] == [4.621, 3.921]
    assert not rules.steady_from_warmup(told)


def test_the_golden_ledger_adds_up_to_its_wall(golden_events):
    told = attempts(golden_events)["960070f40c0c-r0", 1]
    assert sum(told.ledger.values()) == pytest.approx(told.wall, abs=1e-9)


def test_steady_is_the_median_after_the_warm_up():
    told = attempt((9, 9, None), (9, 9, None), (0, 1, None), (0, 2, None), (0, 6, None), warmup=2)
    assert rules.steady(told) == 2.5
    assert rules.mean_steady(told) == 3.5


def test_a_shorter_epoch_at_the_end_is_no_steady_epoch():
    """9.9 epochs: the tenth has fewer steps. Rules that add epochs up count it."""
    told = attempt((9, 9, None), (0, 2, None), (0, 4, None), (0, 1, 0.9))
    assert rules.steady(told) == 2.5
    short = replace(told, cell=told.cell | {"settings": {"epochs": 3.9}})
    assert rules.steady(short) == rules.mean_steady(short) == 3.5
    assert rules.epochs(short) == rules.epochs(told) == 9 + 16 + 4 * 0.5
    assert rules.airbench(short) == 16 + 4 * 0.5 + 0.25
    alone = attempt((9, 9, None), (0, 1, None))
    cut = replace(alone, cell=alone.cell | {"settings": {"epochs": 1.5}})
    assert rules.steady(cut) == 9.5 and rules.steady_from_warmup(cut), "a cold epoch rather than a part of one"
    half = replace(attempt((0, 1, None)), cell={"settings": {"epochs": 0.5}})
    assert rules.steady(half) == 1.5


def test_without_an_epoch_after_the_warm_up_the_last_one_stands_in_and_says_so():
    told = attempt((3, 5, None), (1, 4, None), warmup=2)
    assert rules.steady(told) == rules.mean_steady(told) == 4.5
    assert rules.steady_from_warmup(told)
    assert not rules.steady_from_warmup(attempt((3, 5, None), warmup=0))


def test_first_is_the_first_and_no_other():
    assert rules.first(attempt((3, 5, None), first=2)) is None


def test_mlperf_leaves_out_twenty_minutes_at_most():
    account = {"setup": 100.0, "build": 500.0, "compile": 900.0}
    assert rules.mlperf(attempt((0, 1, None), wall=5000.0, ledger=account)) == 3800.0


@pytest.mark.parametrize("rule", sorted(rules.RULES))
def test_nothing_to_count_is_no_time(rule):
    assert rules.RULES[rule](Attempt("c-r0", 1)) is None


def test_time_to_target_ends_with_the_first_epoch_that_reaches_it():
    told = attempt((2, 3, 0.5), (0, 3, 0.95), (0, 3, 0.93), (0, 3, 0.96))
    assert rules.time_to_target(told, Target("val/accuracy", at_least=0.94)) == 9.0
    assert rules.time_to_target(told, Target("val/accuracy", at_least=0.97)) is None
    assert rules.time_to_target(told, Target("val/loss", at_most=9.0)) is None
