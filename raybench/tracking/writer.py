"""Writing of a grid's attempts to MLflow: live in a thread, or all that is missing at once.

The files of the attempts are the only truth. MLflow has a copy for browsing, which may be late or fail without
affecting the grid.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from shlex import quote
from threading import Event as Flag
from threading import Thread
from typing import TYPE_CHECKING

from raybench.core.events import Event
from raybench.core.secret_masking import HIDDEN
from raybench.results.history import GridHistory
from raybench.results.run_table import Key
from raybench.tracking.store import Store, StoreError, as_argument, redacted_errors

if TYPE_CHECKING:
    from raybench.tracking.mapping import Result
    from raybench.tracking.mlflow import Runs

log = logging.getLogger("raybench")

INTERVAL_S = 10.0  # time between two passes while the grid runs, and between two tries after a failure
MAX_DUTY = 0.1  # maximum share of the interval that a pass takes while the grid runs; the next pass continues it
PATIENCE_S = 60.0  # time that the store may delay the start of a grid, and its end
LAST_TRIES = 3  # failures in a row, at the end, after which the rest is left to the next command
LAST_PAUSE_S = 2.0  # time between two of them

INCOMPLETE = ".mlflow-incomplete"
"""A file in a grid's folder that exists while MLflow may lack something, so a killed driver leaves it there."""


class MlflowWriter:
    """Writes a grid's events to MLflow in a separate thread; it neither blocks a grid nor makes it fail.

    A failing store is tried again, with one message to the user. The files of the attempts have everything: the next
    command writes what is missing. `tell` gets a line as soon as the store fails, `warn` one at the end.
    """

    def __init__(
        self,
        store: Store,
        history: GridHistory,
        warn: Callable[[str], None] = log.warning,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self._store, self._history = store, history
        self._warn, self._tell = warn, tell or warn
        self._pending: dict[Key, None] = {}  # attempts to be written; a dict keeps their order
        self._result: Result | None = None
        self._is_complete = False  # whether the runs of the executions are written
        self._runs: Runs | None = None
        self._failures = 0
        self._opened, self._closing = Flag(), Flag()
        self._give_up = float("inf")
        with suppress(OSError):  # a full disk: the first trial reports it
            (history.folder / INCOMPLETE).touch()
        self._thread = Thread(target=self._work, name="raybench-mlflow", daemon=True)
        self._thread.start()

    def wait_open(self) -> bool:
        """Wait until the store is open or has failed, and return whether it is open; call it before a trial is timed.

        Loading MLflow and creating a new database take seconds of a core.
        """
        self._opened.wait(PATIENCE_S)
        return self._runs is not None

    def put(self, event: Event) -> None:
        """Receive an event that the history already contains; never blocks and never raises."""
        key = event["trial"], event["attempt"]
        if key in self._history.attempts:  # else it is of a check
            self._pending[key] = None

    @property
    def left(self) -> int:
        """Number of runs that are not up to date in MLflow; all, while the store has not answered."""
        pending = self._pending if self._opened.is_set() else self._history.attempts
        return len(pending) + (not self._is_complete)

    def close(
        self, result: Result | None = None, timeout: float = PATIENCE_S, progress: Callable[[int], None] | None = None
    ) -> int:
        """Write all that is left and the execution's result; return the number of runs that could not be written."""
        self._result = result
        self._give_up = time.monotonic() + timeout
        self._closing.set()
        while self._thread.is_alive() and time.monotonic() < self._give_up:
            self._thread.join(0.2)
            if progress:
                progress(self.left)
        # A hanging call cannot be terminated: its daemon thread ends with the process.
        missing = max(self.left, int(self._thread.is_alive()))
        if missing:
            runs = "1 run is" if missing == 1 else f"{missing} runs are"
            self._warn(f"{runs} not up to date in {self._store}; {remedy(self._store, self._history.folder)}")
        else:
            _mark_complete(self._history.folder)
        return missing

    def _work(self) -> None:
        self._try(self._open)
        self._opened.set()
        while not self._closing.wait(INTERVAL_S):
            if self._pending:
                self._try(self._pass)
        last = self._failures + LAST_TRIES
        while self.left and self._failures < last and time.monotonic() < self._give_up:
            self._try(self._pass)
            if self._failures:
                time.sleep(LAST_PAUSE_S)

    def _open(self) -> Runs:
        """Open the store and list its runs; add the attempts that earlier commands have not written."""
        if self._runs is None:
            runs = open_runs(self._store, self._history)
            self._pending |= dict.fromkeys(runs.missing())
            self._runs = runs
        return self._runs

    def _pass(self) -> None:
        """Write pending attempts; one that fails is moved to the end."""
        runs = self._open()
        deadline = self._give_up if self._closing.is_set() else time.monotonic() + INTERVAL_S * MAX_DUTY
        for key in list(self._pending):
            del self._pending[key]  # first, as a further event may come at any time
            try:
                runs.write(key)
            except StoreError:
                self._pending[key] = None
                raise
            if time.monotonic() >= deadline:
                return
        if self._closing.is_set():
            runs.write_executions(self._result)
            self._is_complete = True

    def _try(self, action: Callable[[], object]) -> None:
        try:
            action()
            self._failures = 0
        except StoreError as error:
            self._failures += 1
            self._runs = None  # what it has is not known: a request may have been carried out
            # A single failure is not reported: a server may restart, or two grids may create one store.
            if self._failures == 2:
                self._tell(f"{error}. The grid continues; its results are complete in {self._history.folder}.")


def open_runs(store: Store, history: GridHistory) -> Runs:
    """Load MLflow, which takes seconds, and open the runs of a grid."""
    with redacted_errors(store):
        from raybench.tracking.mlflow import Runs
    return Runs(store, history)


def remedy(store: Store, folder: Path) -> str:
    """The command that brings a store up to date."""
    command, hint = f"raybench export {quote(str(folder))} -o {as_argument(store)}", ""
    if HIDDEN in command:
        hint = f" (with the user and password in place of {HIDDEN})"
    return f"`{command}` writes what is missing{hint}"


def fill(store: Store, history: GridHistory, result: Result | None = None) -> int:
    """Write everything of a grid that a store lacks, and return the number of runs that were incomplete."""
    runs = open_runs(store, history)
    todo = runs.missing()
    for key in todo:
        runs.write(key)
    runs.write_executions(result)
    _mark_complete(history.folder)
    return len(todo)


def is_incomplete(folder: Path) -> bool:
    """Return whether an earlier command could not write everything of a grid."""
    return (folder / INCOMPLETE).is_file()


def catch_up(store: Store, history: GridHistory, warn: Callable[[str], None], result: Result | None = None) -> None:
    """Write what an earlier command could not, if there is anything; `warn` gets a line about a failure."""
    if is_incomplete(history.folder):
        try:
            fill(store, history, result)
        except StoreError as error:
            warn(f"{error}. The results are complete; {remedy(store, history.folder)}.")


def _mark_complete(folder: Path) -> None:
    with suppress(OSError):
        (folder / INCOMPLETE).unlink(missing_ok=True)
