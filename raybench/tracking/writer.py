"""The background writer: events in, MLflow runs out, and a grid never waits for it nor fails with it."""

from __future__ import annotations

import logging
import platform
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from queue import Empty, SimpleQueue
from shlex import quote
from threading import Event as Flag
from threading import Thread
from typing import TYPE_CHECKING

from raybench.analysis.results import Attempt, Key, fold
from raybench.tracking import behind
from raybench.tracking.abandoned import HEARTBEAT, STALE
from raybench.tracking.executions import recall
from raybench.tracking.journal import attempt_folder
from raybench.tracking.projection import Summary, attempt_id, is_told_apart
from raybench.tracking.store import Store, StoreError, flags
from raybench.trial import events
from raybench.trial.events import Event

if TYPE_CHECKING:
    from raybench.tracking.found import Found, Run
    from raybench.tracking.mlflow import Runs

log = logging.getLogger("raybench")

INTERVAL = 10.0
"""Seconds between two passes while a trial is timed on this host."""

SHARE = 0.1
"""Of the interval that a pass may take while a trial is timed on this host; the rest is left for the next."""

BREATH = 1.0
"""Seconds after the end of a trial before this host counts as idle: the next one usually starts at once."""

PAUSE = 2.0
"""Seconds from a failure of the store to the next try; after a second one in a row its square, and so on."""

LONGEST_PAUSE = 300.0
"""Seconds between two tries of a store that fails, at most."""

PATIENCE = 60.0
"""Seconds that the store may hold up the beginning of a grid, and its end."""

LAST_TRIES = 3
"""Failures in a row, at the end, after which what is left is left to `raybench sync`."""

Progress = Callable[[int], None]


class MlflowWriter:
    """Writes what a grid's events tell to MLflow, from a thread of its own.

    While a trial runs on this host there is at most one pass in `interval` seconds, and a short one; else what is new
    is written at once. A store that fails is tried again after ever longer pauses, and the person is told once. What
    did not get there is in the journal: `raybench sync` brings it.

    Args:
        store: where to.
        grid: the grid's name, which is the experiment's.
        folder: the grid's folder, with its trials' files.
        earlier: attempts of earlier executions; those that MLflow lacks, or shows as running still, are written too.
        execution: the name of the one that writes; its run is there from the beginning, and shows that it goes on.
        executions: the events of earlier ones that came to their end; those that MLflow lacks are written too.
        interval: seconds between two passes while a trial runs on this host.
        warn: gets the one line about what is not in the store at the end; it holds nothing secret.
        tell: gets the one line about a store that fails, when it does; by default `warn`.
    """

    def __init__(
        self,
        store: Store,
        grid: str,
        folder: Path,
        earlier: Iterable[Attempt] = (),
        execution: str = "",
        executions: Iterable[Event] = (),
        interval: float = INTERVAL,
        warn: Callable[[str], None] = log.warning,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self._store, self._grid, self._folder, self._interval = store, grid, folder, interval
        self._warn, self._tell = warn, tell or warn
        self._earlier = [attempt for attempt in earlier if attempt.status not in (None, events.SKIPPED)]
        self._execution, self._executions = execution, list(executions)
        self._queue: SimpleQueue[Event | Summary | None] = SimpleQueue()
        self._attempts: dict[Key, Attempt] = {}
        self._stale: dict[Key, None] = {}  # what is to be written; a dict, for its order
        self._summaries: list[Summary] = []
        self._runs: Runs | None = None
        self._known: dict[str, Run] = {}  # by what tells their attempts apart
        self._written: set[Key] = set()  # whose runs are complete
        self._sure = False  # whether `_known` is what MLflow has
        self._beat_at, self._beaten = 0.0, time.time()
        self._running: set[Key] = set()
        self._idle_since = self._last_pass = time.monotonic()
        self._failures, self._retry_at, self._warned = 0, 0.0, False
        self._first, self._summarised = True, False
        self._opened, self._closing = Flag(), Flag()
        self._give_up = float("inf")
        self._host = platform.node()
        behind.mark(folder)
        self._thread = Thread(target=self._work, name="raybench-mlflow", daemon=True)
        self._thread.start()

    def wait_open(self, timeout: float = PATIENCE) -> bool:
        """Wait until the store and the experiment are there, or cannot be had for now; do so before a trial is timed.

        Loading MLflow and making a new database take seconds of a core.
        """
        self._opened.wait(timeout)
        return self._runs is not None

    def put(self, event: Event) -> None:
        """Take an event; never waits and never raises."""
        self._queue.put(event)

    def put_summary(self, summary: Summary) -> None:
        """Take the run of the whole execution; never waits and never raises."""
        self._queue.put(summary)

    @property
    def left(self) -> int:
        """How many runs are not in MLflow as the journal has them."""
        return len(self._stale) + len(self._summaries)

    def close(self, timeout: float = PATIENCE, progress: Progress | None = None) -> int:
        """Write everything that is left, and end.

        Args:
            timeout: seconds after which it is given up.
            progress: gets the number of runs left, a few times a second.

        Returns:
            How many runs could not be written; the person has been told of them.
        """
        self._give_up = time.monotonic() + timeout
        if not self._closing.is_set():
            self._closing.set()
            self._queue.put(None)
        while self._thread.is_alive() and time.monotonic() < self._give_up:
            self._thread.join(0.2)
            if progress:
                progress(self.left)
        # A call that hangs cannot be ended: its daemon thread ends with the process.
        left = max(self.left, int(self._thread.is_alive()))
        if left:
            runs = "1 run is" if left == 1 else f"{left} runs are"
            mends = f"raybench sync{flags(self._store, self._folder.parent)} {quote(self._grid)}"
            self._warn(f"{runs} not up to date in {self._store}: `{mends}` brings what is missing")
        else:
            behind.clear(self._folder)
        return left

    def _work(self) -> None:
        self._try(self._look)
        self._last_pass = time.monotonic()
        self._opened.set()
        while True:
            self._take()
            if self._closing.is_set() and self._queue.empty():
                self._finish()
                return
            if self.left and time.monotonic() >= self._due():
                self._try(self._pass)
            if self._sure and time.monotonic() >= self._beat_at:
                self._try(self._beat)

    def _due(self) -> float:
        """When the next pass may begin."""
        calm = self._last_pass + self._interval if self._running else self._idle_since + min(BREATH, self._interval)
        return max(calm, self._retry_at)

    def _take(self) -> None:
        """Take in what has come; wait for more, but not beyond the moment of the next pass."""
        ahead = ([self._due()] if self.left else []) + ([self._beat_at] if self._sure else [])
        pause = max(0.0, min(ahead) - time.monotonic()) if ahead else None
        try:
            if not (self._closing.is_set() and self._queue.empty()):
                self._sort(self._queue.get(timeout=pause))
            while True:
                self._sort(self._queue.get_nowait())
        except Empty:
            return

    def _sort(self, item: Event | Summary | None) -> None:
        if item is None:
            return
        if not isinstance(item, dict):
            self._summaries.append(item)
            return
        attempt = fold(self._attempts, item)
        if attempt is None:
            return
        # A trial that was skipped never ran and has no run; one whose run is complete stays as it is.
        if attempt.status == events.SKIPPED or attempt.key in self._written:
            del self._attempts[attempt.key]
            return
        if not is_told_apart(attempt):
            return
        self._stale[attempt.key] = None
        if attempt.status is None and attempt.host.get("name", self._host) == self._host:
            self._running.add(attempt.key)
        elif attempt.key in self._running:
            self._running.remove(attempt.key)
            self._idle_since = time.monotonic()

    def _finish(self) -> None:
        """Write what is left without regard for trials, until nothing is left, time is up, or nothing works."""
        self._running.clear()
        in_vain = 0
        while self.left and in_vain < LAST_TRIES and time.monotonic() < self._give_up:
            before = self.left
            self._try(self._pass)
            in_vain = in_vain + 1 if self.left >= before else 0
            if in_vain and in_vain < LAST_TRIES:
                time.sleep(PAUSE)
        if self._sure and not self._summarised and self._runs:
            self._try(self._runs.execution.give_up)

    def _look(self) -> None:
        """Open the store, and see what is there."""
        if self._runs is None:
            # Loads MLflow: seconds, in this thread, and only where it is written to.
            from raybench.tracking.mlflow import Runs

            self._runs = Runs(self._store, self._grid, self._execution)
        if not self._sure:
            found = self._runs.find()
            self._known = found.runs
            if self._first:
                self._begin(self._runs, found)
                self._first = False
            self._sure = True

    def _begin(self, runs: Runs, found: Found) -> None:
        """Say who writes, and make up for what drivers that went away have left."""
        runs.execution.begin()
        known = {attempt_id(attempt): attempt for attempt in self._earlier}
        runs.execution.close_abandoned(found, known.keys())
        for name, attempt in known.items():
            if name not in found.runs or not found.runs[name].ended or found.runs[name].doubles:
                self._attempts.setdefault(attempt.key, attempt)
                self._stale.setdefault(attempt.key)
        lacking = [event for event in self._executions if event.get("execution") not in found.executions]
        self._summaries[:0] = [summary for event in lacking if (summary := recall(self._folder, event))]
        self._earlier.clear()
        self._executions.clear()
        self._beat_at = time.monotonic() + HEARTBEAT

    def _beat(self) -> None:
        """Show that this execution goes on; where that is late, another driver may have taken it for gone."""
        if time.time() - self._beaten > STALE:
            self._sure = False
        self._look()
        assert self._runs is not None
        self._beat_at = time.monotonic() + HEARTBEAT
        self._runs.execution.beat()
        self._beaten = time.time()

    def _pass(self) -> None:
        """Write what is to be written; an attempt that cannot be goes behind the others."""
        self._look()
        assert self._runs is not None
        self._last_pass = time.monotonic()
        end = self._last_pass + self._interval * SHARE if self._running else self._give_up
        for key in list(self._stale):
            try:
                folder = attempt_folder(self._folder, *key)
                attempt = self._attempts[key]
                name = attempt_id(attempt)
                self._known[name] = self._runs.write(attempt, self._known.get(name), folder)
            except StoreError:
                del self._stale[key]
                self._stale[key] = None
                raise
            del self._stale[key]
            if self._known[name].ended:
                self._written.add(key)
                del self._attempts[key]
            if time.monotonic() >= end:
                return
        while self._summaries and not self._running:
            self._runs.execution.write_summary(self._summaries[0])
            self._summarised = self._summaries.pop(0).execution == self._execution

    def _try(self, work: Callable[[], None]) -> None:
        try:
            work()
            self._failures, self._retry_at = 0, 0.0
        except StoreError as error:
            self._failures += 1
            self._sure = False
            self._retry_at = time.monotonic() + min(LONGEST_PAUSE, PAUSE**self._failures)
            # Once is nothing: a server that is started again, or two grids that make one store.
            if not self._warned and self._failures > 1:
                self._warned = True
                self._tell(f"{error}. The grid goes on: everything is in the journal.")
