"""Progress display of a running grid: live on a terminal, else plain lines."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from select import select
from statistics import median
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from raybench.checks import weight_decay
from raybench.checks.pretrial import decay_warning
from raybench.cli.cell_table import hardware_texts, size_text
from raybench.cli.console import Terminal, print_text
from raybench.cli.progress import fetch_with_progress
from raybench.core.cell import Cell
from raybench.core.events import EPOCH_SEEN, ERROR, OUTPUT, Event
from raybench.core.identity import is_smoke
from raybench.core.job import MOST_FRACTION, is_accuracy
from raybench.core.ledger import training_s
from raybench.core.memory import format_bytes
from raybench.core.repeats import Progress
from raybench.core.status import TrialStatus
from raybench.core.text import error_line, flops_text, plural
from raybench.datasets import DataSet
from raybench.execution.progress import ProgressListener
from raybench.monitoring.host import HostLoad
from raybench.planning.estimate import Estimator
from raybench.planning.plan import Plan, PlannedTrial, WorkItem, notes, plan_warnings, request_of, skip_lines
from raybench.planning.resume import done_on_other_machines
from raybench.reporting.words.numbers import rate_number, seconds_text
from raybench.reporting.words.quality import metric_name, metric_text
from raybench.results.folder import attempt_folder
from raybench.results.history import GridHistory
from raybench.results.metrics import main_metric
from raybench.results.run_table import Run, latest

MAX_ERROR_CHARS = 300  # of an error in one line
MAX_COMPARISONS = 6  # whose certainty is shown after a repeat
LINE_INTERVAL_SECONDS = 10.0  # between two lines about epochs without a terminal
MAX_BAR_COLUMNS = 44
ANSWER_WITHIN_S, ASKED_WAIT_S = 20, 600  # for an answer, and for a quiet machine
RECENT = 5  # trials by whose time, against the estimate, the time left is corrected

HEADINGS: Mapping[str | None, str] = {
    TrialStatus.OOM: "Trial ran out of memory",
    TrialStatus.DIVERGED: "Trial diverged",
    TrialStatus.TIMEOUT: "Trial timed out",
    TrialStatus.LOST: "Trial lost",
}
"""Headings of trials without a result, by status; any other status: "Trial failed"."""


def rough(seconds: float) -> str:
    """A duration to whole seconds or minutes, for the display."""
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:,.0f} min"


def trouble(status: str | None, error: Mapping[str, Any]) -> str:
    """The problem of a trial in one line, with its line of code; the phase and amount of an out-of-memory error."""
    is_framework_error = status == TrialStatus.OOM and error.get("type") != "OutOfMemory"
    sizes = format_bytes(error) if is_framework_error else ""
    return error_line({**error, "type": "", "message": sizes} if sizes else error, MAX_ERROR_CHARS)


def after_epochs(attempts: Sequence[Run]) -> str:
    """After how many epochs attempts ended, if they had some, and equally many: ` after 1 epoch`."""
    counts = {len(attempt.epochs) for attempt in attempts}
    return f" after {plural(counts.pop(), 'epoch')}" if len(counts) == 1 and counts != {0} else ""


def quality_text(name: str, value: float) -> str:
    """A metric as text: `accuracy 97.50%`, `loss 0.123`; the validation set's without its name."""
    is_percent = is_accuracy(name) and MOST_FRACTION < value <= 100
    return f"{metric_name(name).removeprefix('val/')} {metric_text(name, value / 100 if is_percent else value)}"


def shown_path(path: Path) -> Path:
    """A path relative to the current folder if it is inside, as the user can copy it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def evidence(folder: Path) -> list[str]:
    """The files with the traceback and the output of an attempt; its folder if it has neither."""
    files = {"Details": folder / ERROR, "Full output": folder / OUTPUT}
    lines = [f"{name}: {shown_path(path)}" for name, path in files.items() if path.is_file() and path.stat().st_size]
    return lines or [f"Files: {shown_path(folder)}"]


@dataclass
class _Running:
    label: str
    epochs: int  # how many there will be; 0 if only the user's own loop knows
    began: float  # on the monotonic clock
    total_s: float | None  # how long it takes, if that is known
    budget: Mapping[str, Any]  # of its cell; empty without one
    spent_s: float = 0.0  # of a budget of time
    epoch: int = 0
    quality: str = ""  # the main metric of the last epoch, such as `accuracy 94.0%`
    epoch_s: float | None = None
    rate: str = ""  # what the last epoch counted per second, such as `41,200 tokens/s`
    spinner: Spinner = field(default_factory=lambda: Spinner("dots"))

    def words(self) -> str:
        """Epoch, its time or rate, and main metric, as far as they are known."""
        parts = []
        if self.epochs:
            parts.append(f"{self.epoch}/{plural(self.epochs, 'epoch')} done")
        elif self.epoch:  # it may be the last, with an evaluation after it
            parts.append(f"{plural(self.epoch, 'epoch')} done")
        if self.rate:
            parts.append(self.rate)
        elif self.epoch_s is not None:
            parts.append(f"{seconds_text(self.epoch_s)}{'/' if self.epoch_s < 300 else ' per '}epoch")
        if self.quality:
            parts.append(self.quality)
        return "   ".join(parts)


class Display(ProgressListener):
    """The listener of the command line.

    It only receives events. On a terminal a thread of rich's redraws four times per second, which takes well under 1%
    of a core.

    Args:
        console: where to show it, by default standard output; downloads are then shown on standard error.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Terminal()
        self._fetch_console = console
        self._live: Live | None = None
        self._plan: Plan | None = None
        self._metric, self._shows_quality = "", True
        self._trials: dict[str, PlannedTrial] = {}
        self._running: dict[str, _Running] = {}
        self._waiting: dict[str, Cell] = {}
        self._estimator = Estimator()
        self._paces: list[float] = []  # seconds of each trial ÷ those estimated before
        self._errors: set[str] = set()  # that were printed, each with its line of code
        self._ended: set[str] = set()  # without lost trials
        self._said: set[tuple[str, bool, bool]] = set()  # comparisons that are settled or out of reach
        self._last_line = 0.0
        self._began = self._phase_began = time.monotonic()
        self._history = GridHistory(Path())
        self._phase = ""
        self._checks: dict[str, None] = {}

    def fetch(self, dataset: DataSet, root: Path) -> None:
        """Fetch with a progress bar."""
        fetch_with_progress(dataset, root, self._fetch_console)

    def begin(self, plan: Plan, todo: Sequence[WorkItem], history: GridHistory, awaited: Collection[str] = ()) -> None:
        """Print the headline, then show what is being started."""
        self._history = history
        self._estimator = Estimator(history.attempts.values())
        self._plan, self._metric, self._shows_quality = plan, request_of(plan).metric, not is_smoke(plan.spec.name)
        self._add(todo)
        self._began = time.monotonic()
        skipped = sum(cell.repeats for cell in plan.cells if cell.skip and cell.profile not in awaited)
        earlier = latest(history.attempts.values()).keys() - self._trials.keys()
        done = sum(trial.trial_id in earlier for trial in plan.trials)
        done_text = f", {done:,} done before" if done else ""
        headline = f"{plan.spec.name}  {size_text(plan)}{done_text}"
        print_text(self._console, "  ·  ".join([headline, *hardware_texts(plan)]))
        print_text(self._console, *notes(plan), style="dim")
        if skipped:
            others = done_on_other_machines(plan, history.attempts.values())
            print_text(self._console, *skip_lines(plan, others, awaited), style="yellow")
            cells = len({work.trial.cell for work in todo})
            print_text(
                self._console, f"Running the other {plural(cells, 'configuration')}: {plural(len(todo), 'trial')}."
            )
        for line in plan_warnings(plan):
            self.warn(line)
        self._show_phase("Starting the first trial")
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            self._live = Live(get_renderable=self._draw, console=self._console, refresh_per_second=4, transient=True)
            self._live.start()
        else:
            self._line(f"{self._phase} …")

    def _add(self, todo: Sequence[WorkItem]) -> None:
        self._trials |= {work.trial.trial_id: work.trial for work in todo}
        self._waiting |= {work.trial.trial_id: work.trial.cell.content for work in todo}

    def more(self, progress: Sequence[Progress], todo: Sequence[WorkItem]) -> None:
        """Say how certain each comparison is, those that need more repeats last, and show the trials that follow."""
        self._add(todo)
        cells = {work.trial.cell.cell_id: work.trial.cell.content for work in todo}
        progress = [each for each in progress if (each.label, each.is_settled, each.is_out_of_reach) not in self._said]
        self._said |= {
            (e.label, e.is_settled, e.is_out_of_reach) for e in progress if e.is_settled or e.is_out_of_reach
        }
        texts = []
        for each in sorted(progress, key=lambda each: not each.is_settled):
            seconds = self._estimator.total_seconds(cells[cell] for cell in each.cells if cell in cells)
            time = rough(seconds * (each.needed - each.tried)) if seconds and each.needed and todo else ""
            texts.append(each.in_words(time))
        hidden = len(texts) - MAX_COMPARISONS
        texts = [f"… {hidden} more", *texts[hidden:]] if hidden > 0 else texts
        if texts:
            print_text(self._console, "; ".join(texts))

    def _label(self, trial: str, with_device: bool = False) -> str:
        if self._plan is None or trial not in self._trials:
            return trial
        return self._plan.label(self._trials[trial], with_device)

    def _show_phase(self, text: str) -> None:
        """Set the current phase; the display shows it with its elapsed time."""
        self._phase, self._phase_began = text, time.monotonic()

    def end(self, words: str = "") -> None:
        """Show the remaining work; without words, remove the live display."""
        self._show_phase(words)
        if self._live and not words:
            self._live.stop()
            self._live = None

    def no_browser(self, address: str) -> None:
        """Print the address of the report."""
        print_text(self._console, f"No browser here; the report, written again after each trial: {address}")

    def stopping(self) -> None:
        """Print what follows Ctrl-C, since ending the trials and Ray takes seconds."""
        print_text(self._console, "Stopping the running trials, then writing the report. Finished trials are kept.")

    def seconds_to_wait(self, load: HostLoad) -> float:
        """Ask on a terminal; without an answer the grid begins, as nobody may be there."""
        if not (self._console.is_terminal and sys.stdin.isatty()):
            return 0.0
        question = (
            f"Other programs use {load}, which makes times longer. Wait for at most {ASKED_WAIT_S // 60} min? [y/N]"
        )
        print_text(self._console, f"{question} (it begins in {ANSWER_WITHIN_S} s without an answer)")
        answered, _, _ = select([sys.stdin], [], [], ANSWER_WITHIN_S)
        return ASKED_WAIT_S if answered and sys.stdin.readline().strip().lower() in ("y", "yes") else 0.0

    def waiting(self, what: str) -> None:
        """Print what is awaited, and show it until the next event."""
        print_text(self._console, f"{time.strftime('%H:%M:%S')}  {what}", style="dim")
        self._show_phase(what)

    def checking(self, what: str) -> None:
        """Show the current check until the next event."""
        self._show_phase(f"Checking {what}")

    def event(self, event: Event) -> None:
        """Process an event."""
        trial = event["trial"]
        self._phase = ""
        if event["event"] == "check_ended":
            self._check_ended(event)
        elif event["event"] == "trial_started":
            self._started(trial, event)
        elif event["event"] in ("epoch_ended", EPOCH_SEEN) and trial in self._running:
            self._epoch(self._running[trial], event)
        elif event["event"] == "trial_ended":
            self._over(trial, event)

    def _check_ended(self, event: Event) -> None:
        """Keep a result for the line about checks; print a failed check at once."""
        if event["check"] == weight_decay.NAME and not event.get("passed"):
            self.warn(decay_warning(event))
        elif event["check"] == weight_decay.NAME:
            self._checks["weight decay ok"] = None
        elif "probes" in event:
            rate, name = max((event["probes"][name], name) for name in ("product", "convolution"))
            self._checks[f"peak {flops_text(rate)} ({name}) on {event['subject']['device']['kind']}"] = None

    def _show_checks(self) -> None:
        """Print the results of the checks since the last call in one line."""
        if self._checks:
            print_text(self._console, f"Checks: {' · '.join(self._checks)}")
        self._checks = {}

    def warn(self, words: str) -> None:
        """Print a permanent line."""
        print_text(self._console, f"warning: {words}", style="yellow")

    def _started(self, trial: str, event: Event) -> None:
        self._show_checks()
        self._waiting.pop(trial, None)
        self._ended.discard(trial)
        cell = Cell.from_json(event["cell"])
        running = self._running[trial] = _Running(
            label=self._label(trial),
            epochs=math.ceil(cell.settings.epochs or 0),
            began=time.monotonic(),
            total_s=self._estimator.seconds(cell),
            budget=cell.budget or {},
        )
        self._line(f"started    {running.label}")

    def _epoch(self, running: _Running, event: Event) -> None:
        ledger = event["ledger"]
        running.epoch = event["epoch"]
        running.epoch_s = training_s(ledger)
        trained = running.epoch_s - ledger.get("compile", 0.0)
        units = event.get("units", {}) if trained > 0 else {}
        running.rate = next((f"{rate_number(count / trained)} {unit}/s" for unit, count in units.items()), "")
        left = running.epochs - running.epoch if running.epochs else math.inf
        if "seconds" in running.budget and trained > 0:
            running.spent_s += running.epoch_s if running.budget.get("compile", True) else trained
            left = min(left, max(0.0, running.budget["seconds"] - running.spent_s) / trained)
        if math.isfinite(left):
            # Compilation is not repeated in later epochs.
            epoch_s = sum(seconds for name, seconds in ledger.items() if not name.startswith("compile"))
            running.total_s = time.monotonic() - running.began + left * epoch_s
        metric = main_metric(event["metrics"], self._metric)
        running.quality = quality_text(metric, event["metrics"][metric]) if metric and self._shows_quality else ""
        if time.monotonic() - self._last_line > LINE_INTERVAL_SECONDS:
            self._line(f"running    {running.label}   {running.words()}")

    def _over(self, trial: str, event: Event) -> None:
        running = self._running.pop(trial, None)
        if event["status"] != TrialStatus.LOST:  # it runs again, now or by the same command
            self._ended.add(trial)
        attempt = self._history.attempts[trial, event["attempt"]]
        expected_s = self._estimator.seconds(attempt.cell) if attempt.status == TrialStatus.COMPLETED else None
        if expected_s and attempt.ledger:
            self._paces.append(sum(attempt.ledger.values()) / expected_s)
        self._estimator.learn(attempt)
        remaining = f", {self.time_left()}" if self._waiting or self._running else ""
        count = f"   ({len(self._ended)}/{len(self._trials)}{remaining})"
        if event["status"] == TrialStatus.KILLED:  # by Ctrl-C
            return
        if event["status"] != TrialStatus.COMPLETED:
            self._show_failure(trial, event, "" if self._live else count)
            return
        parts = [running.label if running else trial]
        parts += [f"took {seconds_text(event['wall'])}"] if event["wall"] else []
        parts += [running.quality] if running and running.quality else []
        self._line(f"completed  {'   '.join(parts)}{count}")

    def _show_failure(self, trial: str, event: Event, count: str) -> None:
        """Print a trial without a result: which one, the error, and where its output is."""
        self._last_line = time.monotonic()
        heading = HEADINGS.get(event["status"], "Trial failed")
        attempt = self._history.attempts[trial, event["attempt"]]
        lines = [f"{heading}{after_epochs([attempt])}: {self._label(trial, with_device=True)}{count}"]
        error = event["error"] or {}
        if error:
            lines.append(f"  {trouble(event['status'], error)}")
        if error and lines[1] in self._errors:
            lines = [f"{heading}: {self._label(trial, with_device=True)}: the same error{count}"]
        else:
            self._errors.update(lines[1:])
            folder = attempt_folder(self._history.folder, trial, attempt.run)
            lines += [f"  {line}" for line in evidence(folder)]
        print_text(self._console, *lines, style="red" if event["status"] == TrialStatus.FAILED else "yellow")

    def _line(self, text: str) -> None:
        if not self._live:
            self._last_line = time.monotonic()
            print_text(self._console, text)

    def seconds_left(self) -> float | None:
        """Estimated seconds until the grid is done; None without finished trials of similar cells."""
        seconds = self._estimator.total_seconds(self._waiting.values())
        if seconds is None:
            return None
        seconds *= median(self._paces[-RECENT:] or [1.0])  # a machine can be busier than in earlier trials
        now = time.monotonic()
        for running in self._running.values():
            if running.total_s is None:
                return None
            seconds += max(0.0, running.began + running.total_s - now)
        return seconds / max(1, len(self._running))

    def time_left(self) -> str:
        """The remaining time of the grid as text, with the precision of an estimate."""
        seconds = self.seconds_left()
        known = "" if seconds is None else "nearly done" if seconds < 0.5 else f"about {rough(seconds)} left"
        return known or "time left not known yet"

    def _draw(self) -> RenderableType:
        rows: list[RenderableType] = []
        if self._running or self._ended:
            rows.append(self._bar())
        label_width = max((len(running.label) for running in self._running.values()), default=0)
        rows += [self._row(running, label_width) for running in self._running.values()]
        if self._phase:
            elapsed = f" … {time.monotonic() - self._phase_began:.0f} s"
            rows.append(Text(self._phase + elapsed, no_wrap=True, overflow="ellipsis"))
        return Group(*rows)

    def _bar(self) -> RenderableType:
        """The progress bar with the number of trials, and the time left or so far."""
        partial = sum(running.epoch / running.epochs for running in self._running.values() if running.epochs)
        words = f"{len(self._ended)}/{len(self._trials)} trials"
        if not self._ended or self.seconds_left() is None or not (self._waiting or self._running):
            words += f"  {rough(time.monotonic() - self._began)} so far"
        else:
            words += f"  {self.time_left()}"
        width = max(4, min(MAX_BAR_COLUMNS, self._console.width - len(words) - 2))
        bar = ProgressBar(total=max(1, len(self._trials)), completed=len(self._ended) + partial, width=width)
        line = Table.grid(padding=(0, 2, 0, 0))
        line.add_row(bar, Text(words, no_wrap=True, overflow="ellipsis"))
        return line

    def _row(self, running: _Running, label_width: int) -> Text:
        """One line for one trial; a narrow terminal cuts off its end."""
        spinner = running.spinner.render(self._console.get_time())
        assert isinstance(spinner, Text)
        label = (running.label.ljust(label_width), "bold")
        return Text.assemble(spinner, " ", label, f"   {running.words()}", no_wrap=True, overflow="ellipsis")
