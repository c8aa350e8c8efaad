"""Any device, for a process that starts a program of the user on it and does not compute itself."""

from __future__ import annotations

from dataclasses import replace

from raybench.devices import hosted, no_framework, probe
from raybench.devices.base import Assignment, Hardware

THREAD_VARIABLES = (
    *no_framework.VARIABLES,
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
    "NPROC",
    "PJRT_NPROC",
)
"""Environment variables from which a program's libraries take their number of threads."""

OWN_THREADS = "RAYBENCH_OMP_NUM_THREADS"
"""The variable with the user's OMP_NUM_THREADS, which Ray sets for its workers if it is not set."""


class ProgramDevice(no_framework.Cpu):
    """A device of any kind, which is only described: no framework is loaded, and no memory taken on it."""

    def set_threads(self, count: int) -> None:
        """Do nothing: the program's own number of threads is changed only if the grid sets one."""

    def describe(self) -> Hardware:
        """The hardware as the node detects it, without a framework."""
        ids = set(self.assignment.visible)
        entries = [entry for entry in probe() if entry.kind == self.kind and (not ids or ids & set(entry.ids))]
        if hosted(self.kind) or not entries:
            return super().describe()
        return replace(entries[0], count=len(ids) or entries[0].count)


def open_for_program(kind: str, assignment: Assignment) -> ProgramDevice:
    """The adapter of a kind for a process that starts a program on it."""
    device = ProgramDevice(assignment)
    device.kind = kind
    return device
