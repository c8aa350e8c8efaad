"""The actor of a node: runs the trials that Tune has placed there, each in a fresh process.

It keeps fork servers running until the end of the grid, whatever Tune does with its own actors, so that a further trial
only costs a fork: in a shuffled grid frameworks alternate, an idle server uses no processor time, and loading a
framework again takes seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil

from raybench.core.events import ENDS, Event, events_file
from raybench.core.job import Job
from raybench.core.ports import free_port
from raybench.core.status import TrialStatus
from raybench.execution.files import FileTail, local_code, local_folder, remove_abandoned, take_files
from raybench.execution.host_resources import HostResources
from raybench.execution.process import ForkServer
from raybench.planning.node import Node
from raybench.results.folder import has_end
from raybench.trial.failure import end_event
from raybench.trial.record import append_event

MAX_TRIALS_AT_ONCE = 256  # maximum number of simultaneous trials on a node: one per core or accelerator
SEND_S = 0.5  # seconds between two looks at what a trial has written, if the driver cannot see it
AttemptKey = tuple[str, int]  # a trial's id and the number of its attempt


@dataclass
class _Run:
    """An attempt at a trial on this node, with the checks before it."""

    jobs: asyncio.Queue[Job] = field(default_factory=asyncio.Queue)
    ended: dict[str, asyncio.Event] = field(default_factory=dict)  # by the folder of the job
    server: ForkServer | None = None
    task: asyncio.Task[None] | None = None
    is_cancelled: bool = False


class NodeServer:
    """Runs jobs; all methods are called through Ray.

    Args:
        node: where it runs.
    """

    def __init__(self, node: Node) -> None:
        self._address = node.address.partition("/")[0]
        self._resources = HostResources(node)
        # The kernel ends a fork server with the thread that started it; these threads live as long as the actor.
        self._threads = ThreadPoolExecutor(MAX_TRIALS_AT_ONCE)
        self._idle: dict[tuple[str, str], list[Future[ForkServer]]] = {}
        self._runs: dict[AttemptKey, _Run] = {}
        self._busy = 0

    async def accept(self, key: AttemptKey, job_json: Mapping[str, Any], code: Mapping[str, bytes]) -> str:
        """Take the next job of an attempt; return the folder of its files here, or "" if the driver sees them.

        Raises:
            OSError: its files cannot be written.
        """
        job = Job.from_json(job_json)
        if job.workload["folder"]:
            job = replace(job, code=local_code(job, code))
        local_job = local_folder(job)
        if job.cell.device.node_count > 1:
            local_job = replace(local_job, address=self._address, interface=_interface_of(self._address))
        run = self._runs.setdefault(key, _Run())
        run.ended[local_job.folder] = asyncio.Event()
        server_key = job.preloaded, job.python
        if not self._busy and server_key not in self._idle:  # while Tune starts the trial
            self._idle[server_key] = [self._threads.submit(ForkServer, *server_key)]
        run.jobs.put_nowait(local_job)
        return "" if local_job.folder == job.folder else local_job.folder

    async def meeting_point(self) -> dict[str, Any]:
        """Where the ranks of a trial on several nodes, of which this is the first, meet."""
        ports = {"master_port": free_port(self._address), "relay_port": free_port(self._address)}
        return {"master_address": self._address, **ports, "relay_key": secrets.token_hex(16)}

    async def run(self, key: AttemptKey, by_ray: Mapping[str, Sequence[str]]) -> AsyncIterator[Event]:
        """Run the jobs of an attempt as they are accepted; yield the events of the trial itself.

        The attempt does not depend on who reads this: `cancel` ends it.

        Args:
            by_ray: the ids of the accelerators that Ray gave the trial.

        Raises:
            OSError: the end of a job cannot be written.
        """
        run, queue = self._runs[key], asyncio.Queue[Event | None]()
        run.task = asyncio.create_task(self._perform(run, by_ray, queue))
        while (event := await queue.get()) is not None:
            yield event
        await run.task
        self._runs.pop(key, None)

    async def _perform(
        self, run: _Run, by_ray: Mapping[str, Sequence[str]], queue: asyncio.Queue[Event | None]
    ) -> None:
        """Run the checks before a trial and the trial; put its events, and None at the end."""
        is_check = True
        try:
            while is_check and not run.is_cancelled:
                job = self._resources.take(await run.jobs.get(), by_ray)
                is_check = bool(job.check)
                self._busy += 1
                try:
                    await self._do(run, job, None if is_check else queue)
                finally:
                    self._busy -= 1
                    self._resources.give_back(job)
                    run.ended[job.folder].set()
        finally:
            queue.put_nowait(None)

    async def _do(self, run: _Run, job: Job, queue: asyncio.Queue[Event | None] | None) -> None:
        """Run a job; its process is started by a thread of this actor."""
        loop = asyncio.get_running_loop()

        def put(event: Event) -> None:
            if queue:
                loop.call_soon_threadsafe(queue.put_nowait, event)

        def work() -> None:
            server = self._server((job.preloaded, job.python))
            run.server, ends = server.result(), []
            try:
                for event in run.server.run(job):
                    if event["event"] in ENDS:
                        ends.append(event)
                    else:
                        put(event)
            finally:
                run.server = None
            self._idle[job.preloaded, job.python].append(server)
            for event in ends:  # only now, since the next trial needs the server at once
                put(event)

        try:
            await loop.run_in_executor(self._threads, work)
        except Exception as error:  # such as a framework that cannot be loaded
            failure = {"type": type(error).__name__, "message": str(error)}
            append_event(Path(job.folder), end := end_event(job, TrialStatus.FAILED, failure))
            put(end)
        if not has_end(events_file(Path(job.folder))):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), job.folder)

    def _server(self, key: tuple[str, str]) -> Future[ForkServer]:
        """An idle fork server of a framework and environment, started if necessary by the calling thread."""
        idle = self._idle.setdefault(key, [])
        while idle:
            with contextlib.suppress(IndexError):  # a different thread took it
                future = idle.pop()
                if future.result().alive:
                    return future
        future = Future[ForkServer]()
        future.set_result(ForkServer(*key))
        return future

    async def files(self, key: AttemptKey, folder: str) -> AsyncIterator[tuple[str, bytes]]:
        """Yield what the job of a folder writes: parts of its events as "", then its files by their relative paths."""
        ended = self._runs[key].ended[folder]
        tail = FileTail(events_file(Path(folder)))
        while True:
            is_last = ended.is_set()
            if data := tail.read():
                yield "", data
            if is_last:
                break
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), SEND_S)
        for name, content in take_files(Path(folder)):
            yield name, content

    async def cancel(self, key: AttemptKey, status: str, message: str) -> None:
        """End an attempt whose actor of Tune has ended, or that has not begun; a running one gets this end."""
        if run := self._runs.pop(key, None):
            run.is_cancelled = True
            if run.server:
                error = {"type": "WorkerLost" if status == TrialStatus.LOST else "NodeFailed", "message": message}
                await asyncio.to_thread(run.server.close, (TrialStatus(status), error))
                if run.task:
                    await asyncio.wait([run.task])
            elif run.task:
                run.task.cancel()
            for ended in run.ended.values():
                ended.set()

    async def close(self) -> None:
        """End all fork servers, with running trials and the programs that they have started."""
        servers = [run.server for run in self._runs.values() if run.server]
        servers += [future.result() for idle in self._idle.values() for future in idle if future.done()]
        await asyncio.gather(*(asyncio.to_thread(server.close) for server in servers))

    async def sweep(self, grid: str) -> None:
        """Remove the files of a grid's attempts that were lost with this node."""
        remove_abandoned(Path(grid))


def _interface_of(address: str) -> str:
    names = (name for name, entries in psutil.net_if_addrs().items() if any(e.address == address for e in entries))
    return next(names, "")
