"""A fresh process for every trial: starts the fork server, supervises the trial, classifies its end."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil

from raybench.core import events
from raybench.core.events import Event
from raybench.core.job import Job
from raybench.core.memory import oom_kills, size
from raybench.core.settings import MISSING
from raybench.core.status import TrialStatus
from raybench.core.temp_folders import Scratch
from raybench.datasets.paths import user_cache
from raybench.devices.power_limit import PowerLimitError, power_limited
from raybench.environments import clean_environ, link_package, own_environ
from raybench.errors import ExecutionError
from raybench.monitoring import Monitor
from raybench.trial.exit_status import LONG_TAIL, TAIL, classify_exit, tail
from raybench.trial.failure import end_event
from raybench.trial.kept_output import cut_output
from raybench.trial.launch_ranks import ranks_of, timeout_error
from raybench.trial.program import TERMINATION_SECONDS
from raybench.trial.record import append_event, shortened
from raybench.trial.remote_ranks import WRITE_SECONDS

START_TIMEOUT = 300.0
"""Timeout for loading a framework, in seconds: a cold network disk is slow, a hung interpreter never finishes."""

CLOSE_TIMEOUT = 10.0  # seconds to wait until a fork server and all its descendants have ended
LEFT_BYTES = 2**20  # smallest size of shared memory that the error of a trial reports
CHECK_S = 1.0  # seconds between two looks at a trial: at the size of its output and, if it has a limit, at its memory

NOT_FOR_TRIALS = ("OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
"""Variables that Ray sets for its workers; the trial sets its own threads and visible devices."""


class _OutOfBounds(Exception):
    """A trial has to be terminated: it exceeded its timeout or its memory limit."""

    def __init__(self, status: str, error: Mapping[str, Any]) -> None:
        self.status, self.error = status, error


class ForkServer:
    """A running fork server of one framework, in this interpreter or, if `python` is its path, a different one.

    Start it from a thread that outlives it: on Linux the kernel ends it when the thread that started it ends.

    Raises:
        ExecutionError: the framework cannot be loaded.
    """

    def __init__(self, framework: str, python: str = "") -> None:
        self._resources = contextlib.ExitStack()
        if python:
            folder = self._resources.enter_context(contextlib.closing(Scratch())).path
            link_package(folder)  # the only one of raybench's own packages that it sees
            environ = {**clean_environ(), "PYTHONPATH": str(folder), "PYTHONSAFEPATH": "1"}
        else:
            python, environ = sys.executable, own_environ()
        output = self._resources.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 — closed by the exit stack
        self._process = subprocess.Popen(
            # With -P a module of the current folder does not hide one of Python's own library.
            [python, "-P", "-m", "raybench.execution.fork_server", framework],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            # By default torch runs what it finds in the system's temporary folder, where any user can put it.
            env={"TORCHINDUCTOR_CACHE_DIR": str(user_cache() / "torchinductor")}
            | {name: value for name, value in environ.items() if name not in NOT_FOR_TRIALS},
            start_new_session=True,
        )
        assert self._process.stdin and self._process.stdout
        self._jobs = Connection(os.dup(self._process.stdin.fileno()), readable=False)
        self._messages = Connection(os.dup(self._process.stdout.fileno()), writable=False)
        self._process.stdin.close()
        self._process.stdout.close()
        try:
            message = self._read(time.monotonic() + START_TIMEOUT)
            symptom = "could not load it"
        except TimeoutError:
            message, symptom = None, f"it was not loaded within {START_TIMEOUT:g} s"
        if message is None:
            output.seek(0)
            lines = output.read().decode(errors="replace").strip().splitlines()[-TAIL:]
            self.close()
            raise ExecutionError("\n".join([f"{framework}: {python} {symptom}", *lines]))
        self.import_seconds = float(message["ready"])
        self._end: tuple[TrialStatus, Mapping[str, Any]] | None = None
        self._shared_files: Mapping[str, int] = {}  # those that a trial left in shared memory, with their bytes
        self._check_at_s = 0.0

    @property
    def alive(self) -> bool:
        """Return whether it can run another trial."""
        return self._process.poll() is None

    def close(self, end: tuple[TrialStatus, Mapping[str, Any]] | None = None) -> None:
        """Terminate the fork server, any running trial, and all their descendants; from any thread.

        Args:
            end: the status and the error of a running trial.
        """
        self._end = end
        self._process.terminate()
        try:
            self._process.wait(CLOSE_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._jobs.close()
        self._resources.close()

    def _read(self, deadline: float) -> dict[str, Any] | None:
        """The next message; None if the fork server has ended."""
        try:
            if not self._messages.poll(max(0.0, deadline - time.monotonic())):
                raise TimeoutError
            message: dict[str, Any] = json.loads(self._messages.recv_bytes())
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return None
        self._shared_files = message.get("shared_files", {})
        return message

    def run(self, job: Job) -> Iterator[Event]:
        """Run one attempt in its own process and yield its events.

        The last is always one of `events.ENDS`.

        The run conditions are monitored meanwhile; their summary is the event before the last. In the attempt's own
        journal it may follow the last, which the trial itself writes. Closing the iterator terminates the trial.
        """
        watts = job.cell.device.power_limit
        try:
            with power_limited(None if watts is MISSING else watts, job.visible):
                yield from self._monitored(job)
        except PowerLimitError as error:
            failure = {"type": "PowerLimitError", "message": str(error)}
            yield self._end_event(job, TrialStatus.FAILED, failure, time.monotonic())

    def _monitored(self, job: Job) -> Iterator[Event]:
        with Monitor(job) as audit, contextlib.closing(self._run(job, audit)) as stream:
            for event in stream:
                audit.see(event)
                audit_event = audit.end() if event["event"] in events.ENDS else None
                if audit_event:
                    with contextlib.suppress(OSError):  # the receiver of the event keeps it too
                        append_event(Path(job.folder), audit_event)
                    yield audit_event
                yield event

    def _run(self, job: Job, audit: Monitor) -> Generator[Event, None, None]:
        start_s = time.monotonic()
        oom_count = oom_kills()
        pid, ended, code, peak = 0, False, None, None
        # Commands and ranks are ended by the trial's own process, which then reports that.
        has_others = job.is_command or ranks_of(job) > 1
        grace_s = 2 * TERMINATION_SECONDS if has_others else 0.0
        deadline = start_s + job.timeout + grace_s if job.timeout else math.inf
        try:
            self._jobs.send_bytes(json.dumps(job.to_json()).encode())
            while code is None:
                message = self._supervise(job, *((0, math.inf) if ended else (pid, deadline)))
                if message is None:
                    break
                if "pid" in message:
                    pid = message["pid"]
                    if not job.check:
                        audit.begin(pid)
                code, peak = message.get("exit"), message.get("peak_bytes")
                if "event" in message:
                    ended = message["event"]["event"] in events.ENDS
                    yield message["event"]
            if not ended and code is None and self._end:
                yield self._end_event(job, *self._end, start_s)
            elif not ended:
                is_oom, output = oom_kills() > oom_count, tail(job, LONG_TAIL)
                yield self._end_event(job, *classify_exit(code, job, is_oom, peak, output), start_s)
        except _OutOfBounds as bounds:
            error = bounds.error
            if pid and bounds.status == TrialStatus.TIMEOUT and not has_others:
                error = timeout_error(job, {0: _stack(pid, job)})
            if pid:
                _kill_session(pid)
            code = self._wait_for_exit()
            yield self._end_event(job, bounds.status, error, start_s)
        except OSError:
            error = {"type": "TemplateGone", "message": "the process that starts trials has ended"}
            yield self._end_event(job, TrialStatus.LOST, error, start_s)
        finally:
            if code is None and pid:
                _kill_session(pid)
                self._wait_for_exit()
            cut_output(Path(job.folder))

    def _supervise(self, job: Job, pid: int, deadline: float) -> dict[str, Any] | None:
        """The next message of a running trial; None if the fork server has ended."""
        while True:
            if time.monotonic() >= self._check_at_s:
                if pid and job.memory_limit:
                    _check_memory(self._process.pid, job.memory_limit)
                if not job.is_command:  # whose own process does it
                    cut_output(Path(job.folder))
                self._check_at_s = time.monotonic() + CHECK_S
            try:
                return self._read(min(deadline, self._check_at_s))
            except TimeoutError:
                if not self.alive:  # the pipe is open as long as a process that the trial has forked
                    return None
                if time.monotonic() >= deadline:
                    error = {"type": "Timeout", "message": f"took longer than its timeout of {job.timeout:g} s"}
                    raise _OutOfBounds(TrialStatus.TIMEOUT, error) from None

    def _wait_for_exit(self) -> int | None:
        """Wait for a terminated trial's exit code, and drop its remaining messages."""
        with contextlib.suppress(TimeoutError, OSError):
            while message := self._read(time.monotonic() + 30):
                if "pid" in message:  # it had not begun
                    _kill_session(message["pid"])
                if "exit" in message:
                    return int(message["exit"])
        self.close()
        return None

    def _end_event(self, job: Job, status: str, error: Mapping[str, Any], start_s: float) -> Event:
        """The end event, also written to disk, of a trial that sent none."""
        folder = Path(job.folder)
        wall_s = round(time.monotonic() - start_s, 6)
        error = {**error, "output": tail(job)}
        if (total := sum(self._shared_files.values())) >= LEFT_BYTES:
            names = ", ".join(sorted(self._shared_files))
            error["message"] = f"{error['message']}; since it began, {size(total)} of shared memory are new: {names}"
        event = end_event(job, status, error, wall_s, round(self.import_seconds, 6))
        with contextlib.suppress(OSError):  # the receiver of the event keeps it too
            append_event(folder, event)
        return shortened(event)


def _stack(pid: int, job: Job) -> str:
    """What `faulthandler` writes of a trial to its output; empty if a signal has stopped it."""
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGUSR1)
    time.sleep(WRITE_SECONDS)
    return tail(job, LONG_TAIL).rpartition("Stack (most recent call first):")[2]


def _check_memory(server: int, limit: int) -> None:
    """Check the memory that a trial's processes hold together; each of them has the kernel's own limit."""
    total = 0
    with contextlib.suppress(psutil.Error):
        family = psutil.Process(server).children(recursive=True)
        for member in family if len(family) > 1 else ():
            with contextlib.suppress(psutil.Error):  # it has just ended
                total += member.memory_full_info().uss
    if total > limit:
        message = f"its processes together used {size(total)}, more than memory_limit ({size(limit)})"
        error = {"type": "OutOfMemory", "message": message, "peak_bytes": total, "limit_bytes": limit}
        raise _OutOfBounds(TrialStatus.OOM, error)


def _kill_session(leader: int) -> None:
    """Kill a trial's process and the processes in its group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
