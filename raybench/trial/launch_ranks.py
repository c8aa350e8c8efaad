"""The ranks of a trial: processes that train one model together.

Each rank has its own device. The trial's process forks one process per device before any device is initialized, with
the environment variables of torchrun, and then only reads their events. Every rank does the same work and emits the
same events, which are merged into one trial's; those of other nodes come through `raybench.trial.remote_ranks`.
"""

from __future__ import annotations

import faulthandler
import math
import multiprocessing
import os
import re
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from typing import Any, NoReturn

from raybench.core import events, memory
from raybench.core.cell import FUNCTION
from raybench.core.events import Event
from raybench.core.job import Job
from raybench.core.ledger import Ledger
from raybench.core.ports import free_port
from raybench.core.process_guard import die_with_parent, watch
from raybench.core.rank import Rank, set_rank
from raybench.core.status import TrialStatus
from raybench.engines import FRAMEWORKS
from raybench.results.epoch import over_ranks
from raybench.trial.exit_status import LONG_TAIL, classify_exit, tail
from raybench.trial.failure import end_event
from raybench.trial.journal import Send
from raybench.trial.remote_ranks import WRITE_SECONDS, FollowedRank, RemoteRank, forward, remote_ranks

GRACE_SECONDS = 1.0
"""Seconds for the other ranks to end after one has.

They may report the same error, or one that follows from the death of a rank."""

COMMUNICATION_SECONDS = 60.0  # most seconds in which the ranks measure the time of communication after their training


def ranks_of(job: Job) -> int:
    """Number of processes on all nodes that do a job together; those of a command are its own."""
    is_ranked = not job.is_command and FRAMEWORKS[job.cell.framework].has_ranks
    return job.cell.device.world_size if is_ranked else 1


def run_ranks(job: Job, work: Callable[[Send], None], send: Send, ledger: Ledger) -> None:
    """Run the work in a process for each rank and send merged events, as if from one.

    An error in any rank ends all of them, and is the trial's error.
    """
    count, nodes = ranks_of(job), job.cell.device.node_count
    port = job.master_port or free_port()
    if count == 1:
        if job.cell.workload.form == FUNCTION and job.cell.device.devices:  # the grid has a count
            _set_environment(Rank(), job, port)
        work(send)
        return
    local_count = count // nodes
    processes: list[_Process] = []
    try:
        for local_number in range(local_count):
            number = job.node_rank * local_count + local_number
            processes.append(_Process(Rank(number, count, local_number, local_count), job, port, work))
        if job.node_rank:
            forward(job, processes)
            end = end_event(job, TrialStatus.COMPLETED, {}, ledger.close()[1], ledger.loading_s)
            send(end)  # of this node's part, which nobody reads
        elif nodes > 1:
            with remote_ranks(job, count - local_count) as remote:
                send(_Ranks(job, [*processes, *remote], ledger).follow(send))
        else:
            send(_Ranks(job, processes, ledger).follow(send))
    finally:
        for process in processes:
            process.kill()


def _set_environment(rank: Rank, job: Job, port: int) -> None:
    """Set the environment variables that torchrun sets."""
    os.environ |= {"RANK": str(rank.number), "WORLD_SIZE": str(rank.count)}
    os.environ |= {"LOCAL_RANK": str(rank.local_number), "LOCAL_WORLD_SIZE": str(rank.local_count)}
    os.environ |= {"GROUP_RANK": str(job.node_rank), "MASTER_ADDR": job.master_address, "MASTER_PORT": str(port)}
    # By default Gloo uses the address to which the host's name resolves, which another node may not reach.
    if job.interface:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", job.interface)
    elif job.cell.device.node_count == 1:
        for _, name in socket.if_nameindex():
            if name in ("lo", "lo0"):
                os.environ.setdefault("GLOO_SOCKET_IFNAME", name)


class _Process(FollowedRank):
    """A rank that is a child of this process."""

    def __init__(self, rank: Rank, job: Job, port: int, work: Callable[[Send], None]) -> None:
        self._stack = tempfile.TemporaryFile()  # noqa: SIM115 — closed with the process
        context = multiprocessing.get_context("fork")
        pipe, end = context.Pipe()
        super().__init__(rank.number, pipe)
        self._process = context.Process(target=self._run, args=(rank, job, port, work, end))
        with warnings.catch_warnings():
            # The one other thread of this process only waits for a pipe to close.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._process.start()
        end.close()

    def _run(self, rank: Rank, job: Job, port: int, work: Callable[[Send], None], pipe: Connection) -> NoReturn:
        """Do the work in the new process and send its events; with the last one wait to be killed.

        A rank that exited, or freed what the ranks share, would break its connections, and the others would report that
        instead of their own error.
        """
        try:
            die_with_parent()
            faulthandler.register(signal.SIGUSR1, self._stack, all_threads=False)
            self.pipe.close()
            watch(pipe.fileno())  # where the parent's end does not end this process
            own_pid = os.getpid()

            def meet(value: Any) -> Any:
                pipe.send((time.perf_counter_ns(), (value,)))
                return pipe.recv()

            def send(event: Event) -> None:
                if os.getpid() != own_pid:  # a process that the training code has forked
                    os._exit(0)
                pipe.send((time.perf_counter_ns(), event))
                if event["event"] in events.ENDS:
                    sys.stdout.flush()
                    sys.stderr.flush()
                    threading.Event().wait()

            set_rank(replace(rank, meet=meet))
            _set_environment(rank, job, port)
            work(send)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(1)

    def read(self) -> None:
        """Read a message, or note its end."""
        try:
            at_ns, message = self.pipe.recv()
        except (EOFError, ConnectionError):
            self._process.join()
            return
        if isinstance(message, dict):
            self.events.append((at_ns, message))
        else:
            self.meets = [message[0]]

    @property
    def code(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._process.exitcode

    def write_stack(self) -> None:
        assert self._process.pid
        os.kill(self._process.pid, signal.SIGUSR1)

    def stack(self) -> str:
        self._stack.seek(0)
        return self._stack.read().decode(errors="replace")

    def kill(self) -> None:
        self._process.kill()
        self._process.join()


class _Ranks:
    def __init__(self, job: Job, processes: Sequence[_Process | RemoteRank], ledger: Ledger) -> None:
        self._job, self._processes, self._ledger = job, processes, ledger
        self._oom_kills = memory.oom_kills()
        self._timeout = time.monotonic() + (job.timeout or math.inf)
        self._trained: Event | None = None

    def follow(self, send: Send) -> Event:
        """Send the merged events of all ranks except the last; return that.

        Once all ranks are trained, no failure changes the status.
        """
        end = self._follow(send)
        if not self._trained or end["status"] == TrialStatus.COMPLETED:
            return end
        rank = f" in rank {end['error']['rank']}" if "rank" in end["error"] else ""
        warning = f"the time of communication was not measured{rank}: {end['error']['message']}"
        return {**self._trained, "event": end["event"], "warnings": [*self._trained["warnings"], warning]}

    def _follow(self, send: Send) -> Event:
        """Send the merged events of all ranks, and find their common end.

        The death of a rank is examined before any error, because it breaks the connections of the others, which then
        report that.
        """
        processes, deadline, ended = self._processes, math.inf, 0
        while True:
            running = [process.pipe for process in processes if process.code is None]
            # The pipe of a dead rank is open as long as a process that it has forked.
            ready = wait(running, min(GRACE_SECONDS, max(0.0, min(deadline, self._timeout) - time.monotonic())))
            for process in processes:
                if process.pipe in ready:
                    process.read()
            while all(process.events and process.events[0] is not process.last for process in processes):
                event = over_ranks([process.events.popleft()[1] for process in processes])
                if event["event"] == events.TRAINED:
                    self._trained = event
                    self._timeout = min(self._timeout, time.monotonic() + COMMUNICATION_SECONDS)
                else:
                    send(event)
            if all(process.meets for process in processes):
                value = processes[0].meets[0]
                for process in processes:
                    process.go_on(value)
            if died := next((process for process in processes if process.code is not None and not process.last), None):
                return self._end_of_dead(died)
            ends = {process.number: process.last for process in processes if process.last}
            has_error, is_late = any(event["error"] for _, event in ends.values()), time.monotonic() >= deadline
            if len(ends) == len(processes) or (has_error and is_late and not ready):
                return _end_of_all(ends, len(processes))
            if ends and not has_error and any(process.meets for process in processes):
                early, late = min(ends), next(process.number for process in processes if process.meets)
                message = f"rank {early} has ended, and rank {late} has not: all ranks need the same number of epochs"
                return self._failure(TrialStatus.FAILED, {"type": "UsageError", "message": message, "rank": early})
            if len(ends) > ended:
                ended, deadline = len(ends), time.monotonic() + GRACE_SECONDS
            elif is_late:  # end it, as under torchrun, so that a rank that waits for it fails
                deadline = math.inf
                for process in processes:
                    if process.last:
                        process.kill()
            elif time.monotonic() >= self._timeout:
                return self._end_at_timeout()

    def _failure(self, status: str, error: Mapping[str, Any]) -> Event:
        error, ledger = {**error, "output": tail(self._job)}, self._ledger
        return end_event(self._job, status, error, ledger.close()[1], ledger.loading_s)

    def _end_of_dead(self, process: _Process | RemoteRank) -> Event:
        """The end of a trial of which a rank has died without an event."""
        if process.end:
            return self._failure(process.end[0], {**process.end[1], "rank": process.number})
        is_oom = memory.oom_kills() > self._oom_kills
        status, error = classify_exit(process.code, self._job, is_oom, None, tail(self._job, LONG_TAIL))
        return self._failure(status, error | {"rank": process.number})

    def _end_at_timeout(self) -> Event:
        """The end of a trial that takes too long, with the line at which each rank is.

        The others of a rank that hangs wait for it.
        """
        for process in self._processes:
            process.write_stack()
        time.sleep(WRITE_SECONDS)
        stacks = {process.number: process.stack() for process in self._processes}
        return self._failure(TrialStatus.TIMEOUT, timeout_error(self._job, stacks))


def timeout_error(job: Job, stacks: Mapping[int, str]) -> dict[str, Any]:
    """The error of a trial that took too long, with the line at which each rank is, if it is known.

    `stacks` is what `faulthandler` wrote of each rank.
    """
    message = f"took longer than its timeout of {job.timeout:g} s"
    root = f"{job.code_folder}{os.sep}" if job.workload["folder"] else os.sep
    places = []
    for number, stack in stacks.items():
        lines = [f"{file}:{line}" for file, line in re.findall(r'(?m)^  File "(.*)", line (\d+) in ', stack)]
        user_lines = [line.removeprefix(root) for line in lines if line.startswith(root)]
        who = f"rank {number}" if job.cell.device.world_size > 1 else "it"
        places += [f"{who} is at {line}" for line in (user_lines or lines)[:1]]
    return {"type": "Timeout", "message": f"{message}: {'; '.join(places)}" if places else message}


def _end_of_all(end_events: Mapping[int, tuple[int, Event]], count: int) -> Event:
    """The common end of all ranks, or the first error with its rank."""
    errors = {number: event["error"] or {} for number, (_, event) in end_events.items()}
    kinds = {(error.get("type"), error.get("message")) for error in errors.values()}
    if len(end_events) == count and len(kinds) == 1:
        return over_ranks([end_events[number][1] for number in sorted(end_events)])
    first_failed = min((number for number, error in errors.items() if error), key=lambda number: end_events[number][0])
    return end_events[first_failed][1] | {"error": {**errors[first_failed], "rank": first_failed}}
