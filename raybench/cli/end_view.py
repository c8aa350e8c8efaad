"""Output at the end of a grid: the answer, the table, the problems, and the next commands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from raybench.cli.console import page
from raybench.cli.live import evidence, trouble
from raybench.cli.report_view import show_remarks, show_table, show_verdict
from raybench.cli.ui import in_a_browser
from raybench.core.status import TrialStatus
from raybench.planning.plan import skip_lines
from raybench.reporting.build import HTML
from raybench.reporting.sentences import render_phrase
from raybench.results.journal import attempt_folder
from raybench.tracking.store import cli_flags, is_server

if TYPE_CHECKING:
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
    show_table(outcome.report, console)
    show_remarks(outcome.report, console)
    troubled = [
        a for a in outcome.latest.values() if a.status not in (None, TrialStatus.COMPLETED, TrialStatus.SKIPPED)
    ]
    if troubled:
        console.print()
    for attempt in troubled[:MOST]:
        console.print(_trouble(attempt, outcome), soft_wrap=True)
    if len(troubled) > MOST:
        console.print(f"… and {len(troubled) - MOST} more; see {outcome.folder / 'trials'}", soft_wrap=True)
    console.print()
    for line in _next(outcome):
        console.print(line, soft_wrap=True)


def _trouble(attempt: Attempt, outcome: Outcome) -> str:
    """How a trial ended that did not complete, with its error and the folder of its output."""
    lines = [f"Trial {render_phrase('ended', attempt.status, 1)}: {attempt.label or attempt.trial}"]
    if attempt.error:
        place = attempt.error.get("where")
        lines.append(f"{trouble(attempt.status, attempt.error)}" + (f" ({place})" if place else ""))
    lines += evidence(attempt_folder(outcome.folder, attempt.trial, attempt.attempt))
    return "\n  ".join(lines)


def _next(outcome: Outcome) -> list[str]:
    """Where to look, and the next commands."""
    page = outcome.folder / HTML
    lines = [] if outcome.ran or outcome.interrupted else ["Nothing was left to run; --rerun runs trials again."]
    if page.is_file():
        lines.append(f"Report  {_short(page)}")
    if outcome.store and any(attempt.attempt for attempt in outcome.latest.values()):
        lines.append(f"MLflow  {_look(outcome.store, outcome.folder.parent)}")
    if outcome.plan.spec.inline:
        lines.append(
            f"These results are those of a separate grid (raybench report {_short(outcome.folder)}): "
            "for times that count, run the same command without --inline."
        )
    elif outcome.plan.spec.smoke:
        lines.append("These numbers are not results of the grid: run the same command without --smoke.")
    if outcome.interrupted:
        lines.append("Stopped. Run the same command again to continue.")
    retryable = (TrialStatus.FAILED, TrialStatus.OOM, TrialStatus.TIMEOUT)
    retried = sorted({attempt.status for attempt in outcome.latest.values() if attempt.status in retryable})
    if retried:
        retry_options = " ".join(f"--retry {status}" for status in retried)
        lines.append(f"After fixing the cause, run the same command with {retry_options}.")
    return lines


def _short(path: Path) -> Path:
    """A path relative to the current folder, if it is inside."""
    current = Path.cwd()
    return path.relative_to(current) if path.is_relative_to(current) else path


def _look(store: Store, results: Path) -> str:
    """The command or address that shows the runs."""
    if is_server(store.uri):
        return in_a_browser(store)
    return f"raybench ui{cli_flags(store, results)}"
