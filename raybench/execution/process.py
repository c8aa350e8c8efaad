"""A fresh process for every trial: starts the fork template, watches the trial, and names its end."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import raybench
from raybench.audit import Audit
from raybench.environments import clean_environ, put_raybench
from raybench.errors import ExecutionError
from raybench.trial import events, memory
from raybench.trial.events import Event
from raybench.trial.job import Job
from raybench.trial.phase import last
from raybench.trial.record import OUTPUT, end_for, keep

START_TIMEOUT = 300.0
"""Seconds that loading a framework may take: a cold network disk is slow, a hung interpreter is for ever."""

TAIL, LONG_TAIL = 20, 500
"""Lines of a dead trial's output that go into its record, and in which it may have told of its memory."""

NOT_FOR_TEMPLATES = ("OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES")
"""Ray sets these for its worker; the trial sets its own threads and visibility."""


class TemplateProcess:
    """A running fork template of one framework, in this interpreter or in another one.

    Start it from a thread that outlives it: on Linux the kernel ends it with the thread that started it.

    Args:
        framework: what it loads.
        python: the path of the interpreter; empty for this one.

    Raises:
        ExecutionError: the framework cannot be loaded.
    """

    def __init__(self, framework: str, python: str = "") -> None:
        self._kept = contextlib.ExitStack()
        if python:
            folder = self._kept.enter_context(tempfile.TemporaryDirectory(prefix="raybench-"))
            environ = _environ_of_another(Path(folder))
        else:
            python, environ = sys.executable, _own_environ()
        self._words = self._kept.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 — closed by what keeps it
        self._process = subprocess.Popen(
            [python, "-m", "raybench.execution.template", framework],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._words,
            env={name: value for name, value in environ.items() if name not in NOT_FOR_TEMPLATES},
            start_new_session=True,
        )
        assert self._process.stdin and self._process.stdout
        self._out = self._process.stdout
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._out, selectors.EVENT_READ)
        self._rest = b""
        try:
            message = self._read(time.monotonic() + START_TIMEOUT)
        except TimeoutError:
            message = {}
        if not message:
            self._words.seek(0)
            words = self._words.read().decode(errors="replace").strip().splitlines()[-TAIL:]
            self.close()
            hung = f"did not load it within {START_TIMEOUT:g} s" if message == {} else "could not load it"
            raise ExecutionError("\n".join([f"{framework}: {python} {hung}", *words]))
        self.import_seconds = float(message["ready"])

    @property
    def alive(self) -> bool:
        """Whether it can run another trial."""
        return self._process.poll() is None

    def close(self) -> None:
        """End the template and, with it, whatever trial it still has."""
        self._process.kill()
        self._process.wait()
        self._selector.close()
        self._kept.close()
        for pipe in (self._process.stdin, self._out):
            if pipe:
                pipe.close()

    def _read(self, deadline: float | None) -> dict[str, Any] | None:
        """The next message; None when the template is gone.

        Raises:
            TimeoutError: the deadline has passed.
        """
        while b"\n" not in self._rest:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not self._selector.select(left):
                raise TimeoutError
            got = os.read(self._out.fileno(), 1 << 16)
            if not got:
                return None
            self._rest += got
        text, self._rest = self._rest.split(b"\n", 1)
        message: dict[str, Any] = json.loads(text)
        return message

    def run(self, job: Job) -> Iterator[Event]:
        """Run one attempt in a process of its own and yield its events; the last is always one of `events.ENDS`.

        A trial is audited meanwhile: what that comes to is the event before its last. In the attempt's own journal it
        may stand after the last, which the trial itself writes. Closing the iterator ends the trial.
        """
        with Audit(job) as audit, contextlib.closing(self._run(job, audit)) as told:
            for event in told:
                audit.see(event)
                audited = audit.end() if event["event"] in events.ENDS else None
                if audited:
                    keep(Path(job.folder), audited)
                    yield audited
                yield event

    def _run(self, job: Job, audit: Audit) -> Generator[Event, None, None]:
        begun = time.monotonic()
        deadline = begun + job.timeout if job.timeout else None
        kills = oom_kills()
        process, ended, code, peak = 0, False, None, None
        try:
            assert self._process.stdin
            self._process.stdin.write(json.dumps(job.to_json()).encode() + b"\n")
            self._process.stdin.flush()
            while code is None:
                message = self._read(None if ended else deadline)
                if message is None:
                    break
                if "pid" in message:
                    process = message["pid"]
                    if not job.check:
                        audit.begin(process)
                code, peak = message.get("exit"), message.get("peak_bytes")
                if "event" in message:
                    ended = message["event"]["event"] in events.ENDS
                    yield message["event"]
            if not ended:
                output = tail(Path(job.folder) / OUTPUT, LONG_TAIL)
                yield self._tell(job, *name_end(code, job, oom_kills() > kills, peak, output), begun)
        except TimeoutError:
            if process:
                end_family(process)
            code = self._reap()
            error = {"type": "Timeout", "message": f"longer than {job.timeout:g} s", "phase": phase_of(job)}
            yield self._tell(job, events.TIMEOUT, error, begun)
        except BrokenPipeError:
            error = {"type": "TemplateGone", "message": "the process that starts trials is gone"}
            yield self._tell(job, events.LOST, error, begun)
        finally:
            if code is None and process:
                end_family(process)
                self._reap()

    def _reap(self) -> int | None:
        """Wait for the exit code of a trial that was ended, and drop what it still said."""
        try:
            while message := self._read(time.monotonic() + 30):
                if "exit" in message:
                    return int(message["exit"])
        except TimeoutError:
            pass
        self.close()
        return None

    def _tell(self, job: Job, status: str, error: Mapping[str, Any], begun: float) -> Event:
        """The end of a trial that could not tell it itself, kept on disk like its other events."""
        folder = Path(job.folder)
        wall = round(time.monotonic() - begun, 6)
        error = {**error, "output": tail(folder / OUTPUT)}
        imported = round(self.import_seconds, 6)
        event = end_for(job, status, error, wall, imported)
        keep(folder, event)
        return event


def _own_environ() -> dict[str, str]:
    """This process's environment, in which its interpreter finds this raybench first."""
    package = str(Path(raybench.__file__).parent.parent)
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))}


def _environ_of_another(folder: Path) -> dict[str, str]:
    """An environment for another interpreter, which finds this raybench in an empty folder and nothing else of ours."""
    put_raybench(folder)
    return {**clean_environ(), "PYTHONPATH": str(folder), "PYTHONSAFEPATH": "1"}


def name_end(code: int | None, job: Job, killed: bool, peak: int | None, output: str) -> tuple[str, dict[str, Any]]:
    """The status of a trial that ended without saying so.

    SIGKILL is memory where the kernel counted a kill for memory meanwhile, and otherwise whatever ends machines. Any
    other death is memory where the last that the trial wrote says so: C++ aborts when there is none, and TensorFlow's
    convolutions on a CPU go on with the array that they did not get.

    Args:
        code: its exit code; negative is a signal, None where nobody knows.
        killed: whether the kernel counted a kill for memory.
        peak: the most bytes that it held, where that is known.
        output: the end of what it wrote.
    """
    phase = phase_of(job)
    if code is None:
        return events.LOST, {"type": "ProcessGone", "message": "the trial's process is gone", "phase": phase}
    died = (
        f"the process died of {signal.Signals(-code).name}"
        if code < 0
        else f"the process ended by itself with exit status {code}"
    )
    known = memory.describe(output, peak, job.memory_limit)
    if code == -signal.SIGKILL:
        if killed:
            message = "killed by the kernel for its memory"
            return events.OOM, {"type": "OutOfMemory", "message": message, "phase": phase, **known}
        return events.LOST, {"type": "Killed", "message": "killed by SIGKILL", "phase": phase}
    if memory.says_so(output, limited=bool(job.memory_limit)):
        return events.OOM, {"type": "OutOfMemory", "message": f"{died} when memory ran out", "phase": phase, **known}
    kind = signal.Signals(-code).name if code < 0 else "Exit"
    return events.FAILED, {"type": kind, "message": died, "phase": phase}


def phase_of(job: Job) -> str:
    """What a job was doing when its process ended."""
    return "check" if job.check else last(Path(job.folder))


def end_family(leader: int) -> None:
    """End a trial's process and the processes it started in its session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def oom_kills() -> int:
    """How many processes the kernel has killed for memory in this cgroup; 0 where it does not say."""
    try:
        text = Path("/sys/fs/cgroup/memory.events").read_text()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("oom_kill "))


def tail(path: Path, lines: int = TAIL) -> str:
    """The last lines of a trial's output."""
    try:
        return "\n".join(path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])
    except OSError:
        return ""
