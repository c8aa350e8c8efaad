"""A running command: how it is started, read, stopped and judged, wherever its epochs come from."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from raybench.core import memory
from raybench.core.job import Job
from raybench.core.ledger import NANO
from raybench.core.ports import free_port
from raybench.core.secret_masking import mask
from raybench.core.settings import MISSING
from raybench.core.status import TrialStatus
from raybench.devices import hosted
from raybench.devices.host import usable_cores
from raybench.devices.program import OWN_THREADS, THREAD_VARIABLES
from raybench.trial.channel import JOB, VARIABLE
from raybench.trial.exit_status import classify_exit
from raybench.trial.journal import OUTPUT_FOLDER, Send
from raybench.trial.kept_output import write_through
from raybench.trial.launch_ranks import timeout_error
from raybench.trial.opening import OFFLINE
from raybench.trial.program import POLL_SECONDS, SETTLE_SECONDS, TERMINATION_SECONDS, Program
from raybench.workloads.command import ARGS, BY_TRIAL, SETTINGS_FILE, Command, fill, filled
from raybench.workloads.info import CommandInfo
from raybench.workloads.parameters import PASSED

PER_DEVICE = "per_device_batch_size"

STARTED = "RAYBENCH_TRIAL_STARTED"
"""The environment variable with the time at which the trial began, by the host's monotonic clock."""

KEPT_LINES, SEARCHED_LINES = 20, 200
"""Last lines of the output that are kept with an error, and those in which torchrun's report is looked for."""

_ROOT_CAUSE = re.compile(r"Root Cause .*?\brank +: (?P<rank>\d+).*?\bexitcode +: (?P<code>-?\d+)", re.DOTALL)
"""The rank that failed first, in the report of torchrun, which follows the output of the ranks."""

_NOT_OF_CAUSE = re.compile(r"\s*(?:$|\[rank\d+\]: |Extension modules: )")
"""Beginnings of lines about the exception of a rank, which may follow from that of another one, and about a signal."""

_TRACEBACK = "Traceback (most recent call last)"

_OF_TORCHRUN = "torch/distributed/elastic/"  # what the first line of that report has in it

_NOT_FOR_PROGRAMS = re.compile(r"(MLFLOW|RAY|TUNE)_|(PYTHONBREAKPOINT|SPT_NOENV|PL_DISABLE_FORK)$")
"""Environment variables of trackers, and those that Ray sets for its workers."""


@dataclass(eq=False)
class End(Exception):
    """The program has to be ended, or has ended, with a status and its error."""

    status: TrialStatus
    error: Mapping[str, Any] | None = None


def wrong_use(message: str, **fields: Any) -> End:
    """The end of a command that is used in a wrong way, or whose output is not what its patterns need."""
    return End(TrialStatus.FAILED, {"type": "UsageError", "message": message, **fields})


def values_of(job: Job, command: Command, channel: Path) -> dict[str, Any]:
    """The values for the names in braces, also written to a file; those that are not needed may be missing."""
    cell = job.cell
    names = [name for name in (*cell.to_json().get("settings", {}), *command.given) if name in PASSED]
    settings = {name: getattr(cell.settings, name, MISSING) for name in dict.fromkeys(names)}
    varied = {name: value for name, value in settings.items() if value is not MISSING} | dict(cell.params or {})
    if (per_device := cell.per_device_batch_size) is not MISSING:
        varied |= {PER_DEVICE: per_device}
    values = varied | {
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
        "output_dir": str(Path(job.folder).absolute() / OUTPUT_FOLDER),
    }
    settings_file = channel / "settings.json"
    settings_file.write_text(json.dumps(values, indent=1))
    other_size = "batch_size" if PER_DEVICE in command.given else PER_DEVICE
    left_out = (*command.names, other_size, *(BY_TRIAL if command.reports else ()))
    values[ARGS] = {name: value for name, value in varied.items() if name not in left_out}
    return values | {SETTINGS_FILE: str(settings_file)}


def _by_line(environ: Mapping[str, str]) -> dict[str, str]:
    """An environment in which C programs, too, write a line when they print it, if the machine has `stdbuf`."""
    if not (stdbuf := shutil.which("stdbuf")):
        return dict(environ)
    shown = subprocess.run([stdbuf, "-oL", "env", "-0"], env=environ, capture_output=True, check=False).stdout
    return {**environ, **dict(item.split("=", 1) for item in os.fsdecode(shown).split("\0") if item)}


class CommandRun:
    """A run of a command, as on a further node of a trial: its output is only kept. Subclasses find its epochs."""

    def __init__(
        self, job: Job, info: CommandInfo, send: Send, channel: Path, started_ns: int, warnings: list[str]
    ) -> None:
        self._job, self._info, self._command, self._send = job, info, info.command, send
        self._channel, self._started_ns, self._warnings = channel, started_ns, warnings
        self._is_stopping = False
        self._program: Program | None = None
        self._arguments: list[str] = []
        self._oom_kills = memory.oom_kills()

    def _take(self, stream: int, chunk: bytes, at_ns: int) -> None:
        """Take a part of the output."""

    def _look(self) -> None:
        """Look for news; raise `End` if they end the run."""

    def _check(self, program: Program) -> None:
        """Check what a program has said that ended with status 0."""

    def _error(self) -> End | None:
        """The error that the program itself has reported."""
        return None

    def sections(self, wall_s: float) -> dict[str, float]:
        """Seconds of each section; a further node measures nothing."""
        return {"setup": wall_s}

    def run(self) -> tuple[TrialStatus, dict[str, Any] | None]:
        """Run the program to its end; return the status and its error."""
        try:
            program = self._program = self._start()
        except OSError as error:
            name = str(error.filename or self._arguments[0])
            hint = f"; a file of {self._job.code_folder} is written as ./{name}" if "/" not in name else ""
            hint = "; make it executable: chmod +x" if isinstance(error, PermissionError) else hint
            end = wrong_use(f"cannot start {name}: {error.strerror}{hint}")
            return end.status, {**(end.error or {})}
        deadline = self._started_ns * NANO + self._job.timeout if self._job.timeout else math.inf
        try:
            while program.code is None:
                left_s = deadline - time.perf_counter_ns() * NANO
                if left_s <= 0:
                    raise End(TrialStatus.TIMEOUT, timeout_error(self._job, {}))
                self._read(min(POLL_SECONDS, left_s))
                self._look()
            self._read_rest()
            if names := program.end_descendants():
                self._warnings.append(f"killed, as they ran on after the end of the command: {', '.join(names)}")
                self._read_rest()
            self._look()
            reported = self._error()
            if program.code and not reported:
                raise self._failure(program)
            if not reported:
                self._check(program)
        except End as end:
            reported = end
        if not reported:
            return TrialStatus.COMPLETED, None
        self._stop(program)
        output = "\n".join(program.last_lines(KEPT_LINES))
        return reported.status, {"output": output, **reported.error} if reported.error else None

    def evidence(self) -> dict[str, Any]:
        """The command as it was started."""
        return {"command": mask(shlex.join(self._arguments))} if self._program else {}

    def close(self) -> None:
        """Kill the program if it runs."""
        if self._program:
            self._program.close()

    def _start(self, values: Mapping[str, Any] | None = None) -> Program:
        """Start the program; the values for the names in braces are written now if they are not given."""
        values, job = values or values_of(self._job, self._command, self._channel), self._job
        if "output_dir" in self._command.names or SETTINGS_FILE in self._command.names:
            Path(values["output_dir"]).mkdir(parents=True, exist_ok=True)
        (self._channel / JOB).write_text(json.dumps(job.to_json()))
        folder = job.code_folder
        scripts = [(folder / name).read_text(errors="replace") for name in self._info.files if name.endswith(".py")]
        self._arguments = filled(self._command, values, "\n".join(scripts))
        if not self._limits_threads or not hasattr(os, "sched_setaffinity"):
            return Program(self._arguments, self._environ(values), folder, VARIABLE)
        device, inherited_cores = job.cell.device, os.sched_getaffinity(0)
        cores = (job.cores or usable_cores())[: max(device.threads, device.devices_per_node)]  # one per process
        free_cores = ({*inherited_cores} if job.exclusive else {*job.cores}) - {*cores}
        try:
            os.sched_setaffinity(0, cores)
            return Program(self._arguments, self._environ(values), folder, VARIABLE)
        finally:  # its output is read on a core that it does not use, if there is one
            os.sched_setaffinity(0, free_cores if free_cores and job.own_process else inherited_cores)

    @property
    def _limits_threads(self) -> bool:
        device = self._job.cell.device
        return "threads" in self._command.given or (hosted(device.kind) and device.devices_per_node > 1)

    def _environ(self, values: Mapping[str, Any]) -> dict[str, str]:
        environ = OFFLINE | {name: value for name, value in os.environ.items() if not _NOT_FOR_PROGRAMS.match(name)}
        environ.pop("PYTHONSAFEPATH", None)
        if threads := environ.pop(OWN_THREADS, ""):
            environ["OMP_NUM_THREADS"] = threads
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
        return _by_line(environ | {name: fill(text, values) for name, text in self._command.env.items()})

    def _read(self, seconds: float) -> bool:
        """Take the new output; return whether there was some."""
        assert self._program
        is_new = False
        for stream, chunk, at_ns in self._program.read(seconds):
            is_new |= bool(chunk)
            write_through(chunk, Path(self._job.folder))
            if not self._is_stopping:
                self._take(stream, chunk, at_ns)
        return is_new

    def _read_rest(self) -> None:
        """Take all output that is there; a child that runs on may keep a stream open, and write without end."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while self._read(0) and time.monotonic() < deadline:
            pass

    def _stop(self, program: Program) -> None:
        self._is_stopping = True
        program.signal(signal.SIGTERM)
        deadline = time.monotonic() + TERMINATION_SECONDS
        while program.code is None and time.monotonic() < deadline:
            self._read(POLL_SECONDS)
        program.kill()
        self._read_rest()

    def _failure(self, program: Program) -> End:
        """The end of a program whose exit code is not 0."""
        lines, who, of_rank, code = program.last_lines(SEARCHED_LINES), self._info.name, {}, program.code
        prefix = ""
        if root := _ROOT_CAUSE.search("\n".join(lines)):
            who, code, of_rank = f"{who}: rank {root['rank']}", int(root["code"]), {"rank": int(root["rank"])}
            lines, prefix = [*takewhile(lambda line: _OF_TORCHRUN not in line, lines)], f"[rank{root['rank']}]: "
        texts = [line.removeprefix(prefix) for line in lines]
        if traces := [number for number, text in enumerate(texts) if text.startswith(_TRACEBACK)]:
            texts = [text for text in texts[traces[-1] + 1 :] if not text[:1].isspace()][:1]  # of several lines
        last = next((text.strip() for text in reversed(texts) if not _NOT_OF_CAUSE.match(text)), "")
        details = f": {last[:300]}" if last else "" if root else ", without any output"
        output = "\n".join(lines[-KEPT_LINES:])
        memory.remove_limit()
        by_kernel = memory.oom_kills() > self._oom_kills
        status, error = classify_exit(code, self._job, by_kernel, None, output, who, details)
        return End(status, {**error, **of_rank, "output": output})
