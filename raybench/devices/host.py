"""Processor, cores and memory of the host."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import subprocess
from pathlib import Path


def usable_cores() -> list[int]:
    """Cores this process may run on: its affinity, limited to the cgroup's quota."""
    has_affinity = hasattr(os, "sched_getaffinity")
    cores = sorted(os.sched_getaffinity(0)) if has_affinity else list(range(os.cpu_count() or 1))
    return cores[: max(1, _cgroup_quota(len(cores)))]


def _cgroup_quota(cores: int) -> int:
    """Whole cores that the cgroup's CPU bandwidth allows; `cores` without a limit."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return cores if quota == "max" else min(cores, -(-int(quota) // int(period)))
    except (OSError, ValueError):
        return cores


def model_name() -> str:
    """The processor's model name, or the architecture if it is unknown."""
    try:
        match = re.search(r"^(?:model name|Model)\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
        if match:
            return short_model_name(match.group(1))
    except OSError:
        pass
    return short_model_name(_sysctl("machdep.cpu.brand_string") or platform.processor() or platform.machine())


def short_model_name(name: str) -> str:
    """A processor's model name without what does not tell models apart, so that it fits into a table.

    Those are trademarks, `CPU`, the number of cores, and the frequency. Virtual machines hide the number of the model;
    then the frequency is all that is left of it.
    """
    name = re.sub(r"\((?:R|TM|C)\)|\b\d+-Core Processor\b|\b(?:CPU|Processor)\b", " ", name, flags=re.IGNORECASE)
    model, at, frequency = name.partition("@")
    return " ".join((model if re.search(r"\d", model) else f"{model} {at} {frequency}").split())


def _sysctl(name: str) -> str:
    """Read a macOS sysctl value; empty if it is missing, and on other systems."""
    if platform.system() != "Darwin":
        return ""
    completed = subprocess.run(["/usr/sbin/sysctl", "-n", name], capture_output=True, text=True, check=False)
    return completed.stdout.strip()


def boot_id() -> str:
    """Identifier of this boot of the host; empty if the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return _sysctl("kern.bootsessionuuid")


def machine_id() -> str:
    """Identifier of this installation of Linux, hashed; empty if the system has none.

    It distinguishes machines of the same name. Containers have that of their image, or none.
    """
    try:
        text = Path("/etc/machine-id").read_text().strip()
    except (OSError, ValueError):
        return ""
    # Programs must not publish the id itself (machine-id(5)).
    return hashlib.sha256(f"raybench {text}".encode()).hexdigest()[:12] if len(text) == 32 else ""


def total_memory() -> int | None:
    """Bytes of memory of the node; None if unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return None
