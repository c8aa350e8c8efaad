"""Check Ray's requirements on this machine before it starts.

If one is missing, Ray waits for minutes, crashes, or reports an internal error.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from raybench.core.temp_folders import Scratch
from raybench.errors import ExecutionError

FILES, FILES_PER_CORE = 96, 4
"""Open files of the Ray process that has most of them, with a margin of a half; measured: 58 on 2 cores, 80 on 8."""

THREADS, THREADS_PER_CORE = 160, 28
"""Threads of all Ray processes and of one trial per core; measured: 208 on 2 cores, 354 on 8 without the trials."""

PROBE_SECONDS = 60.0

HARMLESS = ("RAY_ADDRESS", "RAY_AIR_NEW_OUTPUT", "RAY_ENABLE_UV_RUN_RUNTIME_ENV", "RAY_USAGE_STATS_ENABLED")
"""Variables for which Ray accepts any value."""

FILES_SHORT = """Ray needs {needed} open files in a process on this machine, and the limit is {limit}. \
Raise it (`ulimit -n {needed}`, as root or in /etc/security/limits.conf; `--ulimit nofile={needed}` of docker run), \
or run the grid with --inline, which is not for benchmarks."""

THREADS_SHORT = """Ray and a trial need {needed} processes and threads on this machine, but only {left} of {limit} \
are left ({source}). Stop other programs or raise the limit."""

NO_DOCSTRINGS = """Ray needs docstrings, which `python -OO` and PYTHONOPTIMIZE=2 remove: \
use `python` or `python -O`, or run the grid with --inline, which is not for benchmarks."""

NO_VARIABLE = """Ray cannot start with this value of the environment variable {name}: {value!r}. Unset it \
(`unset {name}`) or correct it."""


def check_settings() -> None:
    """Check that this interpreter can load Ray with the environment's settings; an invalid one crashes it.

    Raises:
        ExecutionError: it cannot; the message names the setting.
    """
    if sys.flags.optimize > 1:
        raise ExecutionError(NO_DOCSTRINGS)
    names = [name for name in os.environ if name.startswith("RAY_") and name not in HARMLESS]
    if not names or _can_import_ray(names):
        return
    for name in names:
        if not _can_import_ray([name]):
            raise ExecutionError(NO_VARIABLE.format(name=name, value=os.environ[name][:80]))
    # Otherwise no setting is the cause, and Ray itself reports the error.


def _can_import_ray(names: Collection[str]) -> bool:
    """Return whether a process with only these Ray variables can import it."""
    environment = {name: text for name, text in os.environ.items() if not name.startswith("RAY_") or name in names}
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", "import ray"],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROBE_SECONDS,
        )
    except subprocess.TimeoutExpired:  # a busy machine
        return True
    return done.returncode == 0


def check_limits(cores: int) -> None:
    """Check that the limits of files and threads are sufficient for Ray.

    For files the hard limit counts, up to which Ray raises the soft one.

    Raises:
        ExecutionError: it may not; Ray would wait forever for processes that cannot start.
    """
    limit, needed = resource.getrlimit(resource.RLIMIT_NOFILE)[1], FILES + FILES_PER_CORE * cores
    if limit != resource.RLIM_INFINITY and limit < needed:
        raise ExecutionError(FILES_SHORT.format(needed=needed, limit=limit))
    needed = THREADS + THREADS_PER_CORE * cores
    for source, limit, used in _thread_limits():
        if limit - used < needed:
            available = max(0, limit - used)
            raise ExecutionError(THREADS_SHORT.format(needed=needed, left=available, limit=limit, source=source))


def _thread_limits() -> Iterator[tuple[str, int, int]]:
    """Limits of processes and threads, with origin and use; Linux only."""
    limit = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if sys.platform == "linux" and os.geteuid() and limit != resource.RLIM_INFINITY:  # root has no such limit
        yield "ulimit -u", limit, sum(_threads_of(os.geteuid()))
    group = Path("/sys/fs/cgroup")
    with suppress(OSError, ValueError):  # `max`, or another system
        yield str(group / "pids.max"), int((group / "pids.max").read_text()), int((group / "pids.current").read_text())


def _threads_of(user: int) -> Iterator[int]:
    """The threads of each process of a user."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            if process.stat().st_uid == user:
                yield len(list((process / "task").iterdir()))


def ray_folder() -> Scratch:
    """Create a temporary folder for a local Ray.

    Raises:
        ExecutionError: it cannot be created.
    """
    try:
        return Scratch(for_ray=True)
    except OSError as error:
        reason = error.strerror or error
        message = f"Ray needs a temporary folder: {reason}. Free disk space, or choose another folder with TMPDIR"
        raise ExecutionError(message) from None
