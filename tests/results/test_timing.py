from dataclasses import replace

from support.attempts import attempts

from raybench.core import events
from raybench.core.cell import UNKNOWN_CELL
from raybench.core.job import Target
from raybench.results.epochs import Epochs
from raybench.results.run_table import TRIALS, Run, training_s


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
    assert told.steady_s == 2.5
    assert told.mean_steady_s == 3.5


def test_epochs_that_arrived_together_share_their_time():
    told = attempt((9, 9, None), (0, 0, None), (0, 4.5, None), (0, 0, None), (0, 0, None), (0, 3, None))
    together = zip(told.epochs, (None, 2, None, 2, 3, None), strict=True)
    told = replace(told, epochs=Epochs(replace(epoch, epochs_in_read=number) for epoch, number in together))
    assert list(told.timed_s) == [2, 2, 2, 2, 3.5]


def with_epochs(cell, epochs):
    return replace(cell, settings=replace(cell.settings, epochs=epochs))


def test_shorter_last_epoch_is_not_steady():
    """9.9 epochs: the tenth has fewer steps. Rules that add epochs up count it."""
    told = attempt((9, 9, None), (0, 2, None), (0, 4, None), (0, 1, 0.9))
    assert told.steady_s == 2.5
    short = replace(told, cell=with_epochs(told.cell, 3.9))
    assert short.steady_s == short.mean_steady_s == 3.5
    assert short.epochs_s == told.epochs_s == 9 + 16 + 4 * 0.5
    alone = attempt((9, 9, None), (0, 1, None))
    cut = replace(alone, cell=with_epochs(alone.cell, 1.5))
    assert cut.steady_s == 9.5 and cut.is_timed_by_warmup, "a cold epoch rather than a part of one"
    half = replace(attempt((0, 1, None)), cell=with_epochs(UNKNOWN_CELL, 0.5))
    assert half.steady_s == 1.5


def test_last_epoch_stands_in_for_steady_ones():
    told = attempt((3, 5, None), (1, 4, None), warmup=2)
    assert told.steady_s == told.mean_steady_s == 4.5
    assert told.is_timed_by_warmup
    assert not attempt((3, 5, None), warmup=0).is_timed_by_warmup


def test_first_is_the_first_and_no_other():
    assert attempt((3, 5, None), first=2).first_s is None


def test_nothing_to_count_is_no_time():
    times = {column.name: column.value(Run(trial="c-r0")) for column in TRIALS if column.unit == "s"}
    assert times == dict.fromkeys(times)


def test_time_to_target_ends_with_its_epoch():
    told = attempt((2, 3, 0.5), (0, 3, 0.95), (0, 3, 0.93), (0, 3, 0.96))
    assert training_s(told.epochs_to(Target("val/accuracy", at_least=0.94))) == 9.0
    assert not told.epochs_to(Target("val/accuracy", at_least=0.97))
    assert not told.epochs_to(Target("val/loss", at_most=9.0))
