"""A timed run of the user's own command, from job to events.

The trial's process starts the command, reads its output and supervises it. Epochs come from lines of the output, or
from the scripts' own processes (`raybench.trial.command_trial`) by a channel.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path

from raybench.core import events, memory
from raybench.core.job import Job
from raybench.core.ledger import NANO, Ledger
from raybench.core.status import TrialStatus
from raybench.devices import Device
from raybench.trial.command_run import CommandRun
from raybench.trial.failure import end_event, failure
from raybench.trial.journal import Send
from raybench.trial.opening import open_assigned, opening
from raybench.trial.printed_run import PrintedRun
from raybench.trial.reported_run import ReportedRun
from raybench.trial.run import NOT_KEPT
from raybench.workloads import read_info
from raybench.workloads.info import CommandInfo
from raybench.workloads.own_files import working_folder


def run_command(job: Job, send: Send, ledger: Ledger | None = None) -> None:
    """Run one attempt of a command, and send its events as `raybench.trial.run.run` yields them."""
    ledger = ledger or Ledger()
    started_ns = ledger.started
    warnings = [*job.warnings, *([] if memory.limit_applies(job.memory_limit) else [NOT_KEPT])]
    info = read_info(job.workload)
    assert isinstance(info, CommandInfo)
    status, error = TrialStatus.COMPLETED, None
    run: CommandRun | None = None
    device: Device | None = None
    code = working_folder(job.code_folder, info.files, info.isolate)
    with tempfile.TemporaryDirectory(prefix="raybench-") as channel, code as folder:
        job = replace(job, code=str(folder))
        try:
            device = open_assigned(job)
            send(events.trial_started(job.trial, job.attempt, **opening(job, device), clock=info.command.clock))
            kind = CommandRun if job.node_rank else ReportedRun if info.command.reports else PrintedRun
            run = kind(job, info, send, Path(channel), started_ns, warnings)
            status, error = run.run()
        except (Exception, SystemExit) as exc:  # not KeyboardInterrupt, which in the driver's process is the user's
            status, error = failure(exc, device, "train" if run else "setup", job)
        finally:
            if run:
                run.close()
    if error:
        error.setdefault("phase", "train")
    wall_s = round((time.perf_counter_ns() - started_ns) * NANO, 6)
    sections = run.sections(wall_s) if run else {"setup": wall_s}
    end = end_event(job, status, error, wall_s, ledger.loading_s, sections, warnings)
    send({**end, **(run.evidence() if run else {})})
