"""The table of epochs: a row for each epoch of each run, as columns of the run.

Metrics have columns by their own names, such as `val/accuracy`, of float64; what a trial counts has two, such as
`units/tokens` and `tokens_per_s`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

from raybench.core.ledger import STEADY, TRAINING
from raybench.results.columns import NUMBER, TEXT, TIME, WHOLE, YES_NO, Column
from raybench.results.epoch import QUANTITIES, UNITS
from raybench.results.parsing import mapping_in
from raybench.results.run_table import DEVICE, DIGITS, HOST, Run, joules_in, quantile, seconds_in

Values = Callable[[Run], Sequence[Any]]
"""A value for each epoch of a run."""


def of_run(value: Callable[[Run], Any]) -> Values:
    """Return a value of the run for each of its epochs."""
    return lambda run: [value(run)] * len(run.epochs)


def per_s(run: Run, counts: Sequence[float]) -> list[float | None]:
    """Return numbers of epochs per second of training, without compilation."""
    seconds = seconds_in(run.epochs, STEADY)
    return [count / own_s if count and own_s > 0 else None for count, own_s in zip(counts, seconds, strict=True)]


def elapsed(run: Run) -> list[float]:
    """Return the seconds of training of each epoch and all before it."""
    return list(accumulate(seconds_in(run.epochs, TRAINING), lambda sum_s, own_s: round(sum_s + own_s, DIGITS)))


def is_steady(run: Run) -> list[bool]:
    """Return whether each epoch is after the warm-up."""
    steady = {*run.steady.column("epoch")}
    return [number in steady for number in run.epochs.column("epoch")]


def steps(share: float) -> Values:
    """Return the time that a share of the steps of each epoch does not exceed."""
    return lambda run: [quantile(own, share) for own in run.epochs.column("step_s")]


def joules(part: str) -> Values:
    """Return the joules of each epoch; None also for one that was too short to be measured singly."""

    def of(run: Run) -> list[float | None]:
        single, numbers = mapping_in(run.energy.get("each")), run.epochs.column("epoch")
        return [joules_in(single.get(str(number)), part) if single else None for number in numbers]

    return of


def _measured(of_ledger: bool) -> list[tuple[Any, ...]]:
    """Return the declarations of the measured quantities, those in the ledger or the others."""
    return [
        (own.column, own.dtype, own.unit, own.meaning, own.mlflow, lambda run, own=own: own.of(run.epochs))
        for own in QUANTITIES
        if (own.field == "ledger") is of_ledger
    ]


EPOCHS: Sequence[Column[Sequence[Any]]] = [
    Column(dtype, unit, meaning, of, name=name, mlflow=mlflow)
    for name, dtype, unit, meaning, mlflow, of in (
        ("grid", TEXT, "", "as in the table of trials", "", of_run(lambda run: run.grid)),
        ("trial", TEXT, "", "as in the table of trials", "", of_run(lambda run: run.name or run.trial)),
        ("attempt", WHOLE, "", "as in the table of trials", "", of_run(lambda run: run.attempt)),
        ("epoch", WHOLE, "", "from 1", "", lambda run: run.epochs.column("epoch")),
        ("ended", TIME, "UTC", "end of the epoch", "", lambda run: run.epochs.column("t")),
        ("steady", YES_NO, "", "whether it is after the warm-up", "", is_steady),
        *_measured(of_ledger=True),
        (
            "epoch_s",
            NUMBER,
            "s",
            "compile_s + train_s + input_wait_s",
            "time/epoch_s",
            lambda run: seconds_in(run.epochs, TRAINING),
        ),
        ("elapsed_s", NUMBER, "s", "epoch_s of this epoch and all before it", "", elapsed),
        (
            "examples_per_s",
            NUMBER,
            "examples/s",
            "examples per second of training, without compilation; a unit such as tokens has `tokens_per_s`",
            "throughput/examples_per_s",
            lambda run: per_s(run, run.epochs.column("examples")),
        ),
        (
            "steps_per_s",
            NUMBER,
            "steps/s",
            Run.steps_per_s.meaning,
            "",
            lambda run: per_s(run, run.epochs.column("steps")),
        ),
        ("step_median_s", NUMBER, "s", Run.step_median_s.meaning, "", steps(0.5)),
        ("step_p95_s", NUMBER, "s", Run.step_p95_s.meaning, "", steps(0.95)),
        *_measured(of_ledger=False),
        (
            "energy_j",
            NUMBER,
            "J",
            "energy of the device, with evaluation; missing if the epoch is too short for it",
            "",
            joules(DEVICE),
        ),
        ("host_energy_j", NUMBER, "J", "energy of an accelerator's host, its sockets and memory", "", joules(HOST)),
    )
]
"""Columns of the table of epochs; the value of each is that of all epochs of a run."""


def epoch_columns(run: Run) -> dict[str, Sequence[Any]]:
    """Return the columns of a run's epochs, also of its metrics and of what it counts."""
    epochs = run.epochs
    return {
        **{name: epochs.column("metrics", name) for name in epochs.names("metrics")},
        **{f"{unit}_per_s": per_s(run, epochs.counts(unit)) for unit in epochs.names("units")},
        **{f"{UNITS}{unit}": epochs.column("units", unit) for unit in epochs.names("units")},
        **{column.name: column.value(run) for column in EPOCHS},
    }
