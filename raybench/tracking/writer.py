"""Background writer of MLflow runs; it neither blocks a grid nor makes it fail."""

from __future__ import annotations

import logging
import platform
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from shlex import quote
from threading import Event as Flag
from threading import Thread
from typing import TYPE_CHECKING

from raybench.core.events import Event, events_file
from raybench.results.attempt import Attempt, Key, key_of
from raybench.results.executions import Execution
from raybench.results.folder import attempt_folder
from raybench.results.history import GridHistory
from raybench.tracking.store import Store, StoreError, redacted_errors

if TYPE_CHECKING:
    from raybench.tracking.mlflow import Progress, Runs, StoredRun

log = logging.getLogger("raybench")

INTERVAL_S = 10.0
"""Time between two passes while a trial is timed on this host."""

MAX_DUTY = 0.1
"""Maximum share of the interval that a pass takes while a trial is timed on this host; the next pass continues it."""

IDLE_AFTER_S = 1.0
"""Time after the end of a trial before this host counts as idle: the next one usually starts at once."""

RETRY_BASE_S, MAX_RETRY_S = 2.0, 300.0
"""After n failures of the store in a row, it is tried again after the base to the power of n, at most the maximum."""

WARN_AFTER_S = 30.0
"""Time that the store may take to open before the user is warned; creating a database takes about 5 s."""

PATIENCE_S = 60.0
"""Time that the store may delay the start of a grid, and its end."""

LAST_TRIES = 3
"""Failures in a row, at the end, after which the rest is left to the next command."""

INCOMPLETE = ".mlflow-incomplete"
"""A file in a grid's folder that exists while MLflow may lack something, so a killed driver leaves it there."""


class MlflowWriter:
    """Writes a grid's events to MLflow in a separate thread.

    While a trial runs on this host there is at most one pass per `interval_s`, and a short one; otherwise new events
    are written immediately. A failing store is retried with increasing pauses, with one message to the user. The files
    of the attempts have everything: the next command writes what is missing.

    Args:
        store: the MLflow store.
        grid: the grid's name, which is the experiment's.
        history: the grid's history; what earlier executions did not write is written too.
        execution: this execution.
        warn: gets one line, without secrets, if runs are missing in the store at the end.
        tell: gets one line as soon as a store fails; by default `warn`.
        interval_s: seconds between two passes while a trial runs on this host.
    """

    def __init__(
        self,
        store: Store,
        grid: str,
        history: GridHistory,
        execution: Execution,
        warn: Callable[[str], None] = log.warning,
        tell: Callable[[str], None] | None = None,
        interval_s: float = INTERVAL_S,
    ) -> None:
        self._store, self._grid, self._history, self._interval_s = store, grid, history, interval_s
        self._execution, self._warn, self._tell = execution, warn, tell or warn
        self._queue: SimpleQueue[Event | Path | None] = SimpleQueue()
        self._earlier = list(history.attempts)
        self._pending: dict[Key, None] = {}  # attempts to be written; a dict keeps their order
        self._files: list[Path] = [execution.path(history.folder)]
        self._runs: Runs | None = None
        self._states: dict[str, StoredRun] = {}  # by the UUID of the attempt
        self._states_known = False  # unknown after a failure: a request may have been carried out
        self._running: set[Key] = set()
        self._idle_since = self._last_pass = time.monotonic()
        self._failures, self._retry_at, self._warned = 0, 0.0, False
        self._opened, self._closing = Flag(), Flag()
        self._give_up = float("inf")
        self._host = platform.node()
        with suppress(OSError):  # a full disk: the first trial reports it
            (history.folder / INCOMPLETE).touch()
        self._thread = Thread(target=self._work, name="raybench-mlflow", daemon=True)
        self._thread.start()

    def wait_open(self, timeout: float = PATIENCE_S) -> bool:
        """Wait until the store is open or has failed; call it before a trial is timed.

        Loading MLflow and creating a new database take seconds of a core.

        Returns:
            Whether the store is open.
        """
        if not self._opened.wait(min(WARN_AFTER_S, timeout)) and timeout > WARN_AFTER_S:
            self._tell(
                f"MLflow store {self._store}: no answer for {WARN_AFTER_S:.0f} s; waiting for at most "
                f"{timeout:.0f} s more"
            )
            self._opened.wait(timeout - WARN_AFTER_S)
        return self._runs is not None

    def put(self, event: Event) -> None:
        """Receive an event that the history already contains; never blocks and never raises."""
        self._queue.put(event)

    def put_file(self, file: Path) -> None:
        """Receive a file of this execution, such as its report; never blocks and never raises."""
        self._queue.put(file)

    @property
    def left(self) -> int:
        """Number of runs that are not up to date in MLflow; all, while the store has not answered."""
        pending = self._pending if self._opened.is_set() else self._history.attempts
        return len(pending) + bool(self._files)

    def close(self, timeout: float = PATIENCE_S, progress: Callable[[int], None] | None = None) -> int:
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
            self._warn(f"{runs} not up to date in {self._store}; {remedy(self._store, self._history.folder)}")
        else:
            _mark_complete(self._history.folder)
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
        idle_at = self._idle_since + min(IDLE_AFTER_S, self._interval_s)
        return max(self._last_pass + self._interval_s if self._running else idle_at, self._retry_at)

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

    def _take(self, item: Event | Path | None) -> None:
        if isinstance(item, Path):
            self._files.append(item)
        key = key_of(item) if isinstance(item, dict) else None
        if key is None:
            return
        attempt = self._history.attempts[key]  # later events may be included already
        self._pending[key] = None
        if attempt.host.get("name", self._host) == self._host:
            if attempt.status is None:
                self._running.add(key)
            else:
                self._running.discard(key)
                self._idle_since = time.monotonic()

    def _finish(self) -> None:
        """Write the rest regardless of running trials, until time is up or the store keeps failing."""
        self._running.clear()
        failures = 0
        while self.left and failures < LAST_TRIES and time.monotonic() < self._give_up:
            left_before = self.left
            self._try(self._pass)
            failures = failures + 1 if self.left >= left_before else 0
            if failures and failures < LAST_TRIES:
                time.sleep(RETRY_BASE_S)

    def _open(self) -> Runs:
        """Open the store and list its runs, unless both are done."""
        if self._runs is None:
            # Loads MLflow, which takes seconds, in this thread and only if there is something to write.
            with redacted_errors(self._store):
                from raybench.tracking.mlflow import Runs

            self._runs = Runs(self._store, self._grid)
        if not self._states_known:
            self._states = self._runs.list_runs()
            for key in self._earlier:
                state = self._states.get(str(self._history.attempts[key].run))
                if state is None or not state.ended:
                    self._pending.setdefault(key)
            self._earlier.clear()
            self._states_known = True
        return self._runs

    def _pass(self) -> None:
        """Write pending items; an attempt that fails is moved to the end."""
        runs = self._open()
        self._last_pass = time.monotonic()
        deadline = self._last_pass + self._interval_s * MAX_DUTY if self._running else self._give_up
        for key in list(self._pending):
            try:
                attempt = self._history.snapshot(key)
                state = self._states.get(str(attempt.run))
                self._states[str(attempt.run)] = runs.write(attempt, state, file_of(self._history, attempt))
            except StoreError:
                del self._pending[key]
                self._pending[key] = None
                raise
            del self._pending[key]
            if time.monotonic() >= deadline:
                return
        if self._files and not self._running:
            for earlier in self._history.executions:
                if earlier.name not in {self._execution.name, *runs.executions}:
                    runs.write_execution(earlier, [earlier.path(self._history.folder)])
            runs.write_execution(self._execution, self._files)
            self._files.clear()

    def _try(self, action: Callable[[], object]) -> None:
        try:
            action()
            self._failures, self._retry_at = 0, 0.0
        except StoreError as error:
            self._failures += 1
            self._states_known = False
            self._retry_at = time.monotonic() + min(MAX_RETRY_S, RETRY_BASE_S**self._failures)
            # A single failure is not reported: a server may restart, or two grids may create one store.
            if not self._warned and self._failures > 1:
                self._warned = True
                self._tell(f"{error}. The grid continues; its results are complete in {self._history.folder}.")


def file_of(history: GridHistory, attempt: Attempt) -> Path:
    """The file of an attempt's events."""
    return events_file(attempt_folder(history.folder, attempt.trial, attempt.run))


def remedy(store: Store, folder: Path) -> str:
    """The command that brings a store up to date."""
    return f"`raybench export {quote(str(folder))} -o {quote(str(store))}` writes what is missing"


def fill(store: Store, history: GridHistory, progress: Progress | None = None) -> int:
    """Write everything of a grid that a store lacks, and return the number of runs that were incomplete.

    Args:
        store: the MLflow store.
        history: the grid's history.
        progress: gets the number of attempts done and the total.

    Raises:
        StoreError: the store cannot be reached or used; data written before the error is kept.
    """
    with redacted_errors(store):
        from raybench.tracking.mlflow import Runs

    runs = Runs(store, history.folder.name)
    states = runs.list_runs()
    todo = [
        (attempt, state, file_of(history, attempt))
        for attempt in history.attempts.values()
        if not ((state := states.get(str(attempt.run))) and state.ended)
    ]
    for done, _ in enumerate(runs.write_all(todo), 1):
        if progress:
            progress(done, len(todo))
    for execution in history.executions:
        if execution.name not in runs.executions:
            runs.write_execution(execution, [execution.path(history.folder)])
    _mark_complete(history.folder)
    return len(todo)


def catch_up(store: Store, history: GridHistory, warn: Callable[[str], None]) -> None:
    """Write what an earlier command could not, if there is anything; `warn` gets a line about a failure."""
    if (history.folder / INCOMPLETE).is_file():
        try:
            fill(store, history)
        except StoreError as error:
            warn(f"{error}. The results are complete; {remedy(store, history.folder)}.")


def _mark_complete(folder: Path) -> None:
    with suppress(OSError):
        (folder / INCOMPLETE).unlink(missing_ok=True)
