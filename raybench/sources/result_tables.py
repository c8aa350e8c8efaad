"""Tidy tables of results: one row per trial or per epoch (`raybench.results.columns`)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any

from raybench.analysis.bottleneck import roofline, utilization
from raybench.analysis.findings.finding import Finding, findings
from raybench.core.cell import Cell
from raybench.core.settings import PARAM, TRAINING
from raybench.core.status import TrialStatus
from raybench.results import columns as c
from raybench.results import energy, timing
from raybench.results.attempt import Attempt
from raybench.results.epoch import QUANTITIES, UNITS
from raybench.results.epochs import Epochs

if TYPE_CHECKING:
    from pandas import DataFrame, Series

    from raybench.results.grid_request import GridRequest, PlannedCell
    from raybench.results.history import GridHistory

LEAVES = {column.leaf: column for column in c.TRIALS if column.leaf}
_TOLD = frozenset(LEAVES) | {"engine.name", "seed"}
_MAPS = ("stop_at_target.", *(f"settings.{name}." for name in TRAINING if name not in (c.MODEL, "optimizer")))
"""Prefixes of a cell's fields that are in the columns of their parents."""


@dataclass(frozen=True)
class Record:
    """A row of the table of trials, with its epochs.

    It is an attempt, and information about it besides its events.

    Attributes:
        grid: the grid's name, if its own events do not record it.
        columns: values of columns that its events do not have, or have less accurately.
    """

    attempt: Attempt
    grid: str | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class GridSource:
    """The results of one grid in a source.

    Attributes:
        name: the grid's name; None if the source does not name it.
        records: every attempt, one record each.
        history: what its files say; None if the source is a table, such as a CSV file.
        request: the request of the grid's last execution, if it was recorded.
    """

    name: str | None
    records: Sequence[Record]
    history: GridHistory | None = None
    request: GridRequest | None = None

    @property
    def attempts(self) -> list[Attempt]:
        """Every attempt."""
        return [each.attempt for each in self.records]


def prices(cells: Iterable[PlannedCell]) -> dict[str | None, float]:
    """Return the known prices per hour by cell and, for cells that were not requested, by device."""
    priced = ((key, cell.price_per_hour) for cell in cells for key in (cell.cell_id, cell.axes.get("device")))
    return {key: price for key, price in priced if price is not None}


def tables(records: Iterable[Record]) -> tuple[DataFrame, DataFrame]:
    """Return the tables of trials and of epochs, in the order of the records."""
    records = list(records)
    trials, found = _Columns(), findings([record.attempt for record in records])
    of_cells: dict[int, dict[str, Any]] = {}
    for record in records:
        cell = record.attempt.cell  # its trials share it
        if id(cell) not in of_cells:
            of_cells[id(cell)] = cell_columns(cell)
        trials.add(_trial(record, of_cells[id(cell)], found[id(record.attempt)]))
    return trials.frame(c.TRIALS), _epochs_frame(records, trials.values)


class _Columns:
    """Columns to which rows are added; a dictionary for each row would take several times the memory.

    Attributes:
        values: the values of each column, in the order of the first row that has it.
        rows: the number of rows.
    """

    def __init__(self) -> None:
        self.values: dict[str, list[Any]] = {}
        self.rows = 0

    def add(self, row: Mapping[str, Any]) -> None:
        """Add a row; other columns have no value in it."""
        for name, value in row.items():
            column = self.values.setdefault(name, [])
            column.extend([None] * (self.rows - len(column)))
            column.append(value)
        self.rows += 1

    def frame(self, described: Iterable[c.Column]) -> DataFrame:
        """Return every described column, typed, then all other columns."""
        from pandas import DataFrame

        types = {column.name: column.dtype for column in described}
        for name, values in self.values.items():
            values.extend([None] * (self.rows - len(values)))
            if name not in types:
                types[name] = c.TEXT if any(isinstance(value, str) for value in values) else c.NUMBER
        nothing = [None] * self.rows
        return DataFrame({name: _series(self.values.get(name, nothing), dtype) for name, dtype in types.items()})


def _trial(record: Record, of_cell: Mapping[str, Any], found: Iterable[Finding]) -> dict[str, Any]:
    attempt, epochs = record.attempt, record.attempt.epochs
    row: dict[str, Any] = {
        "grid": attempt.grid or record.grid,
        "trial": attempt.trial,
        "cell": attempt.cell_id,
        "repeat": attempt.repeat,
        "attempt": attempt.attempt,
        "status": attempt.status,
        "label": attempt.label,
        "runs": 1,
        "started": attempt.started,
        "ended": attempt.ended,
        "host": attempt.host.get("name"),
        "device": attempt.profile or attempt.cell.device.kind or None,
        "seed": attempt.seed,
        "wall_s": attempt.wall,
        "template_import_s": attempt.template_import,
        "epochs_done": len(epochs) - sum(epochs.column("partial")),
        "error": attempt.error_text or None,
        "error_where": (attempt.error or {}).get("where"),
        "warnings": "\n".join(attempt.warnings) or None,
        "findings": ",".join(each.code for each in found) or None if attempt.status else None,
        "decay_check": attempt.decay_check.get("says"),
        "decay_factor": attempt.decay_check.get("factor"),
    }
    row |= of_cell
    row |= {f"{name}_s": rule(attempt) for name, rule in timing.RULES.items()}
    row |= {f"{name}_s": attempt.ledger.get(name) for name in ("setup", "startup", "data", "build", "other")}
    if epochs:
        row |= _sums(attempt, epochs)
    row |= _roofline(attempt)
    row |= _energy(attempt)
    row |= _target(attempt)
    row |= record.columns
    price, total = row.get("price_per_hour"), row.get("total_s")
    if price is not None and total is not None:
        row.setdefault("total_price", price * total / 3600)
    return row


def _sums(attempt: Attempt, epochs: Epochs) -> dict[str, Any]:
    """Return the values that only an attempt with epochs has."""
    totals: dict[str, Any] = {
        quantity.total: quantity.over_epochs(quantity.of(epochs)) for quantity in QUANTITIES if quantity.over_epochs
    }
    steady, (paced, seconds) = timing.steady_epochs(attempt), timing.paced_epochs(attempt)
    if sum(seconds) > 0:
        totals |= {f"{unit}_per_s": rate for unit, rate in timing.rates(attempt).items()}
        totals["steps_per_s"] = sum(paced.column("steps")) / sum(seconds) or None
    steps_s = list(chain.from_iterable(paced.column("step_s")))
    totals |= {"step_p95_s": _quantile(steps_s, 0.95), "step_median_s": _quantile(steps_s, 0.5)}
    cpu = steady.column("cpu_s")
    if steady and None not in cpu:
        totals["steady_cpu_s"] = round(sum(cpu) / len(cpu), 9)
    if attempt.status != TrialStatus.DIVERGED:  # its metrics before that are not those of a trained model
        totals["best_val_accuracy"] = attempt.best("val/accuracy")
        totals |= {f"last_{name.replace('/', '_')}": value for name, value in attempt.last_metrics.items()}
    return totals


def _roofline(attempt: Attempt) -> dict[str, Any]:
    used = utilization(attempt) if attempt.roofline else None
    if used is None:
        return {}
    roof = roofline(attempt)
    shares = {"bottleneck": roof.bottleneck, "memory_share": roof.memory, "input_share": roof.input} if roof else {}
    return {"flop_rate": used.flops_per_s, "mfu": used.mfu, "datasheet_mfu": used.datasheet_mfu} | shares


def _energy(attempt: Attempt) -> dict[str, Any]:
    return {
        "energy_j": energy.total(attempt),
        "steady_energy_j": energy.steady(attempt),
        "example_energy_j": energy.per_example(attempt),
        "target_energy_j": energy.to_target(attempt),
        "host_energy_j": energy.total(attempt, energy.HOST),
        "steady_host_energy_j": energy.steady(attempt, energy.HOST),
        "energy_missing": "; ".join(energy.missing(attempt)) or None,
    }


def _target(attempt: Attempt) -> dict[str, Any]:
    target = attempt.target
    if target is None:
        return {}
    epochs = timing.until_target(attempt, target)
    return {
        "target_metric": target.metric,
        "target_at_least": target.at_least,
        "target_at_most": target.at_most,
        "target_reached": bool(epochs),
        "time_to_target_s": timing.time_to_target(attempt, target),
        "epochs_to_target": epochs[-1].epoch if epochs else None,
    }


def cell_columns(cell: Cell) -> dict[str, Any]:
    """Return a cell's columns, with other fields by their dotted names."""
    cell_leaves = cell.leaves
    row = {column.name: cell_leaves.get(leaf) for leaf, column in LEAVES.items()}
    settings = cell.settings.to_json()
    row |= {name: settings[name] for name in TRAINING if isinstance(settings.get(name), Mapping) and name in row}
    texts = {column.name for column in LEAVES.values() if column.dtype == c.TEXT}
    row = {
        name: value if _plain(value) and not (isinstance(value, bool) and name in texts) else as_json(value)
        for name, value in row.items()
    }
    return row | {
        leaf: value if isinstance(value, str) or value is None or _is_param_number(leaf, value) else as_json(value)
        for leaf, value in cell_leaves.items()
        if leaf not in _TOLD and not leaf.startswith(_MAPS)
    }


def _is_param_number(leaf: str, value: Any) -> bool:
    return leaf.startswith(PARAM) and isinstance(value, (int, float)) and not isinstance(value, bool)


def cell_of(columns: Mapping[str, Any]) -> Cell:
    """Return the cell with these columns; the inverse of `cell_columns`.

    Raises:
        LookupError: one of them is not a column of a cell.
    """
    leaf = {column.name: column.leaf for column in LEAVES.values()}
    tree: dict[str, Any] = {}
    for name, value in columns.items():
        *path, last = leaf[name].split(".")
        place = tree
        for step in path:
            place = place.setdefault(step, {})
        place[last] = value
    return Cell.from_json(tree)


def _plain(value: Any) -> bool:
    return value is None or isinstance(value, (str, int, float))


def as_json(value: Any) -> str:
    """Return a value as JSON, with sorted keys and readable spacing."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _epochs_frame(records: Sequence[Record], trials: Mapping[str, Sequence[Any]]) -> DataFrame:
    """Return the table of epochs, with the columns of the table of trials that identify its trial."""
    attempts = [record.attempt for record in records]
    table = _Columns()
    table.rows = sum(len(attempt.epochs) for attempt in attempts)
    of_attempts = list(map(_epoch_columns, attempts))
    for name in dict.fromkeys(chain.from_iterable(of_attempts)):
        columns = zip(of_attempts, attempts, strict=True)
        table.values[name] = [v for own, attempt in columns for v in own.get(name) or [None] * len(attempt.epochs)]
    for name in ("grid", "trial", "attempt"):
        values = zip(trials[name], attempts, strict=True) if attempts else ()
        table.values[name] = [value for value, attempt in values for _ in attempt.epochs.column("epoch")]
    return table.frame(c.EPOCHS)


def _epoch_columns(attempt: Attempt) -> dict[str, Sequence[Any]]:
    """Return the columns of an attempt's epochs."""
    epochs, steady = attempt.epochs, {*attempt.steady.column("epoch")}
    seconds, steady_s = (timing.seconds_of_each(epochs, sections) for sections in (timing.TRAINING, timing.STEADY))

    def per_s(counts: Sequence[float]) -> list[float | None]:
        """Return numbers of epochs per second of training, without compilation."""
        return [
            count / each_s if count and each_s > 0 else None for count, each_s in zip(counts, steady_s, strict=True)
        ]

    return {
        **{name: epochs.column("metrics", name) for name in epochs.names("metrics")},
        **{f"{unit}_per_s": per_s(epochs.counts(unit)) for unit in epochs.counted},
        **{f"{UNITS}{unit}": epochs.column("units", unit) for unit in epochs.names("units")},
        **{quantity.column: quantity.of(epochs) for quantity in QUANTITIES},
        "epoch": epochs.column("epoch"),
        "ended": epochs.column("t"),
        "steady": [number in steady for number in epochs.column("epoch")],
        "epoch_s": seconds,
        "elapsed_s": list(accumulate(seconds, lambda elapsed, each: round(elapsed + each, timing.DIGITS))),
        "steps_per_s": per_s(epochs.column("steps")),
        "step_median_s": [_quantile(each, 0.5) for each in epochs.column("step_s")],
        "step_p95_s": [_quantile(each, 0.95) for each in epochs.column("step_s")],
        "energy_j": energy.of_epochs(attempt),
        "host_energy_j": energy.of_epochs(attempt, energy.HOST),
    }


def _quantile(values: Sequence[float], share: float) -> float | None:
    """Return the value that a share of them does not exceed; None without any."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if len(values) else None


def frame(rows: Iterable[Mapping[str, Any]], described: Iterable[c.Column]) -> DataFrame:
    """Return a frame with every described column, typed, then all other columns."""
    columns = _Columns()
    for row in rows:
        columns.add(row)
    return columns.frame(described)


def _series(values: list[Any], dtype: str) -> Series:
    """Return a typed column; values of other types, as in a file that was edited by hand, become missing."""
    from pandas import Series, to_datetime, to_numeric

    series = Series(values, dtype=object)
    if dtype == c.TIME:
        return to_datetime(series, format="ISO8601", utc=True, errors="coerce").astype(dtype)
    try:
        return series.astype(dtype)
    except (ValueError, TypeError, OverflowError):
        if dtype == c.YES_NO:
            return Series([value if isinstance(value, bool) else None for value in values], dtype=dtype)
        numbers = to_numeric(series, errors="coerce").astype("float64")
        return numbers if dtype == c.NUMBER else numbers.where(numbers % 1 == 0).astype(dtype)
