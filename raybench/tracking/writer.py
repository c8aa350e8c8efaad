"""Background writer of MLflow runs; it neither blocks a grid nor makes it fail."""

from __future__ import annotations

import logging
import platform
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from shlex import quote
from threading import Event as Flag
from threading import Thread
from typing import TYPE_CHECKING

from raybench.core.events import Event
from raybench.core.status import TrialStatus
from raybench.results.attempt import Key, key_of
from raybench.results.executions import ENDED, Summary, read_execution
from raybench.results.history import GridHistory
from raybench.results.journal import attempt_folder
from raybench.tracking import sync
from raybench.tracking.mapping import attempt_id, is_identifiable
from raybench.tracking.store import Store, StoreError, cli_flags, redacted_errors

if TYPE_CHECKING:
    from raybench.tracking.mlflow import Listing, Runs, StoredRun

log = logging.getLogger("raybench")

INTERVAL = 10.0
"""Seconds between two passes while a trial is timed on this host."""

SHARE = 0.1
"""Maximum share of the interval that a pass takes while a trial is timed on this host; the next pass continues it."""

BREATH = 1.0
"""Seconds after the end of a trial before this host counts as idle: the next one usually starts at once."""

JOURNAL_INTERVAL = 300.0
"""Seconds between two uploads of new journal lines."""

PAUSE = 2.0
"""Seconds from a failure of the store to the next attempt; after n failures in a row, this to the power of n."""

LONGEST_PAUSE = 300.0
"""Maximum seconds between two attempts on a failing store."""

QUIET = 30.0
"""Seconds that the store may take to open before the user is warned; creating a database takes about 5 s."""

PATIENCE = 60.0
"""Seconds that the store may delay the start of a grid, and its end."""

LAST_TRIES = 3
"""Failures in a row, at the end, after which the rest is left to `raybench sync`."""

Progress = Callable[[int], None]

_Note = tuple[Key | None, str]
"""The attempt and the kind of an event: a slow store must not keep the events themselves in memory."""


class MlflowWriter:
    """Writes a grid's events to MLflow in a separate thread.

    While a trial runs on this host there is at most one pass per `interval` seconds, and a short one; otherwise new
    events are written immediately. A failing store is retried with increasing pauses, with one message to the user. The
    journal has everything that was not written: `raybench sync` writes it.

    Args:
        store: the MLflow store.
        grid: the grid's name, which is the experiment's.
        history: the grid's history, with the trials' files next to its journal; missing data of earlier executions is
            written too.
        execution: the name of this execution.
        interval: seconds between two passes while a trial runs on this host.
        warn: gets one line, without secrets, if runs are missing in the store at the end.
        tell: gets one line as soon as a store fails; by default `warn`.
    """

    def __init__(
        self,
        store: Store,
        grid: str,
        history: GridHistory,
        execution: str,
        interval: float = INTERVAL,
        warn: Callable[[str], None] = log.warning,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self._store, self._grid, self._history, self._interval = store, grid, history, interval
        self._execution, self._warn, self._tell = execution, warn, tell or warn
        self._earlier = [
            key for key, attempt in history.attempts.items() if attempt.status not in (None, TrialStatus.SKIPPED)
        ]
        self._executions = history.of_kind(ENDED)
        self._queue: SimpleQueue[_Note | Summary | None] = SimpleQueue()
        self._pending: dict[Key, None] = {}  # attempts to be written; a dict keeps their order
        self._summaries: list[Summary] = []
        self._runs: Runs | None = None
        self._states: dict[str, StoredRun] = {}  # by `attempt_id`
        self._states_valid = False  # unknown after a failure: a request may have been carried out
        self._journal_behind, self._journal_due = True, 0.0
        self._ended = False  # whether the execution has its summary
        self._complete: set[Key] = set()
        self._running: set[Key] = set()
        self._idle_since = self._last_pass = time.monotonic()
        self._failures, self._retry_at, self._warned = 0, 0.0, False
        self._opened, self._closing = Flag(), Flag()
        self._give_up = float("inf")
        self._host = platform.node()
        sync.mark_incomplete(history.folder)
        self._thread = Thread(target=self._work, name="raybench-mlflow", daemon=True)
        self._thread.start()

    def wait_open(self, timeout: float = PATIENCE) -> bool:
        """Wait until the store is open or has failed; call it before a trial is timed.

        Loading MLflow and creating a new database take seconds of a core.

        Returns:
            Whether the store is open.
        """
        if not self._opened.wait(min(QUIET, timeout)) and timeout > QUIET:
            self._tell(
                f"MLflow store {self._store}: no answer for {QUIET:.0f} s; waiting for at most {timeout:.0f} s more"
            )
            self._opened.wait(timeout - QUIET)
        return self._runs is not None

    def put(self, event: Event) -> None:
        """Receive an event that the history already contains; never blocks and never raises."""
        self._queue.put((key_of(event), event["event"]))

    def put_summary(self, summary: Summary) -> None:
        """Receive the summary of this execution; never blocks and never raises."""
        self._queue.put(summary)

    @property
    def left(self) -> int:
        """Number of runs that are not up to date in MLflow."""
        has_lines_left = self._journal_behind and self._history.path.is_file()
        return len(self._pending) + max(len(self._summaries), int(has_lines_left))

    @property
    def _ending(self) -> set[str]:
        """The executions whose summary will be written."""
        return {summary.execution for summary in self._summaries}

    def close(self, timeout: float = PATIENCE, progress: Progress | None = None) -> int:
        """Write all remaining data and stop the thread.

        Args:
            timeout: seconds after which the rest is abandoned.
            progress: gets the number of runs left, a few times per second.

        Returns:
            Number of runs that could not be written; `warn` has received a line about them.
        """
        self._give_up = time.monotonic() + timeout
        if not self._closing.is_set():
            self._closing.set()
            self._queue.put(None)
        while self._thread.is_alive() and time.monotonic() < self._give_up:
            self._thread.join(0.2)
            if progress:
                progress(self.left)
        # A hanging call cannot be terminated: its daemon thread ends with the process.
        left = max(self.left, int(self._thread.is_alive()))
        if left:
            runs = "1 run is" if left == 1 else f"{left} runs are"
            command = f"raybench sync{cli_flags(self._store, self._history.folder.parent)} {quote(self._grid)}"
            self._warn(f"{runs} not up to date in {self._store}; run `{command}`")
        else:
            sync.mark_complete(self._history.folder)
        return left

    def _work(self) -> None:
        self._try(self._open)
        self._last_pass = time.monotonic()
        self._opened.set()
        while True:
            self._receive()
            if self._closing.is_set() and self._queue.empty():
                self._finish()
                return
            if self.left and time.monotonic() >= self._due():
                self._try(self._pass)

    def _due(self) -> float:
        """Time of the next pass, on the monotonic clock."""
        due_at = self._last_pass + self._interval if self._running else self._idle_since + min(BREATH, self._interval)
        if not self._pending and not self._summaries:
            due_at = max(due_at, self._journal_due)
        return max(due_at, self._retry_at)

    def _receive(self) -> None:
        """Process received items; if there are none, wait at most until the next pass."""
        timeout = max(0.0, self._due() - time.monotonic()) if self.left else None
        try:
            if not (self._closing.is_set() and self._queue.empty()):
                self._take(self._queue.get(timeout=timeout))
            while True:
                self._take(self._queue.get_nowait())
        except Empty:
            return

    def _take(self, item: _Note | Summary | None) -> None:
        if item is None:
            return
        self._journal_behind = True
        if isinstance(item, Summary):
            self._summaries.append(item)
            self._ended = True
            return
        key, kind = item
        if key is None or kind == "trial_skipped":  # a skipped trial never ran and has no run
            return
        attempt = self._history.attempts[key]  # later events may be included already
        if not is_identifiable(attempt):
            return
        if key not in self._complete:  # a complete run is not changed
            self._pending[key] = None
        if attempt.host.get("name", self._host) == self._host:
            if attempt.status is None:
                self._running.add(key)
            elif kind == "trial_ended":
                self._running.discard(key)
                self._idle_since = time.monotonic()

    def _finish(self) -> None:
        """Write the rest regardless of running trials.

        It ends when all is written, time is up, or the store keeps failing.
        """
        self._running.clear()
        self._journal_due = 0.0
        failures = 0
        while self.left and failures < LAST_TRIES and time.monotonic() < self._give_up:
            left_before = self.left
            self._try(self._pass)
            failures = failures + 1 if self.left >= left_before else 0
            if failures and failures < LAST_TRIES:
                time.sleep(PAUSE)
        if not self._ended and not self.left:
            self._try(lambda: self._open().end_execution(self._execution))
            self._journal_behind = self._failures > 0

    def _open(self) -> Runs:
        """Open the store and list its runs, unless both are done."""
        if self._runs is None:
            # Loads MLflow, which takes seconds, in this thread and only if there is something to write.
            with redacted_errors(self._store):
                from raybench.tracking.mlflow import Runs

            self._runs = Runs(self._store, self._grid, self._history.path)
        if not self._states_valid:
            listing = self._runs.list_runs()
            self._add_earlier(listing)
            pending = {attempt_id(self._history.attempts[key]) for key in self._pending}
            # A large grid has many thousands of others, which need nothing more.
            self._states = {name: run for name, run in listing.runs.items() if not run.ended or name in pending}
            self._runs.open_journal(self._execution, self._ending)
            self._states_valid = True
        return self._runs

    def _add_earlier(self, listing: Listing) -> None:
        """Add what earlier executions did not write, such as a missing end."""
        for key in self._earlier:
            run = listing.runs.get(attempt_id(self._history.attempts[key]))
            if run is None or not run.ended or run.duplicates:
                self._pending.setdefault(key)
        missing = [event for event in self._executions if event.get("execution") not in listing.executions]
        self._summaries[:0] = [summary for event in missing if (summary := read_execution(self._history.folder, event))]
        self._earlier.clear()
        self._executions.clear()

    def _pass(self) -> None:
        """Write pending items; an attempt that fails is moved to the end."""
        runs = self._open()
        self._last_pass = time.monotonic()
        deadline = self._last_pass + self._interval * SHARE if self._running else self._give_up
        for key in list(self._pending):
            try:
                attempt = self._history.snapshot(key)
                name = attempt_id(attempt)
                state = runs.write(attempt, self._states.get(name), attempt_folder(self._history.folder, *key))
                self._states[name] = state
                if state.ended:
                    self._complete.add(key)
                    del self._states[name]
            except StoreError:
                del self._pending[key]
                self._pending[key] = None
                raise
            del self._pending[key]
            if time.monotonic() >= deadline:
                return
        # The run of an ended execution must have its whole journal.
        is_final = bool(self._summaries) and not self._running
        if self._journal_behind and (is_final or self._last_pass >= self._journal_due):
            self._journal_behind = False  # events that arrive meanwhile are read by the next pass
            try:
                for _ in runs.add_journal(self._execution, self._ending):
                    if time.monotonic() >= deadline:
                        self._journal_behind = True
                        return
            except StoreError:
                self._journal_behind = True
                raise
            self._journal_due = time.monotonic() + JOURNAL_INTERVAL
        while self._summaries and not self._running:
            runs.write_summary(self._summaries[0], is_latest=len(self._summaries) == 1)
            del self._summaries[0]

    def _try(self, action: Callable[[], object]) -> None:
        try:
            action()
            self._failures, self._retry_at = 0, 0.0
        except StoreError as error:
            self._failures += 1
            self._states_valid = False
            self._retry_at = time.monotonic() + min(LONGEST_PAUSE, PAUSE**self._failures)
            # A single failure is not reported: a server may restart, or two grids may create one store.
            if not self._warned and self._failures > 1:
                self._warned = True
                self._tell(f"{error}. The grid continues; the journal is complete.")
