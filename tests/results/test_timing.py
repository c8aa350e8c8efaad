from dataclasses import replace

from support.attempts import attempts

from raybench.core import events
from raybench.core.cell import UNKNOWN_CELL
from raybench.core.job import Target
from raybench.results import timing
from raybench.results.attempt import Attempt
from raybench.results.epochs import Epochs


def attempt(*epochs, wall=None, ledger=None, warmup=1, first=1):
    """An attempt whose epochs took (compile, train, accuracy)."""
    told = [events.trial_started("c-r0", 1, cell={"warmup_epochs": warmup})]
    for number, (compile_s, train, accuracy) in enumerate(epochs, first):
        account = {"compile": compile_s, "train": train, "input_wait": 0.5, "evaluate": 0.25}
        metrics = {} if accuracy is None else {"val/accuracy": accuracy}
        told.append(events.epoch_ended("c-r0", 1, epoch=number, steps=1, examples=8, ledger=account, metrics=metrics))
    told.append(events.trial_ended("c-r0", 1, "completed", ledger=ledger, wall=wall))
    return attempts(told)["c-r0", 1]


def test_steady_is_the_median_after_the_warm_up():
    told = attempt((9, 9, None), (9, 9, None), (0, 1, None), (0, 2, None), (0, 6, None), warmup=2)
    assert timing.steady(told) == 2.5
    assert timing.mean_steady(told) == 3.5


def test_epochs_that_arrived_together_share_their_time():
    told = attempt((9, 9, None), (0, 0, None), (0, 4.5, None), (0, 0, None), (0, 0, None), (0, 3, None))
    together = zip(told.epochs, (None, 2, None, 2, 3, None), strict=True)
    told = replace(told, epochs=Epochs(replace(epoch, epochs_in_read=number) for epoch, number in together))
    assert list(timing.steady_seconds(told)) == [2, 2, 2, 2, 3.5]


def with_epochs(cell, epochs):
    return replace(cell, settings=replace(cell.settings, epochs=epochs))


def test_shorter_last_epoch_is_not_steady():
    """9.9 epochs: the tenth has fewer steps. Rules that add epochs up count it."""
    told = attempt((9, 9, None), (0, 2, None), (0, 4, None), (0, 1, 0.9))
    assert timing.steady(told) == 2.5
    short = replace(told, cell=with_epochs(told.cell, 3.9))
    assert timing.steady(short) == timing.mean_steady(short) == 3.5
    assert timing.epochs(short) == timing.epochs(told) == 9 + 16 + 4 * 0.5
    alone = attempt((9, 9, None), (0, 1, None))
    cut = replace(alone, cell=with_epochs(alone.cell, 1.5))
    assert timing.steady(cut) == 9.5 and timing.steady_from_warmup(cut), "a cold epoch rather than a part of one"
    half = replace(attempt((0, 1, None)), cell=with_epochs(UNKNOWN_CELL, 0.5))
    assert timing.steady(half) == 1.5


def test_last_epoch_stands_in_for_steady_ones():
    told = attempt((3, 5, None), (1, 4, None), warmup=2)
    assert timing.steady(told) == timing.mean_steady(told) == 4.5
    assert timing.steady_from_warmup(told)
    assert not timing.steady_from_warmup(attempt((3, 5, None), warmup=0))


def test_first_is_the_first_and_no_other():
    assert timing.first(attempt((3, 5, None), first=2)) is None


def test_nothing_to_count_is_no_time():
    assert {name: rule(Attempt("c-r0", 1)) for name, rule in timing.RULES.items()} == dict.fromkeys(timing.RULES)


def test_time_to_target_ends_with_its_epoch():
    told = attempt((2, 3, 0.5), (0, 3, 0.95), (0, 3, 0.93), (0, 3, 0.96))
    assert timing.time_to_target(told, Target("val/accuracy", at_least=0.94)) == 9.0
    assert timing.time_to_target(told, Target("val/accuracy", at_least=0.97)) is None
    assert timing.time_to_target(told, Target("val/loss", at_most=9.0)) is None
