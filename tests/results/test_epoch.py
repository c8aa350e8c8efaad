"""The declaration of an epoch's measured fields, and everything that is derived from it."""

import pytest
from support.attempts import attempts
from support.declarations import printed_with

from raybench.core import events
from raybench.results.epoch import QUANTITIES, Combine, Epoch, over_ranks
from raybench.results.epochs import Epochs

FIELD = """    charge_c: float | None = measured(
        None,
        Quantity("charge_c", "C", "drawn by the device", over_epochs=Combine.SUM),
        over_ranks=Combine.SUM,
    )
"""
TOLD = """
from raybench.core import events
from raybench.results import epoch_table, run_table
from support.attempts import attempts
from raybench.reporting.results import Results
from raybench.sources import GridSource
from raybench.trial import launch_ranks

def epoch(number, charge):
    return events.epoch_ended("c-r0", 1, epoch=number, ledger={"train": 1.0}, metrics={}, charge_c=charge)

told = [epoch(1, 2.0), launch_ranks.over_ranks([epoch(2, 3.0), epoch(2, 4.0)])]
(attempt,) = attempts(told).values()
results = Results([GridSource("g", [attempt])])
described = {column.name: [column.unit, column.meaning] for column in [*run_table.TRIALS, *epoch_table.EPOCHS]}
print(json.dumps({
    "attribute": [epoch.charge_c for epoch in attempt.epochs],
    "described": described["charge_c"],
    "epochs": list(results.epochs["charge_c"]),
    "trials": list(results.trials["charge_c"]),
}))
"""


@pytest.mark.slow
def test_a_new_field_needs_no_other_edit():
    assert printed_with(FIELD, "    recompiles: int | None", "raybench.results.epoch", TOLD) == {
        "attribute": [2.0, 7.0],
        "described": ["C", "drawn by the device"],
        "epochs": [2.0, 7.0],
        "trials": [9.0],
    }


def test_an_epoch_without_anything_has_empty_values():
    (run,) = attempts([{"event": "epoch_ended", "trial": "c-r0", "attempt": 1, "epoch": 3}]).values()
    (empty,) = epochs = run.epochs
    assert empty == Epoch(3, None)
    assert (empty.steps, empty.cpu_s, empty.ledger, empty.step_s) == (0, None, {}, ())
    values = {quantity.column: value for quantity in QUANTITIES for value in quantity.of(epochs)}
    assert {name: value for name, value in values.items() if value is not None} == {
        f"{section}_s": 0.0 for section in ("train", "compile", "evaluate", "compile_evaluate")
    } | {"partial": False}


def test_table_row_equals_its_epoch():
    event = {
        "steps": 2,
        "examples": 64,
        "ledger": {"train": 1.5, "compile": 0.5},
        "cpu_s": 2.5,
        "device_s": {"train": 1.25},
        "metrics": {"val/accuracy": 0.5},
        "memory_peak_bytes": 7,
    }
    (run,) = attempts([events.epoch_ended("c-r0", 1, epoch=1, **event)]).values()
    (epoch,) = epochs = run.epochs
    columns = {quantity.column: quantity.of(epochs) for quantity in QUANTITIES}
    (again,) = Epochs.of_columns({"epoch": [1], **columns, "val/accuracy": [0.5]})
    assert {name: seconds for name, seconds in again.ledger.items() if seconds} == epoch.ledger
    assert (again.steps, again.examples, again.cpu_s, again.device_s) == (2, 64, 2.5, {"train": 1.25})
    assert (again.metrics, again.memory_peak_bytes, again.recompiles) == ({"val/accuracy": 0.5}, 7, None)


@pytest.mark.parametrize(
    ("how", "values", "combined"),
    [
        (Combine.FIRST, [None, 2.0, 3.0], 2.0),
        (Combine.SUM, [0.1, 0.2, None], 0.3),
        (Combine.SUM, [1, 2], 3),
        (Combine.MAX, [1, None, 3], 3),
        (Combine.SUM, [None, None], None),
        (Combine.MAX, [], None),
    ],
)
def test_values_are_combined(how, values, combined):
    assert how(values) == combined


def test_epoch_of_all_ranks():
    ranks = [
        {"epoch": 1, "ledger": {"train": 1.0}, "cpu_s": 1.0, "memory_peak_bytes": 5},
        {"epoch": 1, "ledger": {"train": 9.0}, "cpu_s": 2.0, "memory_peak_bytes": 8},
    ]
    assert over_ranks(ranks) == {
        "epoch": 1,
        "ledger": {"train": 1.0},
        "cpu_s": 3.0,
        "memory_peak_bytes": 8,
    }
