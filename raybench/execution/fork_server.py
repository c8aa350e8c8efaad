"""Fork server: a process with the framework loaded, which forks a fresh process per trial within milliseconds.

Runs as `python -m raybench.execution.fork_server FRAMEWORK fork`, with any interpreter that has raybench's trial layer
and the framework; Ray and MLflow are not needed. It reads jobs, one JSON object per line, from standard input and forks
for each; the child's events and, when the child has ended, its exit code and peak memory go to standard output as JSON
lines. It uses no device. Each trial has its own temporary folder, which is removed at its end together with every
process that it has left behind; a guard (`raybench.core.process_guard.guard`) does both if the server is killed.

If a process with a loaded framework cannot be forked (macOS), trials start with `spawn`: the server loads nothing, and
every trial is a new interpreter that loads the framework itself.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, TextIO

from raybench.core.process_guard import adopt_orphans, children, die_with_parent, end_children, guard, watch
from raybench.core.status import TrialStatus
from raybench.core.temp_folders import Scratch, sweep
from raybench.trial.compile_caches import use_private_caches

FORK, SPAWN, TRIAL = "fork", "spawn", "trial"

AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"
"""Environment variable: whether torch loads the packages of other devices when it is imported.

They may open their device, which must not happen before the fork; an adapter that needs one loads it."""


def send(stream: TextIO, **message: Any) -> None:
    """Send one line to the supervisor."""
    stream.write(json.dumps(message, separators=(",", ":")) + "\n")
    stream.flush()


def report(stream: TextIO, event: Any) -> None:
    """Send an event of this trial; if the supervisor has ended, end this process.

    That is no failure of the trial: it counts as lost and is retried, unless its own record says that it completed.
    """
    try:
        send(stream, event=event)
    except BrokenPipeError:
        os._exit(1)


def redirect_output(path: Path) -> None:
    """Redirect this process's output, including that of native code, to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)
    sys.stdout = open(1, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115


def load(framework: str) -> float:
    """Load a framework and return how many seconds that took."""
    start_s = time.perf_counter()
    from raybench.engines import PRELOAD

    before = os.environ.get(AUTOLOAD)
    os.environ[AUTOLOAD] = "0"
    for module in PRELOAD[framework]:
        importlib.import_module(module)
    del os.environ[AUTOLOAD]
    if before is not None:
        os.environ[AUTOLOAD] = before
    return time.perf_counter() - start_s


def run_child(message: dict[str, Any], start_ns: int, imported: float, temporary: Path, stream: TextIO) -> NoReturn:
    """Run a job as the trial's process and send its events.

    It exits without the server's exit handlers.
    """
    code = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        own_pid = os.getpid()
        os.setsid()
        die_with_parent()
        lifeline = os.dup(0)
        devnull = os.open(os.devnull, os.O_RDONLY)
        os.dup2(devnull, 0)
        os.close(devnull)
        watch(lifeline)
        send(stream, pid=os.getpid())

        from raybench.core import memory
        from raybench.core.events import OUTPUT
        from raybench.core.job import Job
        from raybench.core.ledger import NANO, Ledger
        from raybench.trial.phase import last
        from raybench.trial.record import append_event, failure_event, record
        from raybench.trial.run import describe_error

        job = Job.from_json(message)
        try:
            own_temporary_folder(temporary)
            with suppress(OSError):  # full disk: its output goes to the server's output
                redirect_output(Path(job.folder) / OUTPUT)
            faulthandler.enable()
            memory.limit(job.memory_limit)
            record(job, lambda event: report(stream, event), Ledger(start_ns), imported)
        # Exceptions that are not a trial's failure in the driver's process are one here: Ctrl-C does not reach this
        # session, so a KeyboardInterrupt was raised by the trial's code.
        except BaseException as error:
            if os.getpid() != own_pid or isinstance(error, MemoryError):
                raise
            failure = describe_error(error, last(Path(job.folder)), job)
            status = TrialStatus.LOST if failure.get("disk_full") else TrialStatus.FAILED
            wall_s = round((time.perf_counter_ns() - start_ns) * NANO, 6)
            event = failure_event(job, status, failure, wall_s, round(imported, 6))
            with suppress(OSError):  # the receiver of the event keeps it too
                append_event(Path(job.folder), event)
            report(stream, event)
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def own_temporary_folder(folder: Path) -> None:
    """Use a folder for temporary files of this process and its children."""
    folder.mkdir()
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None


def fork(message: dict[str, Any], framework: str, imported: float, temporary: Path, stream: TextIO) -> int:
    """Start a trial by forking this process; returns its process id."""
    start_ns = time.perf_counter_ns()
    child = os.fork()
    if child == 0:
        run_child(message, start_ns, imported, temporary, stream)
    return child


def spawn(message: dict[str, Any], framework: str, imported: float, temporary: Path, stream: TextIO) -> int:
    """Start a trial as a new interpreter; returns its process id."""
    read_fd, write_fd = os.pipe()
    command = [
        sys.executable,
        "-P",
        "-m",
        "raybench.execution.fork_server",
        framework,
        TRIAL,
        str(read_fd),
        str(temporary),
    ]
    trial = subprocess.Popen(command, stdout=stream.fileno(), pass_fds=[read_fd])
    os.close(read_fd)
    with os.fdopen(write_fd, "w", encoding="utf-8") as job:
        json.dump(message, job)
    trial.returncode = 0  # it is waited for by its process id, not through this object
    return trial.pid


START = {FORK: fork, SPAWN: spawn}


def run_spawned(framework: str, read_fd: int, temporary: Path) -> NoReturn:
    """Run a trial in a process started as a new interpreter."""
    stream = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    with os.fdopen(read_fd, encoding="utf-8") as job:
        message = json.load(job)
    imported = load(framework)
    run_child(message, time.perf_counter_ns(), imported, temporary, stream)


def main(framework: str, start: str) -> None:
    """Load the framework, then start trials until standard input ends."""
    scratch = Scratch()

    def clean() -> None:
        scratch.close()
        sweep()  # also folders left by a driver that was killed

    guard(0, clean)
    adopt_orphans()
    stream = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # the output of an import must not be mistaken for a message
    use_private_caches(framework, scratch.path)
    imported = load(framework) if start == FORK else 0.0
    preexisting = children()
    send(stream, ready=imported)
    while text := sys.stdin.buffer.readline():
        if scratch.removed:
            scratch = Scratch()
        message, temporary = json.loads(text), scratch.path / "trial"
        child = START[start](message, framework, imported, temporary, stream)
        _, status, rusage = os.wait4(child, 0)
        end_children(spare=preexisting)
        shutil.rmtree(temporary, ignore_errors=True)
        peak = rusage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        send(stream, exit=os.waitstatus_to_exitcode(status), peak_bytes=peak)


if __name__ == "__main__":
    if sys.argv[2] == TRIAL:
        run_spawned(sys.argv[1], int(sys.argv[3]), Path(sys.argv[4]))
    main(sys.argv[1], sys.argv[2])
