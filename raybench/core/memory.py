"""Memory limits, detection of out-of-memory errors, and the size of the failed allocation."""

from __future__ import annotations

import math
import re
import resource
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

KIB = 1024
UNITS = " KMGTPE"  # prefixes of units; each is 1024 times the one before

SIGNS = (
    "alloc_failed",  # cuBLAS and cuDNN
    "bad_alloc",
    "can't allocate memory",
    "cannot allocate memory",
    "not enough memory",
    "oom when allocating",
    "memoryerror",
    "out of memory",
    "resource exhausted",
    "resource_exhausted",
    "status: 1, message: could not create a",  # oneDNN's dnnl_out_of_memory is 1
)
"""Lower-case substrings of frameworks' out-of-memory messages."""

SIGNS_UNDER_A_LIMIT = ("thread creation failed: resource temporarily unavailable", "can't start new thread")
"""Messages that mean too many threads or, under a memory limit, no memory for the stack of one more."""


class OutOfMemory(Exception):
    """Memory ran out, if no `trial_ended` event reports it.

    Attributes:
        sizes: the result of `describe`.
    """

    def __init__(self, message: str, sizes: Mapping[str, int]) -> None:
        super().__init__(message)
        self.sizes = sizes


def looks_like_oom(text: str, limited: bool = False) -> bool:
    """Return whether an error message or output reports out of memory."""
    lowered = text.lower()
    return any(sign in lowered for sign in (*SIGNS, *(SIGNS_UNDER_A_LIMIT if limited else ())))


_ALLOCATION = re.compile(r"(?:allocat(?:e|ing)|reserve) ([\d.]*\d) ?([KMGTPE]?)(?:i?B|bytes)?\b")
"""The failed allocation in messages of torch, TensorFlow's allocator, XLA and NumPy, such as `allocate 2.00 GiB`."""


def asked_bytes(text: str) -> int | None:
    """Bytes of the last failed allocation in an error message or the output of a dead process, or None."""
    allocations = _ALLOCATION.findall(text)
    if not allocations:
        return None
    amount, unit = allocations[-1]
    return round(float(amount) * 2.0 ** (10 * UNITS.index(unit or " ")))


def describe(text: str, peak: int | None, limit: int) -> dict[str, int]:
    """Known sizes of an out-of-memory error: `asked_bytes`, `peak_bytes`, `limit_bytes`."""
    sizes = {"asked_bytes": asked_bytes(text), "peak_bytes": peak, "limit_bytes": limit}
    return {name: value for name, value in sizes.items() if value}


def limit(bytes_: int) -> None:
    """Limit the private memory of this process and its children, on Linux; 0 sets no limit.

    The kernel's RLIMIT_DATA counts private writable memory, touched or not. Under RLIMIT_AS, frameworks would end at
    their import, because they reserve address space by the terabyte. A watcher of the resident size could only kill the
    process, while a refused allocation is an error at the line that asked. The limit is soft, for `remove_limit`.
    """
    if bytes_ and sys.platform == "linux":
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        soft = bytes_ if hard == resource.RLIM_INFINITY else min(bytes_, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def limit_applies(bytes_: int) -> bool:
    """Return whether the requested limit, if any, is in force in this process."""
    if not bytes_ or sys.platform != "linux":
        return not bytes_
    soft = resource.getrlimit(resource.RLIMIT_DATA)[0]
    return soft != resource.RLIM_INFINITY and soft <= bytes_


def remove_limit() -> None:
    """Remove the limit, because reporting an out-of-memory error needs memory."""
    if sys.platform == "linux":
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))


def oom_kills() -> int:
    """Number of the kernel's out-of-memory kills, in this container or on this machine; 0 if it is not known."""
    for file in map(Path, ("/sys/fs/cgroup/memory.events", "/proc/vmstat")):
        with suppress(OSError):
            return sum(int(line.split()[1]) for line in file.read_text().splitlines() if line.startswith("oom_kill "))
    return 0


def peak_resident(of_children: bool = False) -> int:
    """Peak resident bytes of this process, or of the largest of its children that have ended."""
    import resource

    if not of_children:
        with suppress(OSError):
            if match := re.search(r"^VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE):
                return int(match[1]) * KIB
    usage = resource.getrusage(resource.RUSAGE_CHILDREN if of_children else resource.RUSAGE_SELF)
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else KIB)


def format_bytes(error: Mapping[str, Any]) -> str:
    """Format an `oom` error: `in evaluate, asked 2.0 GiB, peak 1.5 GiB, limit 2.0 GiB`."""
    parts = [f"in {error['phase']}"] if error.get("phase") else []
    for name in ("asked", "peak", "limit"):
        value = error.get(f"{name}_bytes")
        if isinstance(value, int):
            parts.append(f"{name} {size(value)}")
    return ", ".join(parts)


def size(count: float) -> str:
    """Format bytes for display: 512 bytes, 1.5 MiB, 2.0 GiB."""
    if count < KIB:
        return f"{count:g} bytes"
    power = int(math.log(count, KIB))
    return f"{count / KIB**power:.1f} {UNITS[power]}iB"
