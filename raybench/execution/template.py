"""The fork template: a process with the framework loaded, from which every trial gets a fresh process in milliseconds.

Runs as `python -m raybench.execution.template FRAMEWORK`, with any interpreter that has raybench's trial layer and the
framework: neither Ray nor MLflow. It reads jobs, one JSON object a line, from standard input and forks for each; the
child's events and, when the child has ended, its exit code and peak memory go to standard output as JSON lines. It
touches no device.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, NoReturn, TextIO

from raybench.trial.lifeline import die_with_parent, watch


def say(out: TextIO, **message: Any) -> None:
    """One line to whoever supervises."""
    out.write(json.dumps(message, separators=(",", ":")) + "\n")
    out.flush()


def redirect_output(path: Path) -> None:
    """Send standard output and error of this process, also those of native code, to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)
    sys.stdout = open(1, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115


def run_child(message: dict[str, Any], started: int, imported: float, out: TextIO) -> NoReturn:
    """Be the trial's process: run its job, tell its events, and end without the template's own exit handlers."""
    code = 1
    try:
        os.setsid()
        die_with_parent()
        lifeline = os.dup(0)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        watch(lifeline)
        say(out, pid=os.getpid())

        from raybench.trial import memory
        from raybench.trial.job import Job
        from raybench.trial.ledger import Ledger
        from raybench.trial.record import OUTPUT, record

        job = Job.from_json(message)
        redirect_output(Path(job.folder) / OUTPUT)
        faulthandler.enable()
        memory.limit(job.memory_limit)
        for event in record(job, Ledger(started), imported):
            say(out, event=event)
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main(framework: str) -> None:
    """Load the framework, then fork for each job until standard input ends."""
    die_with_parent()
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what an import prints must not be taken for a message
    begun = time.perf_counter()
    from raybench.engines import PRELOAD

    for module in PRELOAD[framework]:
        importlib.import_module(module)
    imported = time.perf_counter() - begun
    say(out, ready=imported)
    while text := sys.stdin.buffer.readline():
        message = json.loads(text)
        started = time.perf_counter_ns()
        child = os.fork()
        if child == 0:
            run_child(message, started, imported, out)
        _, status, used = os.wait4(child, 0)
        peak = used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        say(out, exit=os.waitstatus_to_exitcode(status), peak_bytes=peak)


if __name__ == "__main__":
    main(sys.argv[1])
