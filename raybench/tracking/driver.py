"""The process that drives a grid, named so that another process can say whether it still lives."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path

from raybench.devices.host import boot_id

ENDED = ("Z", "X")
"""States of a process that has ended, and that its parent has not heard of yet."""


@dataclass(frozen=True)
class Driver:
    """A process, on whatever host.

    Attributes:
        host: the host's name.
        boot: tells one boot of a host from the next; empty where the system does not say.
        space: what the process numbers count in: containers of one host have each their own.
        pid: the process's number.
        started: when the process began, as the system tells it; numbers are given out again.
    """

    host: str
    boot: str
    space: str
    pid: int
    started: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"

    def to_json(self) -> str:
        """It as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str | None) -> Driver | None:
        """A driver from JSON; None where that names none."""
        try:
            told = json.loads(text or "")
            pid = int(told["pid"])
            return cls(*(pid if one.name == "pid" else str(told[one.name]) for one in fields(cls)))  # type: ignore[arg-type]
        except (ValueError, TypeError, KeyError):
            return None

    @property
    def lives(self) -> bool | None:
        """Whether it does; None where that cannot be seen from here.

        A name is given to more than one host, and a process number to a process of each container: only where boot and
        number space are this process's own does the table of processes tell. Of any other driver a heartbeat has to.
        """
        here = this_driver()
        if not self.boot or (self.host, self.boot, self.space) != (here.host, here.boot, here.space):
            return None
        return _began(self.pid) == self.started


@cache
def _of(pid: int) -> Driver:
    space = ""
    with suppress(OSError):
        space = str(Path("/proc/self/ns/pid").readlink())
    return Driver(platform.node(), boot_id(), space, pid, _began(pid))


def this_driver() -> Driver:
    """This process."""
    return _of(os.getpid())


def _began(pid: int) -> str:
    """When a process began, as the system tells it; empty where there is no such process."""
    try:
        # The name in brackets may hold anything, brackets too.
        told = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return "" if told[0] in ENDED else told[19]
    except OSError:
        if Path("/proc/self").exists():
            return ""
    with suppress(OSError, subprocess.SubprocessError):
        asked = subprocess.run(["/bin/ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, timeout=10)
        return asked.stdout.strip()
    return ""
