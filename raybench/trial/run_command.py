"""A timed run of the user's own command, from job to events.

The trial's process starts the command, reads its output and supervises it. Epochs come from lines of the output, or
from the scripts' own processes (`raybench.trial.command_trial`) by a channel.
"""

from __future__ import annotations

import json
import math
import os
import re
import resource
import shlex
import signal
import sys
import tempfile
import time
from collections import defaultdict, deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any, NoReturn

from raybench.core import events, memory
from raybench.core.events import Event
from raybench.core.job import Job
from raybench.core.ledger import NANO, Ledger
from raybench.core.ports import free_port
from raybench.core.secret_masking import mask
from raybench.core.settings import MISSING
from raybench.core.status import TrialStatus
from raybench.devices import Device, hosted
from raybench.devices.host import usable_cores
from raybench.devices.program import OWN_THREADS, THREAD_VARIABLES
from raybench.results.epoch import over_ranks
from raybench.training.epoch_record import finite
from raybench.trial.channel import JOB, VARIABLE, Reader
from raybench.trial.command_output import EPOCH_AGAIN, Lines, Metrics, OutputError
from raybench.trial.exit_status import classify_exit
from raybench.trial.failure import end_event, failure
from raybench.trial.journal import OUTPUT, Send, joules_reader
from raybench.trial.kept_output import write_through
from raybench.trial.known_output import recognize
from raybench.trial.launch_ranks import STACK_SECONDS, timeout_error
from raybench.trial.opening import OFFLINE, open_assigned, opening
from raybench.trial.program import (
    POLL_SECONDS,
    SETTLE_SECONDS,
    TERMINATION_SECONDS,
    Program,
    children_cpu_s,
    send_signal,
    status_of,
)
from raybench.trial.run import NOT_KEPT, PER_DEVICE, drop_unmeasured, per_device_batch_size
from raybench.workloads import WorkloadInfo
from raybench.workloads.command import ARGS, BY_TRIAL, EPOCH, EPOCH_BEGINS, MARKS, SETTINGS_FILE, Command, fill, filled
from raybench.workloads.own_files import working_folder
from raybench.workloads.parameters import PASSED

STARTED = "RAYBENCH_TRIAL_STARTED"
"""The environment variable with the time at which the trial began, by the host's monotonic clock."""

BUDGET_GRACE = 0.1
"""The part of its budget that a command may take longer to the next line that ends an epoch; then it is ended."""

METRICS_GRACE_S = 5.0
"""Seconds in which a command may print metrics of its last epoch after the line that ends it."""

KEPT_LINES, SEARCHED_LINES = 20, 200
"""Last lines of the output that are kept with an error, and those in which torchrun's report is looked for."""

_ROOT_CAUSE = re.compile(r"Root Cause .*?\brank +: (?P<rank>\d+).*?\bexitcode +: (?P<code>-?\d+)", re.DOTALL)
"""The rank that failed first, in the report of torchrun, which follows the output of the ranks."""

_NOT_OF_CAUSE = re.compile(r"\[rank\d+\]: |Extension modules: ")
"""Beginnings of lines about the exception of a rank, which may follow from that of another one, and about a signal."""

_THREAD = re.compile(r"(?:Current t|T)hread 0x.*\n")
"""The line before the stack of each thread, as `faulthandler` writes it."""

_OF_TORCHRUN = "torch/distributed/elastic/"
"""What the first line of that report has in it."""

_NOT_FOR_PROGRAMS = re.compile(r"(MLFLOW|RAY|TUNE)_|(PYTHONBREAKPOINT|SPT_NOENV|PL_DISABLE_FORK)$")
"""Environment variables of trackers, and those that Ray sets for its workers."""


def run_command(job: Job, send: Send, ledger: Ledger | None = None) -> None:
    """Run one attempt of a command, and send its events as `raybench.trial.run.run` yields them."""
    ledger = ledger or Ledger()
    started_ns = ledger.started
    warnings = [*job.warnings, *([] if memory.limit_applies(job.memory_limit) else [NOT_KEPT])]
    info = WorkloadInfo.from_json(job.workload)
    command = info.command
    assert command
    status, error = TrialStatus.COMPLETED, None
    run: _Run | None = None
    device: Device | None = None
    code = working_folder(job.code_folder, info.files, info.isolate)
    with tempfile.TemporaryDirectory(prefix="raybench-") as channel, code as folder:
        job = replace(job, code=str(folder))
        try:
            device = open_assigned(job)
            send(events.trial_started(job.trial, job.attempt, **opening(job, device), clock=command.clock))
            kind = _OnFurtherNode if job.node_rank else _Reported if command.reports else _Printed
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
    sections = run.ledger(wall_s) if run else {"setup": wall_s}
    end = end_event(job, status, error, wall_s, ledger.loading_s, sections, warnings)
    send({**end, **(run.evidence() if run else {})})


def values_of(job: Job, command: Command, channel: Path) -> dict[str, Any]:
    """The values for the names in braces; those that are not needed may be missing."""
    cell = job.cell
    known = [name for name in (*cell.to_json().get("settings", {}), *command.given) if name in PASSED]
    settings = {name: getattr(cell.settings, name, MISSING) for name in dict.fromkeys(known)}
    own = {name: value for name, value in settings.items() if value is not MISSING} | dict(cell.params or {})
    if (per_device := per_device_batch_size(cell)) is not MISSING:
        own |= {PER_DEVICE: per_device}
    values = own | {
        "count": cell.device.devices_per_node,
        "nodes": cell.device.node_count,
        "node_rank": job.node_rank,
        "master_addr": job.master_address,
        "master_port": job.master_port or free_port(),
        "seed": job.seed,
        "device": cell.device.kind,
        "threads": cell.device.threads,
        "framework": cell.framework,
        "data_dir": job.data_root,
        "output_dir": str(Path(job.folder).absolute() / OUTPUT),
    }
    settings_file = channel / "settings.json"
    settings_file.write_text(json.dumps(values, indent=1))
    other_size = "batch_size" if PER_DEVICE in command.given else PER_DEVICE
    left_out = (*command.names, other_size, *(BY_TRIAL if command.reports else ()))
    values[ARGS] = {name: value for name, value in own.items() if name not in left_out}
    return values | {SETTINGS_FILE: str(settings_file)}


class _Run:
    """A running command; subclasses differ in where its epochs come from."""

    def __init__(
        self, job: Job, info: WorkloadInfo, send: Send, channel: Path, started_ns: int, warnings: list[str]
    ) -> None:
        assert info.command
        self._job, self._info, self._command, self._send = job, info, info.command, send
        self._channel, self._started_ns, self._warnings = channel, started_ns, warnings
        self._last_lines: deque[str] = deque(maxlen=SEARCHED_LINES)
        self._streams, self._is_stopping = (Lines(), Lines()), False
        self._program: Program | None = None
        self._arguments: list[str] = []
        self._oom_kills = memory.oom_kills()

    def _lines(self, lines: list[str], at_ns: int) -> None:
        """Take lines that were read together."""

    def _look(self) -> None:
        """Look for news that are not in the output."""

    def _end(self, program: Program) -> None:
        """Check what a program has said that ended with status 0."""

    def _error(self) -> _End | None:
        """The error that the program itself has reported."""
        return None

    def ledger(self, wall_s: float) -> dict[str, float]:
        """Seconds of each section that was measured."""
        raise NotImplementedError

    def run(self) -> tuple[TrialStatus, dict[str, Any] | None]:
        """Run the program to its end; return the status and its error."""
        try:
            program = self._program = self._start()
        except OSError as error:
            name = str(error.filename or self._arguments[0])
            hint = f"; a file of {self._job.code_folder} is written as ./{name}" if "/" not in name else ""
            hint = "; make it executable: chmod +x" if isinstance(error, PermissionError) else hint
            return TrialStatus.FAILED, _usage_error(f"cannot start {name}: {error.strerror}{hint}")
        deadline = self._started_ns * NANO + self._job.timeout if self._job.timeout else math.inf
        try:
            while program.code is None:
                left_s = deadline - time.perf_counter_ns() * NANO
                if left_s <= 0:
                    raise _End(TrialStatus.TIMEOUT, timeout_error(self._job, self._stacks()))
                self._read(min(POLL_SECONDS, left_s))
                self._look()
            self._read_rest()
            if left := program.end_left():
                self._warnings.append(f"killed, as they ran on after the end of the command: {', '.join(left)}")
                self._read_rest()
            self._look()
            reported = self._error()
            if program.code and not reported:
                raise self._failure(program.code)
            if not reported:
                self._end(program)
        except _End as end:
            reported = end
        except OutputError as error:
            reported = _End(TrialStatus.FAILED, _usage_error(str(error)))
        if not reported:
            return TrialStatus.COMPLETED, None
        self._stop(program)
        output = "\n".join([*self._last_lines][-KEPT_LINES:])
        return reported.status, {**reported.error, "output": output} if reported.error else None

    def evidence(self) -> dict[str, Any]:
        """The command as it was started."""
        return {"command": mask(shlex.join(self._arguments))} if self._program else {}

    def close(self) -> None:
        """Kill the program if it runs."""
        if self._program:
            self._program.close()

    @cached_property
    def _values(self) -> dict[str, Any]:
        return values_of(self._job, self._command, self._channel)

    def _start(self) -> Program:
        values = self._values
        if "output_dir" in self._command.names or SETTINGS_FILE in self._command.names:
            Path(values["output_dir"]).mkdir(parents=True, exist_ok=True)
        (self._channel / JOB).write_text(json.dumps(self._job.to_json()))
        folder = self._job.code_folder
        scripts = [(folder / name).read_text(errors="replace") for name in self._info.files if name.endswith(".py")]
        self._arguments = filled(self._command, values, "\n".join(scripts))
        device = self._job.cell.device
        before = os.sched_getaffinity(0) if self._limits_threads and hasattr(os, "sched_getaffinity") else set()
        try:
            if before:  # at least a core per process
                os.sched_setaffinity(
                    0, (self._job.cores or usable_cores())[: max(device.threads, device.devices_per_node)]
                )
            return Program(self._arguments, self._environ(values), folder, VARIABLE)
        finally:
            if before:
                os.sched_setaffinity(0, before)

    @property
    def _limits_threads(self) -> bool:
        device = self._job.cell.device
        return "threads" in self._command.given or (hosted(device.kind) and device.devices_per_node > 1)

    def _environ(self, values: Mapping[str, Any]) -> dict[str, str]:
        environ = OFFLINE | {name: value for name, value in os.environ.items() if not _NOT_FOR_PROGRAMS.match(name)}
        environ.pop("PYTHONSAFEPATH", None)
        if own := environ.pop(OWN_THREADS, ""):
            environ["OMP_NUM_THREADS"] = own
        folders = environ.get("PATH", os.defpath).split(os.pathsep)
        environ |= {
            "PATH": os.pathsep.join(dict.fromkeys([str(Path(sys.executable).parent), *folders])),
            "PWD": str(self._job.code_folder),
            "PYTHONUNBUFFERED": "1",
            "PYTHONFAULTHANDLER": "1",
            "RAYBENCH_DATA": self._job.data_root,
            VARIABLE: str(self._channel),
            STARTED: str(self._started_ns),
        }
        if self._job.interface:
            environ.setdefault("GLOO_SOCKET_IFNAME", self._job.interface)
        if self._limits_threads:  # otherwise the libraries choose, as by hand
            device = self._job.cell.device
            count = max(1, device.threads // device.devices_per_node)
            environ |= dict.fromkeys(THREAD_VARIABLES, str(count))
        return environ | {name: fill(text, values) for name, text in self._command.env.items()}

    def _read(self, seconds: float) -> bool:
        """Take the new output; return whether there was some."""
        assert self._program
        is_new = False
        for stream, chunk, at_ns in self._program.read(seconds):
            is_new |= bool(chunk)
            write_through(chunk, Path(self._job.folder))
            lines = self._streams[stream].feed(chunk, last=not chunk)
            self._last_lines.extend(lines)
            if not self._is_stopping:
                self._lines(lines, at_ns)
        return is_new

    def _read_rest(self) -> None:
        """Take all output that is there; a child that runs on may keep a stream open, and write without end."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while self._read(0) and time.monotonic() < deadline:
            pass

    def _stacks(self) -> dict[int, str | None]:
        """What Python's `faulthandler` writes of each rank, which ends by it; None if a signal had stopped it."""
        assert self._program
        kept, self._is_stopping, stacks = self._last_lines, True, dict[int, str]()
        ranks, launchers = self._program.ranks()
        stopped = {number for number, pid in ranks.items() if status_of(pid)[0] == "T"}
        for pid in (*launchers, *ranks.values()):  # the end of a rank ends others, or lets the launcher end them
            send_signal(pid, signal.SIGSTOP)
        for number in ranks.keys() - stopped:
            self._last_lines = deque()
            send_signal(ranks[number], signal.SIGABRT)
            send_signal(ranks[number], signal.SIGCONT)
            deadline = time.monotonic() + STACK_SECONDS
            while status_of(ranks[number])[0] not in ("Z", "") and time.monotonic() < deadline:
                self._read(POLL_SECONDS)
            self._read_rest()
            # The main thread's stack comes last; any thread may have got the signal.
            stacks[number] = _THREAD.split("\n".join(self._last_lines))[-1]
        for launcher in launchers:
            send_signal(launcher, signal.SIGCONT)
        self._last_lines = kept
        return {number: stacks.get(number) for number in ranks}

    def _stop(self, program: Program) -> None:
        """End the program and what it has started."""
        self._is_stopping = True
        program.signal(signal.SIGTERM)
        deadline = time.monotonic() + TERMINATION_SECONDS
        while program.code is None and time.monotonic() < deadline:
            self._read(POLL_SECONDS)
            with suppress(_End):
                self._look()
        program.kill()
        self._read_rest()

    def _failure(self, code: int) -> _End:
        """The end of a program whose exit code is not 0."""
        who, of_rank, root = self._info.name, {}, _ROOT_CAUSE.search("\n".join(self._last_lines))
        if root:
            who, code, of_rank = f"{who}: rank {root['rank']}", int(root["code"]), {"rank": int(root["rank"])}
            self._last_lines = deque(takewhile(lambda line: _OF_TORCHRUN not in line, self._last_lines))
        prefix = f"[rank{root['rank']}]: " if root else ""
        own = [line.removeprefix(prefix).strip() for line in self._last_lines]
        last = next((line for line in reversed(own) if line and not _NOT_OF_CAUSE.match(line)), "")
        details = f": {last[:300]}" if last else "" if root else ", without any output"
        output = "\n".join([*self._last_lines][-KEPT_LINES:])
        memory.remove_limit()
        by_kernel = memory.oom_kills() > self._oom_kills
        status, error = classify_exit(code, self._job, by_kernel, None, output, who, details)
        return _End(status, error | of_rank)


class _End(Exception):
    """The program has to be ended, or has ended, with a status and its error."""

    def __init__(self, status: TrialStatus, error: Mapping[str, Any] | None) -> None:
        super().__init__()
        self.status, self.error = status, error


def _usage_error(message: str) -> dict[str, Any]:
    return {"type": "UsageError", "message": message}


def _diverged(message: str) -> _End:
    return _End(TrialStatus.DIVERGED, {"type": "Diverged", "message": message})


class _OnFurtherNode(_Run):
    """The command on a further node of a trial, which only has to run: the first one reports."""

    def ledger(self, wall_s: float) -> dict[str, float]:
        """Nothing is measured here."""
        return {"setup": wall_s}


class _Printed(_Run):
    """A command whose epochs are lines of its output."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._sections = dict.fromkeys(("setup", "train", "other"), 0.0)
        self._until_ns = self._started_ns
        self._in_epoch = False
        self._together = self._most_together = 0
        self._last: Event | None = None
        self._children_cpu_s = children_cpu_s()
        self._cpu_s = 0.0
        self._read_joules = joules_reader(self._job)
        self._began_j: float | None = None
        self._has_begun = False
        self._known: dict[str, Any] = {}  # what its output is recognized as
        self._spent_ns = 0  # when the epoch ended that has spent the budget

    def _start(self) -> Program:
        self._metrics = Metrics(self._command, self._values)
        program = super()._start()
        self._charge("setup", time.perf_counter_ns())
        return program

    def _charge(self, section: str, until_ns: int) -> float:
        """Charge the time until a moment to a section; return the seconds."""
        seconds = round((until_ns - self._until_ns) * NANO, 6)
        self._sections[section] += seconds
        self._until_ns = until_ns
        return seconds

    def _lines(self, lines: list[str], at_ns: int) -> None:
        for line in lines:
            if self._command.clock == "run" and not self._known and (known := recognize(line)):
                self._known = {"clock": "output", "known_output": known.name, "are_passes": known.are_passes}
                self._command = self._metrics.know(known)
            for mark in self._metrics.read(line):
                self._mark(mark, at_ns)

    def _mark(self, mark: str, at_ns: int) -> None:
        is_evaluation = self._known and not self._in_epoch and EPOCH_BEGINS in self._command.marks
        if mark == EPOCH_AGAIN and self._last and not self._in_epoch:
            self._last["ledger"]["train"] += self._charge("train", at_ns)
            self._add_later()
        elif mark == EPOCH and is_evaluation:
            kept = {name: value for name, value in self._metrics.current.items() if name.startswith("val/")}
            self._metrics.current = kept
            self._add_later()
            self._charge("other", at_ns)
        elif mark == EPOCH:
            self._epoch(at_ns)
        elif mark == EPOCH_BEGINS:
            if self._in_epoch and (self._known or EPOCH not in self._command.marks):
                self._epoch(at_ns)
            if self._spent_ns:
                self._end_at_budget()
            self._add_later()
            self._charge("other" if self._metrics.number else "setup", at_ns)
            self._in_epoch = True
        else:
            self._charge("setup", at_ns)
            self._has_begun = True

    def _look(self) -> None:
        """End the program after the epoch that has spent the budget or, if that takes much longer, in it."""
        if self._is_stopping or not self._job.budget or (self._program and self._program.code is not None):
            return
        if self._spent_ns:
            printed = {**(self._last["metrics"] if self._last else {}), **self._metrics.current}
            is_late = (time.perf_counter_ns() - self._spent_ns) * NANO > METRICS_GRACE_S
            usual = {*self._command.metric_names, *self._metrics.matched} - {*MARKS, self._command.time}
            if is_late or not usual - {*printed, *self._command.work}:
                self._end_at_budget()
        elif self._is_training and self._over_budget(time.perf_counter_ns()) > BUDGET_GRACE:
            self._epoch(time.perf_counter_ns(), partial=True)
            self._end_at_budget()

    def _end_at_budget(self) -> NoReturn:
        self._add_later()
        self._warnings.extend(self._metrics.warnings())
        raise _End(TrialStatus.COMPLETED, None)

    @property
    def _is_training(self) -> bool:
        """Whether the time since the last mark is one of training, as far as it is known before the next mark."""
        if self._command.time or EPOCH_BEGINS in self._command.marks:
            return self._in_epoch
        return self._has_begun or not self._command.shows_begin

    def _over_budget(self, at_ns: int) -> float:
        """What was spent beyond the budget by a moment, as a fraction of it; negative before, or without a budget."""
        budget = self._job.budget
        if budget is None:
            return -math.inf
        if budget.seconds is not None:
            open_s = (at_ns - self._until_ns) * NANO if self._is_training else 0.0
            return (self._sections["train"] + open_s) / budget.seconds - 1
        assert self._read_joules and budget.joules
        joules = self._read_joules()
        self._began_j = joules if self._began_j is None else self._began_j
        return (joules - self._began_j) / budget.joules - 1

    def _epoch(self, at_ns: int, partial: bool = False) -> None:
        """End an epoch; one that was left early is partial, and its work is not known."""
        if self._spent_ns and not partial:
            self._end_at_budget()
        metrics, work, own_s = self._metrics.end_epoch(partial)
        seconds = self._charge("train", at_ns)
        self._together = 1 if seconds or own_s is not None else self._together + 1
        self._most_together = max(self._most_together, self._together)
        if own_s is not None:
            self._sections["train"] += own_s - seconds
            self._sections["other"] += seconds - own_s
        elif self._metrics.number == 2 and seconds and self._last and not self._command.shows_begin and not partial:
            self._move_excess(seconds, "setup")  # such as imports
        self._flush()
        self._in_epoch = False
        kept, diverged = finite(metrics, self._warn_once)
        work = {} if partial else work
        counted = {name: int(work[name]) for name in ("steps", "examples") if name in work}
        units = {name: number for name, number in work.items() if name not in counted or list(work) == ["steps"]}
        self._last = events.epoch_ended(
            self._job.trial,
            self._job.attempt,
            epoch=self._metrics.number,
            ledger={"train": seconds if own_s is None else own_s},
            **({"cpu_s": cpu_s} if seconds and (cpu_s := self._spent_cpu_s()) else {}),
            **({"partial": True} if partial else {}),
            **({"epochs_in_read": self._together} if self._together > 1 else {}),
            **counted,
            **({"units": units} if units else {}),
            metrics=kept,
        )
        if diverged:
            raise _diverged(f"{diverged} in epoch {self._metrics.number}")
        self._has_begun = True
        if self._over_budget(at_ns) >= 0:
            self._spent_ns = at_ns

    def _move_excess(self, usual_s: float, section: str) -> None:
        """Move the time by which the latest epoch is longer than another to a section."""
        assert self._last
        ledger = self._last["ledger"]
        excess_s = max(0.0, ledger["train"] - usual_s)
        ledger["train"] = round(ledger["train"] - excess_s, 6)
        self._sections["train"] -= excess_s
        self._sections[section] += excess_s

    def _spent_cpu_s(self) -> float:
        """Processor seconds of the program and its descendants since the last call."""
        assert self._program
        children_s = math.nan
        while children_s != (children_s := children_cpu_s()):  # again if the program was waited for meanwhile
            running_s = self._program.cpu_s()
        before, self._cpu_s = self._cpu_s, children_s - self._children_cpu_s + running_s
        return round(max(0.0, self._cpu_s - before), 6)

    def _add_later(self) -> None:
        """Add metrics that follow the end of an epoch to that epoch."""
        if self._last and not self._in_epoch:
            later, diverged = finite(self._metrics.current, self._warn_once)
            self._last["metrics"] |= later
            self._metrics.current = {}
            if diverged:
                raise _diverged(f"{diverged} after epoch {self._metrics.number}")

    def _warn_once(self, message: str) -> None:
        self._warnings.extend([message] if message not in self._warnings else [])

    def _flush(self) -> None:
        """Send the last epoch, to which later metrics may have been added."""
        if self._last:
            self._send(self._last)
            self._last = None

    def _end(self, program: Program) -> None:
        if missing := self._metrics.missing(self._job.target.metric if self._job.target else ""):
            raise OutputError(missing)
        self._warnings.extend(self._metrics.warnings())
        no_epochs = not self._command.counts_epochs or (bool(self._known) and not self._metrics.number)
        if no_epochs:
            self._known = {}
        before_s = self._last["ledger"]["train"] if self._last and not self._command.time else math.inf
        if no_epochs or (self._in_epoch and (self._known or EPOCH not in self._command.marks)):
            self._epoch(program.ended_ns)
            self._move_excess(before_s, "other")  # what the program does after its last epoch, such as a test
        elif not self._metrics.number:
            raise OutputError("no line of the output ends an epoch")
        self._add_later()
        number, epochs = self._metrics.number, self._job.cell.settings.epochs
        if number > 1 and self._most_together == number:
            self._warnings.append(
                f"the lines of all {number} epochs arrived together, so that no time of an epoch is known: let the "
                "program write its output after each line (fflush() in awk and C, $| = 1 in Perl, `stdbuf -oL` before "
                "a program that uses C's stdio)"
            )
        if self._command.counts_epochs and epochs and number not in (epochs, math.ceil(epochs)):
            self._warnings.append(f"epochs in the output: {number}; the grid says epochs: {epochs:g}")

    def evidence(self) -> dict[str, Any]:
        """The command as it was started, the first line that each pattern matched, and patterns without a match."""
        found = {"matched": self._metrics.matched, "unmatched": self._metrics.unmatched()} if self._program else {}
        return super().evidence() | found | self._known

    def close(self) -> None:
        """Kill the program if it runs; send the last epoch, with the memory of the largest process."""
        super().close()
        cell = self._job.cell
        if self._last and hosted(cell.device.kind) and self._job.own_process:  # which has no other children
            peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
            self._last["memory_peak_bytes"] = peak * (1 if sys.platform == "darwin" else 1024)
        self._flush()

    def ledger(self, wall_s: float) -> dict[str, float]:
        """Seconds of each section that was measured."""
        sections = {name: round(seconds, 6) for name, seconds in self._sections.items()}
        sections["other"] = round(wall_s - sections["setup"] - sections["train"], 6)
        return sections


class _Reported(_Run):
    """A command whose processes report by `raybench.current_trial()`."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._reader = Reader(self._channel)
        self._queue: deque[Event] = deque()
        """Events of rank 0 that wait for those of other ranks."""
        self._epochs: dict[int, dict[int, Event]] = defaultdict(dict)
        """The epochs of each rank by their number."""
        self._ends: dict[int, Mapping[str, Any]] = {}
        self._ledger: Mapping[str, float] = {}
        self._provisional: Event | None = None

    def _look(self) -> None:
        for rank, message in self._reader.read():
            event = message.get("event") or message.get("provisional") or {}
            if "epoch" in event and event["event"] == "epoch_ended":
                self._epochs[rank][event["epoch"]] = event
            if rank == 0 and "event" in message:
                self._queue.append(event)
            elif rank == 0 and event:
                self._provisional = event
            if "end" in message:
                self._ends[rank] = message["end"]
            if rank == 0 and "ledger" in message:
                self._ledger = message["ledger"]
        self._forward(final=False)
        if self._reader.conflict:
            raise _End(TrialStatus.FAILED, {"type": "RankConflict", "message": self._reader.conflict})
        failed_ns = min((end["at"] for end in self._ends.values() if end["error"]), default=math.inf)
        if time.time_ns() - failed_ns > TERMINATION_SECONDS / NANO and (error := self._error()):
            raise error  # other ranks wait for that one

    def _forward(self, final: bool) -> None:
        """Send the events of rank 0, with the numbers of other ranks added once they are there."""
        while self._queue:
            event = self._queue[0]
            same = [event]
            for rank in range(1, self._reader.world_size) if event["event"] == "epoch_ended" else ():
                if other := self._epochs[rank].get(event["epoch"]):
                    same.append(other)
                elif rank not in self._ends and not final:
                    return
            self._queue.popleft()
            self._send(over_ranks(same))

    def _error(self) -> _End | None:
        self._forward(final=True)
        failed = {rank: end for rank, end in self._ends.items() if end["error"]}
        if not failed:
            return None
        self._warn()
        rank = min(failed, key=lambda rank: failed[rank]["at"])  # others may follow from it
        of_rank = {"rank": rank} if len(self._reader.processes) > 1 else {}
        return _End(TrialStatus(failed[rank]["status"]), failed[rank]["error"] | of_rank)

    def _end(self, program: Program) -> None:
        self._warn()
        silent = self._reader.world_size - len(self._reader.processes)
        if 0 < silent < self._reader.world_size:
            self._warnings.append(
                f"{silent} of {self._reader.world_size} ranks reported nothing, so what was counted is that of the "
                "others; call raybench.current_trial() in every rank"
            )
        if self._provisional and 0 not in self._ends:
            self._queue.append(self._provisional)
            self._forward(final=True)
            self._warnings.append("rank 0 ended by os._exit: what it logged after its last epoch is missing")
        reached = {rank: max(self._epochs[rank], default=0) for rank in self._reader.processes}
        message, of_rank = "", {}
        if not self._reader.processes:
            message = "ended without an epoch: write `for epoch in trial.epochs():` around its loop"
        elif 0 not in self._reader.processes:
            message = f"has reports of rank {', '.join(map(str, sorted(reached)))}, and none of rank 0"
        elif 0 not in self._ends and not self._provisional:
            message = "ended before its training did: rank 0 has reported neither its last epoch nor its end"
        elif len(set(reached.values())) > 1:
            first = min(reached, key=lambda rank: reached[rank])
            message = f"ended in rank {first} after epoch {reached[first]}, in others after {max(reached.values())}"
            of_rank = {"rank": first}
        if message:
            raise _End(TrialStatus.FAILED, _usage_error(f"{self._info.name} {message}") | of_rank)

    def _warn(self) -> None:
        for end in self._ends.values():
            self._warnings.extend(text for text in end["warnings"] if text not in self._warnings)

    def close(self) -> None:
        """Kill the program if it runs; send what was reported."""
        super().close()
        with suppress(_End):
            self._look()
        self._forward(final=True)

    def ledger(self, wall_s: float) -> dict[str, float]:
        """Rank 0's sections; the rest, before and after it, is `other`."""
        sections = dict(self._ledger)
        drop_unmeasured(sections)
        measured = sum(sections.values())
        return sections | {"other": round(sections.get("other", 0.0) + wall_s - measured, 6)}
