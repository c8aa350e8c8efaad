"""Progress display of a running grid: live on a terminal, else plain lines."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from raybench.analysis.smoke import smoke_cuts
from raybench.checks.weight_decay.schedule import DecayCheckResult
from raybench.cli.console import Terminal
from raybench.cli.durations import duration, rough
from raybench.cli.progress import fetch_with_progress
from raybench.core.cell import Cell
from raybench.core.events import Event
from raybench.core.memory import format_bytes
from raybench.core.status import TrialStatus
from raybench.datasets import DataSet
from raybench.planning.estimate import Estimator
from raybench.planning.plan import Plan, WorkItem, notes, plan_warnings, skip_lines
from raybench.reporting.sentences import plain
from raybench.results.attempt import Attempt, Key, main_metric
from raybench.results.history import GridHistory

LONGEST_LINE = 300
"""Maximum characters of an error in one line."""

LINE_EVERY = 10.0
"""Seconds between two lines about epochs without a terminal."""

MARKS = {TrialStatus.COMPLETED: "[green]✓[/]", TrialStatus.FAILED: "[red]✗[/]", TrialStatus.LOST: "[red]✗[/]"}


def left(seconds: float | None) -> str:
    """The remaining time as text, with the precision of an estimate."""
    if seconds is None:
        return "time left not known yet"
    if seconds < 0.5:
        return "nearly done"
    return f"about {rough(seconds)} left"


def first_line(error: Mapping[str, Any]) -> str:
    """An error in one line: its type and the first line of its message, `ValueError: the batch is empty`."""
    lines = str(error.get("message") or "").strip().splitlines()
    line = ": ".join(part for part in (error.get("type"), lines[0] if lines else "") if part)
    return line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE - 1]}…"


def trouble(status: str | None, error: Mapping[str, Any]) -> str:
    """The problem of a trial in one line.

    For an out-of-memory error this is the phase and amount, as far as known.
    """
    return (format_bytes(error) if status == TrialStatus.OOM else "") or first_line(error)


@dataclass
class _Running:
    """One trial that is running now."""

    label: str
    device: str
    epochs: int
    """How many there will be; 0 if only the user's own loop knows."""
    heard: float
    """Time of its last event, on the monotonic clock."""
    ahead: float | None
    """Seconds from then to its end; None if it is not known."""
    epoch: int = 0
    quality: str = ""
    """The main metric of the last epoch, such as `val/accuracy 0.9402`; empty before the first."""
    epoch_s: float | None = None
    spinner: Spinner = field(default_factory=lambda: Spinner("dots"))

    def words(self) -> str:
        """Epoch, epoch time and main metric, as far as they are known."""
        parts = [
            f"epoch {min(self.epoch + 1, self.epochs)}/{self.epochs}" if self.epochs else f"epoch {self.epoch + 1}"
        ]
        if self.epoch_s is not None:
            parts.append(f"{duration(self.epoch_s)} an epoch")
        if self.quality:
            parts.append(self.quality)
        return ", ".join(parts)


class Display:
    """The `ProgressListener` of the command line.

    It only receives events. On a terminal a thread of rich's redraws four times per second, which takes well under 1%
    of a core.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Terminal()
        self._live: Live | None = None
        self._running: dict[str, _Running] = {}
        self._waiting: dict[str, WorkItem] = {}
        self._estimator = Estimator()
        self._ended: set[str] = set()  # without lost trials that are being retried
        self._total = 0
        self._last_line = 0.0
        self._began = time.monotonic()
        self._attempts: Mapping[Key, Attempt] = {}
        self._phase = ""
        self._busy = ""

    def fetch(self, dataset: DataSet, root: Path) -> None:
        """Fetch with a progress bar."""
        fetch_with_progress(dataset, root)

    def begin(self, plan: Plan, todo: Sequence[WorkItem], history: GridHistory) -> None:
        """Show the empty progress bar."""
        self._attempts, self._total = history.attempts, len(todo)
        self._waiting = {work.trial.trial_id: work for work in todo}
        self._estimator = Estimator(history.attempts.values())
        self._began = time.monotonic()
        done_before = len(plan.trials) - len(todo) - sum(bool(trial.cell.skip) for trial in plan.trials)
        headline = f"{plan.spec.name}: {self._total} of {len(plan.trials)} trials to run"
        self._console.print(headline + (f", {done_before} done before" if done_before else ""))
        cuts = smoke_cuts(cell.content for cell in plan.cells)
        for line in (*([plain(cuts)] if cuts else []), *notes(plan)):
            self._console.print(line, style="dim", soft_wrap=True)
        for line in skip_lines(plan):
            self._console.print(line, style="yellow", soft_wrap=True)
        for line in plan_warnings(plan):
            self.warn(line)
        self._phase = "starting"
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            self._live = Live(get_renderable=self._draw, console=self._console, refresh_per_second=4, transient=True)
            self._live.start()

    def end(self, words: str = "") -> None:
        """Show the remaining work; without words, remove the live display."""
        self._phase = words
        if self._live and not words:
            self._live.stop()
            self._live = None

    def checking(self, what: str) -> None:
        """Show the current check until the next event."""
        self._phase = f"checking {what}"

    def event(self, event: Event) -> None:
        """Process an event."""
        trial = event["trial"]
        self._phase = ""
        proof = DecayCheckResult.of(event)
        if proof:
            self._proven(proof)
            return
        if event["event"] == "trial_started":
            self._started(trial, event)
        elif event["event"] == "epoch_ended" and trial in self._running:
            self._epoch(self._running[trial], event)
        elif event["event"] == "trial_ended":
            self._over(trial, event)

    def _proven(self, proof: DecayCheckResult) -> None:
        """Print a line if there is no live display; otherwise only a warning."""
        if not self._live:
            self._line(f"{'checked':<10} {proof.about}: {proof.says}")
        elif proof.warning:
            self.warn(proof.warning)

    def warn(self, words: str) -> None:
        """Print a permanent line."""
        self._console.print(f"warning: {words}", style="yellow", soft_wrap=True)

    def busy(self, words: str) -> None:
        """Show a line in the live display while the machine is busy.

        Without a terminal the first warning suffices.
        """
        self._busy = words

    def _started(self, trial: str, event: Event) -> None:
        self._waiting.pop(trial, None)
        self._ended.discard(trial)
        cell = Cell.from_json(event["cell"])
        running = self._running[trial] = _Running(
            label=str(event.get("label", trial)),
            device=str(cell.device.model),
            epochs=math.ceil(cell.settings.epochs or 0),
            heard=time.monotonic(),
            ahead=self._estimator.seconds(cell),
        )
        self._line(f"started    {running.label}  on {running.device}")

    def _epoch(self, running: _Running, event: Event) -> None:
        ledger = event["ledger"]
        running.epoch = event["epoch"]
        running.epoch_s = sum(ledger.get(name, 0.0) for name in ("compile", "train", "input_wait"))
        running.heard = time.monotonic()
        # Compilation is not repeated in later epochs.
        compilation = ledger.get("compile", 0.0) + ledger.get("compile_evaluate", 0.0)
        epochs_left = running.epochs - running.epoch
        running.ahead = epochs_left * (sum(ledger.values()) - compilation) if running.epochs else None
        metric = main_metric(event["metrics"])
        running.quality = f"{metric} {event['metrics'][metric]:.4f}" if metric else ""
        if time.monotonic() - self._last_line > LINE_EVERY:
            self._line(f"running    {running.label}  {running.words()}")

    def _over(self, trial: str, event: Event) -> None:
        running = self._running.pop(trial, None)
        self._ended.add(trial)
        self._estimator.learn(self._attempts[trial, event["attempt"]])
        label = running.label if running else trial
        error_text = f"  {trouble(event['status'], event['error'])}" if event["error"] else ""
        quality = f"  {running.quality}" if running and running.quality else ""
        wall_text = f"  {duration(event['wall'])}" if event["wall"] else ""
        symbol = MARKS.get(event["status"], "[yellow]![/]")
        line = f"{event['status']:<10} {label}{wall_text}{quality}{error_text}"
        if self._live:
            self._console.print(Text.assemble(Text.from_markup(symbol), " ", line))
        else:
            remaining = f", {self.time_left()}" if self._waiting or self._running else ""
            self._line(f"{line}  ({len(self._ended)}/{self._total}{remaining})")

    def _line(self, text: str) -> None:
        if not self._live:
            self._last_line = time.monotonic()
            self._console.print(text, soft_wrap=True)

    def seconds_left(self) -> float | None:
        """Estimated seconds until the grid is done; None without finished trials of similar cells."""
        estimates = [self._estimator.seconds(work.trial.cell.content) for work in self._waiting.values()]
        known_s = [seconds for seconds in estimates if seconds is not None]
        if self._waiting and not known_s:
            return None
        seconds = sum(known_s) * len(estimates) / max(1, len(known_s))
        now = time.monotonic()
        for running in self._running.values():
            if running.ahead is None:
                return None
            seconds += max(0.0, running.ahead - (now - running.heard))
        return seconds / max(1, len(self._running))

    def time_left(self) -> str:
        """The remaining time of the grid as text."""
        return left(self.seconds_left())

    def _draw(self) -> RenderableType:
        header = Table.grid(padding=(0, 1))
        elapsed = rough(time.monotonic() - self._began)
        partial = sum(running.epoch / running.epochs for running in self._running.values() if running.epochs)
        bar = ProgressBar(total=max(1, self._total), completed=len(self._ended) + partial, width=30)
        remaining = f", {self.time_left()}" if self._waiting or self._running else ""
        header.add_row(bar, f"{len(self._ended)}/{self._total} trials", f"{elapsed} so far{remaining}")
        rows: list[RenderableType] = [header]
        label_width = max((len(running.label) for running in self._running.values()), default=0)
        rows += [self._row(running, label_width) for running in self._running.values()]
        if self._phase:
            rows.append(Text(self._phase, style="dim"))
        if self._busy:
            rows.append(Text(self._busy, style="yellow", no_wrap=True, overflow="ellipsis"))
        return Group(*rows)

    def _row(self, running: _Running, label_width: int) -> Text:
        """One line for one trial.

        The device comes last, since a narrow terminal cuts off the end.
        """
        spinner = running.spinner.render(self._console.get_time())
        assert isinstance(spinner, Text)
        label = (running.label.ljust(label_width), "bold")
        segments = (spinner, " ", label, f"  {running.words()}  ", (running.device, "dim"))
        return Text.assemble(*segments, no_wrap=True, overflow="ellipsis")
