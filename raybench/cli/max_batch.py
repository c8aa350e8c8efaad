"""Output of `raybench grid FILE --find-max-batch`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raybench.cli.console import page
from raybench.core.memory import format_bytes, size
from raybench.core.text import format_value

if TYPE_CHECKING:
    from rich.console import Console

    from raybench.checks.max_batch.search import BatchOutcome, MaxBatchResult

NOTHING = "–"


def show(outcome: BatchOutcome, console: Console | None = None) -> None:
    """Print a row for each search: the largest batch that fits, the smallest that does not, and the memory of each."""
    from rich import box
    from rich.table import Table

    console = console or page()
    names = list(dict.fromkeys(name for result in outcome.results for name in result.about))
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for name in names:
        table.add_column(name, overflow="fold")
    for title in ("largest that fits", "peak", "smallest that does not"):
        table.add_column(title, justify="right")
    table.add_column("because", overflow="fold")
    for result in outcome.results:
        values = [format_value(result.about[name]) if name in result.about else NOTHING for name in names]
        table.add_row(*values, *_cells(result))
    if outcome.results:
        console.print(table)
    for reason in outcome.skipped:
        console.print(f"skipped: {reason}", soft_wrap=True, markup=False)


def _cells(result: MaxBatchResult) -> tuple[str, str, str, str]:
    best, worst = result.search.best, result.search.worst
    largest = str(best.batch) if best else "none" if worst else NOTHING
    peak = size(best.peak) if best and best.peak else NOTHING
    smallest_failing = str(worst.batch) if worst else NOTHING
    if result.error:
        return largest, peak, smallest_failing, f"stopped: {result.error}"
    if worst is None:
        return largest, peak, smallest_failing, "the whole training set fits" if best else "too few training examples"
    if worst.why == "Timeout":
        return largest, peak, smallest_failing, "timed out"
    sizes = {"asked_bytes": worst.asked, "peak_bytes": worst.peak, "limit_bytes": worst.limit}
    return largest, peak, smallest_failing, format_bytes(sizes) or "memory ran out"
