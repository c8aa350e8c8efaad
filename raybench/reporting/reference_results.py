"""Published results for a grid's workload, next to the grid's own numbers.

Both use the source's timing rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from raybench.analysis.grid_results import GridResults
from raybench.core.status import TrialStatus
from raybench.reporting.tables import Record
from raybench.results.attempt import Attempt
from raybench.results.timing import PUBLISHED
from raybench.sources import result_tables
from raybench.sources.published_results import RULES, SHIPPED, Publication, PublishedRun, load_named

PROTOCOL = ("data.examples.train", "settings.batch_size", "settings.steps_per_epoch", "settings.compile")
"""Settings that must match those of a source, as far as reported."""

WHOLE_RUN = "settings.epochs"
"""A further setting that must match for numbers of whole runs.

Numbers of an epoch or a step do not depend on it.
"""

SECONDS, THROUGHPUT, ACCURACY = "reported_s", "examples_per_s", "val/accuracy"
ACCURACIES = {"last_val_accuracy": "after the last epoch", "best_val_accuracy": "after the best epoch"}


class ReportedNumber(NamedTuple):
    """A number reported by a source, with its timing rule.

    Attributes:
        name: raybench's name of the rule; None if it has none.
        unit: of the number.
        counts: the period that the rule counts.
        rule: function from an attempt to the number.
        value: the reported number; None if the run was out of memory.
        of_whole_run: whether it is of a whole run.
    """

    name: str | None
    unit: str
    counts: str
    rule: Callable[[Attempt], float | None] | None
    value: float | None
    of_whole_run: bool = True

    @property
    def more_is_better(self) -> bool:
        """Whether higher values are better."""
        return self.unit in (PUBLISHED["tutorial_throughput"].unit, ACCURACY)

    @property
    def place(self) -> tuple[bool, bool, float]:
        """Sort key of a number.

        Times come first (fastest first), then numbers for which higher is better, then missing ones.
        """
        value = self.value or 0.0
        return self.value is None, self.more_is_better, -value if self.more_is_better else value


def reported_numbers(results: GridResults) -> list[Record]:
    """Return one record per published number for this grid's workload.

    A number is of one setting on one machine. The sources are those that trained the same workload, or one that does
    not name its workload and that a reader would take for it. `mine` is the same number by the source's rule (median
    over runs) of the grid's best cell with the source's protocol, and `cell` is the label of that cell; both are
    missing if there is no such cell, or if raybench has no such rule.
    """
    records = []
    for file in sorted(SHIPPED.iterdir(), key=lambda file: file.name):
        # Most sources are about other workloads and need not be parsed.
        if file.name.endswith(".yaml") and results.workload in file.read_text(encoding="utf-8"):
            name = file.name.removesuffix(".yaml")
            records += _of(results, name, load_named(name))
    return records


def _of(results: GridResults, name: str, source: Publication) -> list[Record]:
    groups: dict[str, list[tuple[PublishedRun, result_tables.Record]]] = {}
    for run, row in zip(source.runs, source.records(name), strict=True):
        if results.workload in (source.like, row.attempt.cell.workload.name):
            groups.setdefault(row.attempt.cell_id, []).append((run, row))
    quantities = [(quantity, group[0]) for group in groups.values() for quantity in _reported(source, group)]
    records: list[Record] = []
    for quantity, (run, row) in sorted(quantities, key=lambda pair: pair[0].place):
        cell = row.attempt.cell.leaves()
        own_best = None if cell.get("workload.version") else _mine(results, quantity, cell)
        records.append(
            {
                "source": source.source,
                "machine": _machine(run, cell),
                "reported": quantity.value,
                "unit": quantity.unit,
                "counts": quantity.counts,
                "rule": quantity.name,
                "caveats": list(source.caveats),
                "origin": source.origin(run),
                "mine": own_best[0] if own_best else None,
                "cell": own_best[1] if own_best else None,
            }
        )
    return records


def _reported(
    source: Publication, group: Sequence[tuple[PublishedRun, result_tables.Record]]
) -> Iterator[ReportedNumber]:
    """Yield a source's numbers for one setting on one machine.

    Several runs are represented by their median.
    """

    def middle(column: str) -> float:
        return float(median(row.columns[column] for _, row in group))

    run, row = group[0]
    name = row.columns.get("reported_rule")
    rule = RULES.get(name or "")
    unit = PUBLISHED[name].unit if name in PUBLISHED else "s"
    whole = unit == "s"
    if row.columns.get(SECONDS) is not None:
        yield ReportedNumber(name, unit, source.counts, rule, middle(SECONDS), whole)
    if THROUGHPUT in run.says:
        yield ReportedNumber(
            name, PUBLISHED["tutorial_throughput"].unit, source.counts, rule, middle(THROUGHPUT), False
        )
    for column, counts in ACCURACIES.items():
        if column in run.says:
            yield ReportedNumber(column, ACCURACY, counts, _accuracy(column), middle(column))
    if run.says.get("status") == TrialStatus.OOM:
        yield ReportedNumber(None, "out of memory", source.counts, None, None)


def _accuracy(column: str) -> Callable[[Attempt], float | None]:
    """Return the rule for an accuracy column of the trials table."""

    def rule(attempt: Attempt) -> float | None:
        accuracies = [epoch.metrics[ACCURACY] for epoch in attempt.epochs if ACCURACY in epoch.metrics]
        return None if not accuracies else max(accuracies) if column.startswith("best") else accuracies[-1]

    return rule


def _machine(run: PublishedRun, cell: Mapping[str, Any]) -> str:
    """Return the machine of a run, with labels that distinguish runs there."""
    batch = f"batch {run.settings['batch_size']}" if "batch_size" in run.settings else ""
    parts = (cell.get("device.model") or run.machine, run.label or cell.get("workload.version"), batch)
    return ", ".join(str(part) for part in parts if part)


def _mine(results: GridResults, quantity: ReportedNumber, source_cell: Mapping[str, Any]) -> tuple[float, str] | None:
    """Return the grid's best number by a rule, and its cell's label.

    Only cells with the same protocol are considered.
    """
    names = (*PROTOCOL, WHOLE_RUN) if quantity.of_whole_run else PROTOCOL
    protocol = {name: source_cell[name] for name in names if source_cell.get(name) is not None}
    if not protocol or not quantity.rule:
        return None
    numbers = []
    for cell in results.cells:
        runs = results.completed(cell)
        if cell.aa_of or not runs or not _has(runs[0], protocol):
            continue
        values = [value for run in runs if (value := quantity.rule(run)) is not None]
        if values:
            numbers.append((median(values), results.label(cell)))
    best = max if quantity.more_is_better else min
    return best(numbers, key=lambda pair: pair[0]) if numbers else None


def _has(run: Attempt, protocol: Mapping[str, Any]) -> bool:
    """Return whether a run has a protocol's values, with its actual steps per epoch."""
    own = run.cell.leaves()
    if run.epochs:
        own["settings.steps_per_epoch"] = run.epochs[0].steps
    return all(name in own and own[name] == value for name, value in protocol.items())
