"""What a person reads when a grid has ended: the table, what went wrong, and where to look next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raybench.analysis.table import render
from raybench.run import RESULTS
from raybench.tracking.journal import attempt_folder
from raybench.trial import events

if TYPE_CHECKING:
    from rich.console import Console

    from raybench.analysis.results import Attempt
    from raybench.run import Outcome

MOST = 5
"""Troubled trials that are told one by one."""


def show(outcome: Outcome, console: Console | None = None) -> None:
    """Print the comparison of a grid."""
    from rich.console import Console

    console = console or Console()
    console.print()
    console.print(render(outcome.rows, caption(outcome)))
    troubled = [a for a in outcome.latest.values() if a.status not in (None, events.COMPLETED, events.SKIPPED)]
    if troubled:
        console.print()
    for attempt in troubled[:MOST]:
        console.print(_trouble(attempt, outcome), highlight=False, markup=False, soft_wrap=True)
    if len(troubled) > MOST:
        console.print(f"… and {len(troubled) - MOST} more like these, each with its folder in {outcome.folder}/trials")
    for warning in outcome.warnings:
        console.print(f"warning: {warning}", style="yellow", highlight=False, markup=False, soft_wrap=True)
    console.print()
    for line in _next(outcome):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def caption(outcome: Outcome) -> str:
    """What the table's numbers are."""
    spec = outcome.plan.spec
    repeats = (
        "one run each: no interval" if spec.repeats == 1 else f"{spec.repeats} runs each, least and most in brackets"
    )
    compared = any(row.speedup for row in outcome.rows)
    speed = "; speed-up with its 95 % interval (Welch)" if compared and spec.repeats > 1 else ""
    return f"{outcome.plan.workload.name}; s/epoch: median steady epoch; val/accuracy: last epoch; {repeats}{speed}."


def _trouble(attempt: Attempt, outcome: Outcome) -> str:
    error = attempt.error or {}
    message = str(error.get("message") or "").strip()
    first = message.splitlines()[0] if message else ""
    kind = error.get("type", "")
    where = f" ({error['where']})" if error.get("where") else ""
    words = f": {kind}: {first}{where}" if kind else ""
    folder = attempt_folder(outcome.folder, attempt.trial, attempt.attempt)
    return f"{attempt.status:<9} {attempt.label or attempt.trial}{words}\n          {folder}"


def _next(outcome: Outcome) -> list[str]:
    ran = f"{outcome.ran} trial{'s' if outcome.ran != 1 else ''} run now" if outcome.ran else "nothing was left to run"
    lines = [f"{ran}; journal: {outcome.journal}"]
    results = outcome.folder.parent
    flag = "" if results == RESULTS.absolute() else f" --results {results}"
    own = outcome.store.path is not None and outcome.store.path.parent == results
    store = "" if own else f" --tracking-uri {outcome.store}"
    lines.append(f"look at the runs: raybench ui{flag}{store}")
    mendable = (events.FAILED, events.OOM, events.TIMEOUT)
    retried = sorted({attempt.status for attempt in outcome.latest.values() if attempt.status in mendable})
    if retried:
        again = " ".join(f"--retry {status}" for status in retried)
        lines.append(f"once that is mended: the same command with {again}")
    return lines
