"""Any device, for a process that starts a program of the user on it and does not compute itself."""

from __future__ import annotations

import os
from dataclasses import replace

from raybench.devices import KINDS, hosted, no_framework, probe
from raybench.devices.base import Assignment, Hardware

THREAD_VARIABLES = (
    *no_framework.VARIABLES,
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
    "NPROC",
    "PJRT_NPROC",
)
"""Environment variables from which a program's libraries take their number of threads."""


class ProgramDevice(no_framework.Cpu):
    """A device of any kind, which is only described: no framework is loaded, and no memory taken on it."""

    def hide_others(self) -> None:
        """Pin the process to its cores and show programs that it starts only the assigned accelerators."""
        declared = KINDS.get(self.kind)
        variable = declared.visible_variable if declared else ""
        inherited = os.environ.get(variable) if variable else None
        super().hide_others()
        visible = ",".join(self.assignment.visible) or inherited
        if variable and visible is not None:
            os.environ[variable] = visible
        elif variable:
            os.environ.pop(variable, None)
        if declared and declared.show:
            declared.show(self.assignment.visible)
        os.environ.update(declared.program_variables if declared else {})

    def set_threads(self, count: int) -> None:
        """Do nothing: the program's own number of threads is changed only if the grid sets one."""

    def describe(self) -> Hardware:
        """The hardware as the node detects it, without a framework."""
        ids = set(self.assignment.visible)
        found = [entry for entry in probe() if entry.kind == self.kind and (not ids or ids & set(entry.ids))]
        if hosted(self.kind) or not found:
            return super().describe()
        return replace(found[0], count=len(ids) or found[0].count)


def open_for_program(kind: str, assignment: Assignment) -> ProgramDevice:
    """The adapter of a kind for a process that starts a program on it."""
    device = ProgramDevice(assignment)
    device.kind = kind
    return device
