"""Whether processes that a test knows by number are still there, and waiting."""

import time
from pathlib import Path

import psutil


def alive(pid):
    """Whether there is such a process, and not only what its parent has not reaped yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def eventually(condition, seconds=30.0):
    """Wait until a condition holds, and fail if it does not; return what it returns."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.05)
    return value


def all_gone(pids, seconds=30.0):
    """Whether none of some processes is left, or soon will be."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and any(map(alive, pids)):
        time.sleep(0.02)
    return not any(map(alive, pids))


LOOPBACK = ("127.", "::1", "::ffff:127.")


def listening(process):
    """The addresses and ports on which a process and its descendants listen."""
    found = []
    for each in [process, *process.children(recursive=True)]:
        try:
            found += [place.laddr for place in each.net_connections("inet") if place.status == psutil.CONN_LISTEN]
        except psutil.Error:
            continue
    return found
