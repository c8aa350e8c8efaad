"""Processor, cores and memory of the host, for adapters of any framework."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import subprocess
import time
from pathlib import Path
from typing import Any

from raybench.core.memory import looks_like_oom
from raybench.devices.base import Assignment, Hardware


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


def peak_resident() -> int | None:
    """Peak resident memory of this process in bytes; None if it is not known."""
    try:
        match = re.search(r"^VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(match[1]) * 1024 if match else None


class Host:
    """Common part of all adapters: the trial's cores and threads on its node.

    An adapter of a framework implements setting threads (`set_threads`) and reading their number (`threads`).
    """

    kind = "cpu"
    hardware: Hardware
    synchronous = True
    own_clock = False

    def __init__(self, assignment: Assignment) -> None:
        self.assignment = assignment

    def hide_others(self) -> None:
        """Pin the process to its cores and hide NVIDIA and AMD GPUs.

        An adapter then shows the trial's assigned devices of its kind.
        """
        if self.assignment.cores and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, self.assignment.cores)
        os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        os.environ["HIP_VISIBLE_DEVICES"] = "-1"  # HIP ignores an empty value

    def open(self, precision: str) -> None:
        """Set the number of threads through the framework.

        OMP_NUM_THREADS is read only at import.

        Raises:
            ValueError: the device does not support that precision.
        """
        from raybench.devices import missing_precision

        missing = missing_precision(self.kind, precision) if precision else None
        if missing:
            raise ValueError(missing)
        self.set_threads(self.assignment.threads)

    def set_threads(self, count: int) -> None:
        """Set the number of the framework's threads on the host."""
        raise NotImplementedError

    def threads(self) -> int:
        """The framework's number of threads."""
        raise NotImplementedError

    def synchronize(self) -> None:
        """Do nothing: work on a CPU is done when the call returns."""

    def mark(self) -> Any:
        """The host's clock."""
        return time.perf_counter_ns()

    def wait_for(self, mark: Any) -> None:
        """Do nothing: the host's clock is read when it comes to the mark."""

    def elapsed(self, start: Any, end: Any) -> int:
        """Nanoseconds between two marks."""
        return int(end - start)

    def peak_memory(self) -> int:
        """The process's peak resident set, in bytes."""
        import resource

        scale = 1 if platform.system() == "Darwin" else 1024
        return peak_resident() or scale * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def describe(self) -> Hardware:
        """The processor and the cores this trial owns."""
        return Hardware(self.kind, model_name(), len(self.assignment.cores) or len(usable_cores()), total_memory())

    def runtime_conditions(self) -> dict[str, Any]:
        """Actual threads and usable cores, and no visible accelerator."""
        return {
            "threads": self.threads(),
            "cores": usable_cores(),
            "visible": list(self.assignment.visible),
            "tf32": False,
            "niceness": os.nice(0),
        }

    def is_oom(self, error: BaseException) -> bool:
        """Return whether the memory of the host or of the device ran out.

        The message is examined, because frameworks raise one type for every error.
        """
        return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and looks_like_oom(str(error)))


class AsynchronousHost(Host):
    """Common part of adapters whose devices do work later, and have no clock of their own."""

    synchronous = False

    def mark(self) -> Any:
        """The host's clock after a `synchronize`."""
        self.synchronize()
        return time.perf_counter_ns()
