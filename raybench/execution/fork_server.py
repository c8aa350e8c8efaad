"""Process with the framework loaded, which starts a fresh process per trial within milliseconds.

Runs as `python -m raybench.execution.fork_server FRAMEWORK`, with any interpreter that has the framework and NumPy; Ray
and MLflow are not needed. Jobs come in through standard input; the trial's events, its exit code and its peak memory go
out through standard output, as JSON messages of a `multiprocessing.connection.Connection`. The server uses no device.

`multiprocessing`'s own fork server cannot be used: it has one list of preloaded modules per process and runs in that
process's interpreter, but TensorFlow and torch_xla must not be in one process, and an environment has its own Python.

On macOS, where a process with a loaded framework must not be forked, each trial is a new interpreter (`spawn`).
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import multiprocessing
import os
import shutil
import signal
import stat
import sys
import tempfile
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

from raybench.core import memory
from raybench.core.events import OUTPUT, to_json
from raybench.core.process_guard import adopt_orphans, children, die_with_parent, end_children, watch
from raybench.core.temp_folders import Scratch, sweep

START = "spawn" if sys.platform == "darwin" else "fork"

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 — only listed

OOM_SCORE = Path("/proc/self/oom_score_adj")
"""Linux's file for a process's priority, up to 1000, to be killed if the machine has no memory left."""


def send(connection: Connection, **message: Any) -> None:
    """Send a message to the supervisor."""
    connection.send_bytes(to_json(message).encode("utf-8", errors="replace"))


def send_event(connection: Connection, event: Any) -> None:
    """Send an event of this trial; if the supervisor has ended, end this process.

    That is not a failure of the trial: it counts as lost and is retried, unless its own record says that it completed.
    """
    try:
        send(connection, event=event)
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
    from raybench.devices.torch_tpu import AUTOLOAD
    from raybench.engines import FRAMEWORKS

    before = os.environ.get(AUTOLOAD)
    os.environ[AUTOLOAD] = "0"
    for module in FRAMEWORKS[framework].preload:
        importlib.import_module(module)
    del os.environ[AUTOLOAD]
    if before is not None:
        os.environ[AUTOLOAD] = before
    return time.perf_counter() - start_s


def run_trial(
    message: dict[str, Any], framework: str, imported_s: float, temporary: Path, connection: Connection
) -> NoReturn:
    """Run a job as the trial's process and send its events; exit without the server's exit handlers."""
    code, own_pid, start_ns = 1, os.getpid(), time.perf_counter_ns()
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.setsid()
        die_with_parent()
        watch(os.dup(0))
        devnull = os.open(os.devnull, os.O_RDONLY)
        os.dup2(devnull, 0)
        os.close(devnull)
        with suppress(OSError):  # the kernel's choice if memory runs out: a trial, not the driver or Ray
            OOM_SCORE.write_text("1000")
        send(connection, pid=own_pid)
        if START == "spawn":
            imported_s = load(framework)
            start_ns = time.perf_counter_ns()

        from raybench.core.job import Job
        from raybench.core.ledger import NANO, Ledger
        from raybench.trial.failure import end_event, failure
        from raybench.trial.record import append_event, record

        job = Job.from_json(message)
        try:
            temporary.mkdir(exist_ok=True)  # what could not be removed of the last one's may be there
            os.environ["TMPDIR"] = str(temporary)
            tempfile.tempdir = None
            with suppress(OSError):  # full disk: its output goes to the server's output
                redirect_output(Path(job.folder) / OUTPUT)
            faulthandler.enable()
            faulthandler.register(signal.SIGUSR1, all_threads=False)  # the supervisor asks where a trial hangs
            memory.limit(job.memory_limit)
            record(job, lambda event: send_event(connection, event), Ledger(start_ns, loading_s=imported_s))
        # Exceptions that are not a trial's failure in the driver's process are one here: Ctrl-C does not reach this
        # session, so a KeyboardInterrupt was raised by the trial's code.
        except BaseException as error:
            if os.getpid() != own_pid or isinstance(error, MemoryError):
                raise
            status, record_of_error = failure(error, None, "setup", job)
            wall_s = round((time.perf_counter_ns() - start_ns) * NANO, 6)
            event = end_event(job, status, record_of_error, wall_s, round(imported_s, 6))
            with suppress(OSError):  # the receiver of the event keeps it too
                append_event(Path(job.folder), event)
            send_event(connection, event)
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def main(framework: str) -> None:
    """Load the framework, then start trials until standard input ends."""
    scratch = Scratch()

    def end(number: int, frame: object) -> NoReturn:
        end_children()
        scratch.close()
        os._exit(1)

    signal.signal(signal.SIGTERM, end)
    die_with_parent(signal.SIGTERM)
    adopt_orphans()
    jobs, messages = Connection(0, writable=False), Connection(os.dup(1), readable=False)
    os.dup2(2, 1)  # the output of an import must not be mistaken for a message
    imported_s = load(framework) if START == "fork" else 0.0
    preexisting = children()
    send(messages, ready=imported_s)
    context = multiprocessing.get_context(START)
    with suppress(EOFError):
        while True:
            message = json.loads(jobs.recv_bytes())
            temporary = scratch.path / "trial"
            trial = context.Process(  # type: ignore[attr-defined]  # every context has it
                target=run_trial, args=(message, framework, imported_s, temporary, messages)
            )
            peak_before, shared_before = memory.peak_resident(of_children=True), _shared_files()
            trial.start()
            trial.join()
            end_children(spare=preexisting)
            shutil.rmtree(temporary, ignore_errors=True)
            peak = memory.peak_resident(of_children=True)  # of the largest trial so far
            new_files = {path: size for path, size in _shared_files().items() if path not in shared_before}
            send(messages, exit=trial.exitcode, peak_bytes=peak if peak > peak_before else None, shared_files=new_files)
            trial.close()
    scratch.close()
    sweep()  # also folders left by a driver that was killed


def _shared_files() -> dict[str, int]:
    """The files of shared memory of this user, with their bytes."""
    sizes: dict[str, int] = {}
    for path in SHARED_MEMORY.glob("*"):
        with suppress(OSError):  # it has just been removed
            info = path.lstat()
            if stat.S_ISREG(info.st_mode) and info.st_uid == os.getuid():
                sizes[str(path)] = info.st_size
    return sizes


if __name__ == "__main__":
    main(sys.argv[1])
