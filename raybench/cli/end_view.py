"""Output at the end of a grid: the answer, the table, the problems, and the next commands."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

from raybench.cli.console import print_lines, print_text
from raybench.cli.live import HEADINGS, after_epochs, evidence, shown_path, trouble
from raybench.core.identity import is_inline
from raybench.core.options import RESULTS
from raybench.core.secret_masking import mask
from raybench.core.status import TrialStatus
from raybench.core.text import plural
from raybench.planning.plan import skip_lines
from raybench.reporting.text import report_lines
from raybench.results.folder import ATTEMPTS, REPORT, attempt_folder
from raybench.tracking.store import cli_flags, in_a_browser, is_server

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console

    from raybench.results.run_table import Run
    from raybench.run import Outcome

MAX_PROBLEM_KINDS = 5
"""Number of kinds of problems that are reported."""


def show_end(outcome: Outcome, console: Console, show_answer: Callable[[], None] | None = None) -> None:
    """Print the answer to a grid, the trials that did not complete, with their errors, and the next commands.

    Args:
        show_answer: prints the answer; by default the comparison of the grid's configurations is printed.
    """
    if not outcome.can_run:
        print_text(console, f"Nothing of {outcome.plan.spec.name} can run here.", *skip_lines(outcome.plan))
        return
    console.print()
    if show_answer:
        show_answer()
    else:
        print_lines(console, report_lines(outcome.report.answer, console.width, after_run=_report_command(outcome)))
    expected = (None, TrialStatus.COMPLETED, TrialStatus.SKIPPED, TrialStatus.KILLED)
    troubled = [each for each in outcome.latest.values() if each.status not in expected]
    if troubled:
        console.print()
    groups: dict[tuple[str, ...], list[Run]] = {}
    for attempt in troubled:
        error = trouble(attempt.status, attempt.error) if attempt.error else ""
        groups.setdefault((str(attempt.status), error), []).append(attempt)
    shown_groups = sorted(groups.values(), key=len, reverse=True)
    for group in shown_groups[:MAX_PROBLEM_KINDS]:
        console.print(_trouble(group, outcome), soft_wrap=True, markup=False)
    if rest := sum(map(len, shown_groups[MAX_PROBLEM_KINDS:])):
        console.print(f"… and {rest} more; see {outcome.folder / ATTEMPTS}", soft_wrap=True)
    console.print()
    for line in _next(outcome):
        console.print(line, soft_wrap=True)


def _trouble(group: Sequence[Run], outcome: Outcome) -> str:
    """The end of trials that did not complete, with their common error and the folder of the first one's output."""
    attempt, count = group[0], len(group)
    head = "Trial" if count == 1 else f"{count} trials"
    others = f" and {plural(count - 1, 'other')}" if count > 1 else ""
    ending = HEADINGS.get(attempt.status, "Trial failed").removeprefix("Trial ")
    lines = [f"{head} {ending}{after_epochs(group)}: {attempt.label or attempt.trial}{others}"]
    lines += [trouble(attempt.status, attempt.error)] if attempt.error else []
    lines += [f"Command: {attempt.command}"] if attempt.command else []
    lines += evidence(attempt_folder(outcome.folder, attempt.trial, attempt.run))
    return "\n  ".join(lines)


def _again(statuses: Sequence[str]) -> str:
    """The same command that runs trials with these statuses again; an option after a program would be the program's."""
    _, verb, *rest = sys.argv
    options = [word for status in statuses for word in ("--retry", status)]
    return mask(shlex.join(["raybench", verb, *options, *rest]))


def _report_command(outcome: Outcome) -> str:
    """The command that shows the report again."""
    is_default = outcome.folder.parent == RESULTS.absolute()
    return f"raybench report {outcome.folder.name if is_default else shlex.quote(str(shown_path(outcome.folder)))}"


def _next(outcome: Outcome) -> list[str]:
    """Where to look, and the next commands."""
    page = outcome.folder / REPORT
    lines = [] if outcome.ran or outcome.interrupted else ["Nothing was left to run; --rerun runs trials again."]
    completed = [each for each in outcome.latest.values() if each.status == TrialStatus.COMPLETED]
    if outcome.plan.workload.guesses_metrics and completed:
        names = dict.fromkeys(name for each in completed for name in each.last_metrics)
        lines.append(f"Metrics {', '.join(names) or 'none'} recognized in the output; others by patterns:")
        lines.append("  --metric val/loss='val loss ([\\d.]+)', or `metrics` in a grid file")
    if len(outcome.latest) == 1:
        for attempt in completed:
            lines += [f"Command {attempt.command}"] if attempt.command else []
            lines += [f"  {name}: {line!r}" for name, line in attempt.matched.items()]
    if page.is_file():
        lines.append(f"Report  {shown_path(page)}")
    if outcome.store and any(attempt.attempt for attempt in outcome.latest.values()):
        store = outcome.store
        ui = f"raybench ui{cli_flags(store, outcome.folder.parent)}"
        lines.append(f"MLflow  {in_a_browser(store) if is_server(store.uri) else ui}")
    if is_inline(outcome.plan.spec.name):
        lines.append(
            f"These results are in a separate grid ({_report_command(outcome)}): "
            "for times that count, run the same command without --inline."
        )
    killed = [trial for trial, status in outcome.ended.items() if status == TrialStatus.KILLED]
    for attempt in (outcome.latest[trial] for trial in killed if trial in outcome.latest):
        if attempt.status != TrialStatus.KILLED:
            label = attempt.label or attempt.trial
            lines.append(f"Stopped while it ran again: {label}; its earlier result ({attempt.status}) counts.")
    retryable = (TrialStatus.FAILED, TrialStatus.OOM, TrialStatus.TIMEOUT)
    retried = sorted({attempt.status for attempt in outcome.latest.values() if attempt.status in retryable})
    if retried:
        if outcome.plan.workload.files:
            lines.append("After editing your code, run the same command again. After any other fix:")
        lines.append(f"{'  ' if outcome.plan.workload.files else 'After fixing the cause: '}{_again(retried)}")
    return lines
