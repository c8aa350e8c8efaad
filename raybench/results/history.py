"""Attempts, checks and executions of a grid: read from its files, and updated while it runs."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from threading import Lock
from typing import Any, Self

from raybench.core import events
from raybench.core.cell import Cell
from raybench.core.events import Event, to_json
from raybench.core.status import TrialStatus
from raybench.core.text import plural
from raybench.errors import UsageError
from raybench.results.attempt_file import decoded, run_in, take
from raybench.results.epochs import Epochs
from raybench.results.executions import Execution, in_order
from raybench.results.folder import (
    ATTEMPTS,
    CHECKS,
    EXECUTIONS,
    add_event,
    attempt_folder,
    continues,
    event_files,
    execution_files,
    read_events,
)
from raybench.results.grid_request import GridRequest
from raybench.results.run_table import Key, Run

LOST = {"type": "Lost", "message": "its driver ended before it did"}


class GridHistory:
    """What is known of a grid.

    One thread adds events with `take`; other threads may read attempts with `snapshot`.

    Args:
        folder: the grid's folder; it may be missing.

    Attributes:
        attempts: by trial and number, those of a trial in the order of their starts.
        checks: the `check_ended` events, in order.
        executions: the first one first.
        unreadable: the files of executions whose requests cannot be read, and those that are missing.
        damaged: the places of what is left out: damaged lines, and files in the folder of a different trial.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.attempts: dict[Key, Run] = {}
        self.checks: list[Event] = []
        self.executions: list[Execution] = []
        self.unreadable: list[str] = []
        self.damaged: list[str] = []
        self._lock = Lock()

    @classmethod
    def read(cls, *folders: Path) -> Self:
        """Read the folders of one grid, such as those of several machines.

        An attempt without an end has the status None: it still runs, or was lost.

        Raises:
            UsageError: a file cannot be read, or two files of one run differ.
        """
        history, is_collecting = cls(folders[0]), gc.isenabled()
        gc.disable()  # it would look through all that was read again and again, for a quarter of the time
        try:
            history.attempts = _numbered(_read_attempts(folders, history.damaged))
            checks = (event for path in _paths(folders, CHECKS) for event in read_events(path, history.damaged))
            history.checks = sorted(
                (event for event in checks if event["event"] == "check_ended"), key=lambda event: str(event.get("t"))
            )
            history._read_executions(folders)
        except OSError as error:
            raise UsageError(f"{error.filename}: cannot be read: {error.strerror or error}") from None
        finally:
            if is_collecting:
                gc.enable()
        return history

    def _read_executions(self, folders: Sequence[Path]) -> None:
        paths = {path.name: path for folder in reversed(folders) for path in execution_files(folder)}
        for path in paths.values():
            execution = Execution.read(path)
            if execution and GridRequest.from_json(execution.request):
                self.executions.append(execution)
            else:
                self.unreadable.append(str(path))
        self.executions = in_order(self.executions)
        named = {run.execution for run in self.attempts.values() if run.execution}
        missing = {f"{name}.json" for name in named} - {*paths}
        if self.attempts and not paths and not missing:
            missing = {"*.json"}
        self.unreadable += [str(folders[0] / EXECUTIONS / name) for name in sorted(missing)]
        self.damaged += self.unreadable

    def close_lost(self) -> None:
        """Mark attempts without an end as lost.

        Call it while holding the lock of the results folder (`raybench.results.lock`), when nothing can be running.

        Raises:
            OSError: a file cannot be written.
        """
        for attempt in self.attempts.values():
            if attempt.status is None:
                end = events.trial_ended(*attempt.key, TrialStatus.LOST, error=LOST)
                add_event(attempt_folder(self.folder, attempt.trial, attempt.run), end)
                self.take(end)

    def take(self, event: Event, run: str | None = None) -> None:
        """Apply an event of a running trial or check."""
        line = to_json(event).encode()
        with self._lock:
            if decoded_event := decoded(line):
                key = decoded_event.trial, decoded_event.attempt
                attempt = self.attempts.setdefault(key, Run(trial=key[0], attempt=key[1], run=run))
                take(attempt, decoded_event, line)
            elif event.get("event") == "check_ended":
                self.checks.append(event)

    def snapshot(self, key: Key) -> Run:
        """A copy of an attempt that later events do not change."""
        with self._lock:
            return replace(self.attempts[key], epochs=Epochs(self.attempts[key].epochs))

    def output_clock(self, cell: Cell) -> dict[str, Any] | None:
        """The clock in the output of the first completed run of a command, which all its runs have in common."""
        digest, runs = cell.workload.digest, self.attempts.values()
        clocked = (run for run in runs if run.status == TrialStatus.COMPLETED and run.cell.workload.digest == digest)
        clocks = [run.output_clock for run in sorted(clocked, key=lambda run: run.ended or "") if run.output_clock]
        return asdict(clocks[0]) if clocks else None

    @property
    def warnings(self) -> list[str]:
        """A message about what cannot be read, and what that may change in an answer, if there is anything."""
        messages = []
        if self.unreadable:
            requests = f"{plural(len(self.unreadable), 'request')} of it cannot be read"
            messages += [f"{requests}: prices, baseline, target or metric may not be those that were asked for"]
        if lines := [place for place in self.damaged if place not in self.unreadable]:
            are = "is" if len(lines) == 1 else "are"
            messages += [f"{plural(len(lines), 'part')} of its results cannot be read and {are} left out"]
        places = ", ".join(self.damaged[:3]) + (", …" if len(self.damaged) > 3 else "")
        return [f"The grid has damaged files: {'; '.join(messages)} ({places})"] if messages else []


def _paths(folders: Iterable[Path], kind: str) -> list[Path]:
    return [path for folder in folders for path in event_files(folder, kind)]


def _read_attempts(folders: Sequence[Path], damaged: list[str]) -> list[Run]:
    """The attempts of folders; a run that several have counts once."""
    paths: dict[tuple[str, str], Path] = {}
    for path in _paths(folders, ATTEMPTS):
        trial_and_run = path.parent.name, path.stem
        earlier = paths.setdefault(trial_and_run, path)
        if earlier is not path:
            paths[trial_and_run] = longer = max(earlier, path, key=lambda file: file.stat().st_size)
            contents = [longer.read_bytes(), (path if longer is earlier else earlier).read_bytes()]
            if contents[0] != contents[1] and not continues(*contents):
                message = "differ, although they are of the same run; leave one of them out"
                raise UsageError(f"{earlier} and {path} {message}")
    runs = []
    for (trial, run), path in paths.items():
        attempt = run_in(path.read_bytes(), str(path), damaged)
        if attempt and attempt.trial == trial:
            attempt.run = run
            runs.append(attempt)
        elif attempt:
            damaged.append(str(path))
    return runs


def _numbered(runs: Iterable[Run]) -> dict[Key, Run]:
    """Return attempts in the order of their starts, numbered by trial, as two machines may have used a number twice."""
    by_trial: dict[str, list[Run]] = {}
    for attempt in sorted(runs, key=lambda run: run.started or run.ended or ""):
        by_trial.setdefault(attempt.trial, []).append(attempt)
    numbered: dict[Key, Run] = {}
    for same_trial in by_trial.values():
        number = 0
        for attempt in sorted(same_trial, key=lambda run: (run.attempt, run.started or run.ended or "")):
            number = max(number + 1, attempt.attempt)
            numbered[attempt.trial, number] = attempt if number == attempt.attempt else replace(attempt, attempt=number)
    return numbered
