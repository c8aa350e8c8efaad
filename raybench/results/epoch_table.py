"""The table of epochs: a row for each epoch of each run, as columns of the run.

Metrics have columns by their own names, such as `val/accuracy`, of float64; what a trial counts has two, such as
`units/tokens` and `tokens_per_s`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

from raybench.core.ledger import STEADY, TRAINING
from raybench.results.columns import TIME, Column, flag, number, text, whole
from raybench.results.epoch import QUANTITIES, UNITS, Quantity
from raybench.results.parsing import mapping_in
from raybench.results.run_table import DEVICE, DIGITS, HOST, Run, joules_in, quantile, seconds_in

Of = Callable[[Run], Sequence[Any]]  # a value for each epoch of a run


def _of_run(value: Callable[[Run], Any]) -> Of:
    return lambda run: [value(run)] * len(run.epochs)


def _per_s(run: Run, counts: Sequence[float]) -> list[float | None]:
    """Numbers of epochs per second of training, without compilation."""
    seconds = seconds_in(run.epochs, STEADY)
    return [count / own_s if count and own_s > 0 else None for count, own_s in zip(counts, seconds, strict=True)]


def _epoch_s(run: Run) -> list[float]:
    return seconds_in(run.epochs, TRAINING)


def _elapsed_s(run: Run) -> list[float]:
    return list(accumulate(_epoch_s(run), lambda sum_s, own_s: round(sum_s + own_s, DIGITS)))


def _is_steady(run: Run) -> list[bool]:
    steady = {*run.steady.column("epoch")}
    return [epoch in steady for epoch in run.epochs.column("epoch")]


def _step_s(share: float) -> Of:
    return lambda run: [quantile(steps_s, share) for steps_s in run.epochs.column("step_s")]


def _joules(part: str) -> Of:
    """Joules of each epoch; None also for one that was too short to be measured singly."""

    def of(run: Run) -> list[float | None]:
        single, numbers = mapping_in(run.energy.get("each")), run.epochs.column("epoch")
        return [joules_in(single.get(str(number)), part) if single else None for number in numbers]

    return of


def _of_quantity(quantity: Quantity, run: Run) -> Sequence[Any]:
    return quantity.of(run.epochs)


def _measured(of_ledger: bool) -> list[Column[Any]]:
    return [
        Column(q.dtype, q.unit, q.meaning, partial(_of_quantity, q), name=q.column, mlflow=q.mlflow)
        for q in QUANTITIES
        if (q.field == "ledger") is of_ledger
    ]


AS_TRIALS, PER_S = "as in the table of trials", "throughput/{}_per_s"
RATE = "examples per second of training, without compilation; a unit such as tokens has `tokens_per_s`"
JOULES = "energy of the device, with evaluation; missing if the epoch is too short for it"

EPOCHS: Sequence[Column[Any]] = [
    text(AS_TRIALS, _of_run(lambda run: run.grid), name="grid"),
    text(AS_TRIALS, _of_run(lambda run: run.name or run.trial), name="trial"),
    whole("", AS_TRIALS, _of_run(lambda run: run.attempt), name="attempt"),
    whole("", "from 1", lambda run: run.epochs.column("epoch"), name="epoch"),
    Column(TIME, "UTC", "end of the epoch", lambda run: run.epochs.column("t"), name="ended"),
    flag("whether it is after the warm-up", _is_steady, name="steady"),
    *_measured(of_ledger=True),
    number("s", "compile_s + train_s + input_wait_s", _epoch_s, name="epoch_s", mlflow="time/epoch_s"),
    number("s", "epoch_s of this epoch and all before it", _elapsed_s, name="elapsed_s"),
    number(
        "examples/s",
        RATE,
        lambda run: _per_s(run, run.epochs.column("examples")),
        name="examples_per_s",
        mlflow=PER_S.format("examples"),
    ),
    number("steps/s", Run.steps_per_s.meaning, lambda run: _per_s(run, run.epochs.column("steps")), name="steps_per_s"),
    number("s", Run.step_median_s.meaning, _step_s(0.5), name="step_median_s"),
    number("s", Run.step_p95_s.meaning, _step_s(0.95), name="step_p95_s"),
    *_measured(of_ledger=False),
    number("J", JOULES, _joules(DEVICE), name="energy_j"),
    number("J", "energy of an accelerator's host, its sockets and memory", _joules(HOST), name="host_energy_j"),
]
"""Columns of the table of epochs; the value of each is that of all epochs of a run."""


def epoch_columns(run: Run) -> dict[str, Sequence[Any]]:
    """Return the columns of a run's epochs, also of its metrics and of what it counts."""
    epochs, columns = run.epochs, {column.name: column.value(run) for column in EPOCHS}
    for unit in epochs.names("units"):
        columns[f"{unit}_per_s"] = _per_s(run, epochs.counts(unit))
        columns[f"{UNITS}{unit}"] = epochs.column("units", unit)
    return {name: epochs.column("metrics", name) for name in epochs.names("metrics")} | columns
