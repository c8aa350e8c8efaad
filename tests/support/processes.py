"""Whether processes that a test knows by number are still there."""

import time
from pathlib import Path

import psutil


def alive(pid):
    """Whether there is such a process, and not only what its parent has not reaped yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


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
