"""Trials in this process, one after another, without Ray: for tests and for a debugger.

Trials are not isolated from each other, and a timeout cannot be enforced: the times are not a benchmark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from raybench.core.job import Job
from raybench.core.status import TrialStatus
from raybench.environments import Interpreter, environment_label
from raybench.execution.base import Executor, MakeJob, Sink, Tell
from raybench.execution.host_resources import HostResources
from raybench.execution.schedule import Schedule
from raybench.planning.node import Node, probe_node
from raybench.trial.failure import end_event
from raybench.trial.launch_ranks import ranks_of
from raybench.trial.record import record


def run_job(job: Job, sink: Sink) -> None:
    """Run a job in this process."""
    count = ranks_of(job)
    if count > 1:
        message = f"count: {count} needs a process for each device, which --inline has not; use count: 1"
        sink(end_event(job, TrialStatus.FAILED, {"type": "Inline", "message": message, "phase": "setup"}))
    else:
        record(job, sink)


class InlineExecutor(Executor):
    """Executor without further processes; the load of the machine is not asked, as these times are no benchmark."""

    def nodes(self, environments: Sequence[str] = ()) -> list[Node]:
        """This machine, with raybench's own environment only."""
        refused = {key: Interpreter(problem=f"--inline cannot use {environment_label(key)}") for key in environments}
        return [replace(probe_node(), environments=refused)]

    def run(self, schedule: Schedule, make_job: MakeJob, sink: Sink, tell: Tell) -> None:
        """Run all trials, one after another."""
        while assignment := schedule.next():
            for check in (*assignment.work.checks, None):
                job = HostResources(assignment.nodes[0]).take(make_job(assignment, check))
                run_job(replace(job, own_process=False), sink)
                if check:
                    schedule.check_ended(check.key)
            schedule.release(assignment.work.trial.trial_id, assignment.work.attempt)
