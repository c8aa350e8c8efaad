"""The columns of an attempt's epochs have the same values as the epochs themselves."""

import math
from array import array

import pytest

from raybench.results.epoch import Epoch
from raybench.results.epochs import Epochs

ROWS = [
    Epoch(
        1, "a", 10, 640, {"train": 2.0}, metrics={"val/loss": math.inf}, recompiles=0, step_s=array("d", [0.5, 0.25])
    ),
    Epoch(2, None, 10, 640, {"train": 1.0, "input_wait": 0.5}, cpu_s=3.0, units={"tokens": 5.0}),
    Epoch(4, "c", 4, 0, {"train": 0.5}, partial=True, optimizers=({"lr": 0.1},)),
]


def test_columns_have_the_values_of_their_rows():
    epochs = Epochs(ROWS)
    assert list(epochs) == ROWS and epochs[1] == ROWS[1] and epochs[-1] == ROWS[-1]
    for name in ("epoch", "t", "steps", "examples", "cpu_s", "recompiles", "partial", "optimizers", "epochs_in_read"):
        assert list(epochs.column(name)) == [getattr(row, name) for row in ROWS]
    assert list(epochs.column("ledger", "input_wait")) == [None, 0.5, None]
    assert list(epochs.column("ledger", "input_wait", 0.0)) == [0.0, 0.5, 0.0]
    assert list(epochs.column("settle_s", "train")) == [None] * 3
    assert (epochs.counted, list(epochs.counts("tokens"))) == (["examples", "tokens"], [0.0, 5.0, 0.0])


@pytest.mark.parametrize("part", [slice(1, None), slice(-1, None), slice(0, 0), slice(None, None, 2)])
def test_part_has_the_rows_of_the_part(part):
    chosen = Epochs(ROWS)[part]
    assert list(chosen) == ROWS[part] and chosen == Epochs(ROWS[part])
    assert list(chosen.column("ledger", "train")) == [row.ledger["train"] for row in ROWS[part]]
    assert list(chosen[:1]) == ROWS[part][:1]


def test_added_epoch_replaces_an_earlier_one():
    epochs = Epochs(ROWS[1:])
    assert len(epochs) == 2
    for row in (ROWS[0], Epoch(4, "again"), Epoch(3)):
        epochs.add(row)
    assert list(epochs) == [*ROWS[:2], Epoch(3), Epoch(4, "again")]
