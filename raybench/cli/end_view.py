"""Output at the end of a grid: the table, the problems, and the next commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raybench.cli.console import page
from raybench.cli.live import trouble
from raybench.cli.report_view import caption, show_caveats, show_verdict
from raybench.cli.ui import in_a_browser
from raybench.core.status import TrialStatus
from raybench.planning.plan import skip_lines
from raybench.reporting.build import HTML
from raybench.reporting.comparison_table import render
from raybench.results.journal import attempt_folder
from raybench.tracking.store import cli_flags, is_server

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from raybench.results.attempt import Attempt
    from raybench.run import Outcome
    from raybench.tracking.store import Store

MOST = 5
"""Number of trials with problems that are reported individually."""


def show_end(outcome: Outcome, console: Console | None = None) -> None:
    """Print the comparison of a grid."""
    console = console or page()
    done = {attempt.status for attempt in outcome.latest.values()} - {None, TrialStatus.SKIPPED}
    if not done and all(cell.skip for cell in outcome.plan.cells):
        console.print(f"Nothing of {outcome.plan.spec.name} can run here.", soft_wrap=True)
        for line in skip_lines(outcome.plan):
            console.print(line, soft_wrap=True, markup=False)
        return
    console.print()
    show_verdict(outcome.report, console)
    console.print()
    console.print(render(outcome.rows, caption(outcome.report), outcome.report.results.metric_label))
    troubled = [
        a for a in outcome.latest.values() if a.status not in (None, TrialStatus.COMPLETED, TrialStatus.SKIPPED)
    ]
    if troubled:
        console.print()
    for attempt in troubled[:MOST]:
        console.print(_trouble(attempt, outcome), soft_wrap=True)
    if len(troubled) > MOST:
        remainder = f"… and {len(troubled) - MOST} more like these, each with its folder in {outcome.folder / 'trials'}"
        console.print(remainder, soft_wrap=True)
    show_caveats(outcome.report, console)
    console.print()
    for line in _next(outcome):
        console.print(line, soft_wrap=True)


def _trouble(attempt: Attempt, outcome: Outcome) -> str:
    folder = attempt_folder(outcome.folder, attempt.trial, attempt.attempt)
    trouble_text = ""
    if attempt.error:
        place = attempt.error.get("where")
        trouble_text = f": {trouble(attempt.status, attempt.error)}" + (f" ({place})" if place else "")
    return f"{attempt.status:<9} {attempt.label or attempt.trial}{trouble_text}\n          {folder}"


def _next(outcome: Outcome) -> list[str]:
    if outcome.ran:
        summary = f"{outcome.ran} trial{'s' if outcome.ran != 1 else ''} run now"
    elif outcome.interrupted:
        summary = "stopped before a trial had ended"
    else:
        summary = "nothing was left to run"
    page = outcome.folder / HTML
    lines = [f"report: {page}"] if page.is_file() else []
    lines.append(f"{summary}; journal: {outcome.journal}")
    if outcome.store and any(attempt.attempt for attempt in outcome.latest.values()):
        lines.append(f"look at the runs: {_look(outcome.store, outcome.folder.parent)}")
    if outcome.plan.spec.smoke:
        lines.append("these are no results of the grid: that is the same command without --smoke")
    if outcome.interrupted:
        lines.append("run the same command again to continue")
    retryable = (TrialStatus.FAILED, TrialStatus.OOM, TrialStatus.TIMEOUT)
    retried = sorted({attempt.status for attempt in outcome.latest.values() if attempt.status in retryable})
    if retried:
        retry_options = " ".join(f"--retry {status}" for status in retried)
        lines.append(f"once that is mended: the same command with {retry_options}")
    return lines


def _look(store: Store, results: Path) -> str:
    """The command or address that shows the runs."""
    if is_server(store.uri):
        return f"open {in_a_browser(store)} in a browser"
    return f"raybench ui{cli_flags(store, results)}"
