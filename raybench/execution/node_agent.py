"""Agent of one node: runs the trials that the driver sends, each in a fresh process, and sends their events back.

Ray Tune starts one on each node (`ray_process`). It keeps fork servers running, so that a further trial only costs a
fork: in a shuffled grid frameworks alternate, an idle server uses no processor time, and loading a framework again
takes seconds.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Client
from pathlib import Path
from threading import Lock
from typing import Any

from raybench.core import events
from raybench.core.events import Event
from raybench.core.job import Job
from raybench.core.status import TrialStatus
from raybench.execution.files import local_code, local_folder, take_files
from raybench.execution.process import ForkServer
from raybench.trial.failure import end_event

MAX_TRIALS = 256
"""Maximum number of simultaneous trials on a node: one per core or accelerator."""


class NodeAgent:
    """Serves one driver until it closes the connection."""

    def __init__(self, address: Any, key: bytes, node: str, accelerators: Mapping[str, Sequence[str]]) -> None:
        self._connection = Client(address, authkey=key)
        self._sending, self._copying = Lock(), Lock()
        self._idle: dict[tuple[str, str], list[ForkServer]] = {}
        self._servers: list[ForkServer] = []
        self._code: dict[str, Mapping[str, bytes]] = {}
        self._send(node=node, accelerators=accelerators)

    def serve(self) -> None:
        """Run trials until the driver closes the connection; then kill the running ones."""
        # The kernel ends a fork server with the thread that started it; these threads live as long as the agent.
        threads = ThreadPoolExecutor(MAX_TRIALS)
        try:
            while True:
                message = self._connection.recv()
                self._code |= message["code"]
                threads.submit(self._run, Job.from_json(message["job"]), message["remote"])
        except (EOFError, OSError):
            for server in list(self._servers):
                server.close()
        finally:
            threads.shutdown(cancel_futures=True)

    def _send(self, **message: Any) -> None:
        with self._sending, suppress(OSError):  # the connection has closed, and this process ends next
            self._connection.send(message)

    def _run(self, job: Job, remote: bool) -> None:
        """Run an attempt and send its events; with the last, its files if they are not on the driver's disk."""
        end, files = None, {}
        try:
            local_job = self._local(job) if remote else job
            for event in self._events(local_job):
                if event["event"] in events.ENDS:
                    end = event  # sent below: the trial's files are complete only after its process has ended
                else:
                    self._send(event=event)
            files = take_files(Path(local_job.folder)) if local_job.folder != job.folder else {}
        except Exception as error:  # such as a full disk; without an end the driver would wait for ever
            failure: dict[str, Any] = {"type": type(error).__name__, "message": str(error)}
            is_full = os.strerror(errno.ENOSPC) in str(error)
            status = TrialStatus.LOST if is_full else TrialStatus.FAILED
            end = end or end_event(job, status, failure | ({"disk_full": True} if is_full else {}))
        self._send(event=end, files=files)

    def _local(self, job: Job) -> Job:
        """The job with its code and its folder on this node."""
        with self._copying:
            if job.workload["folder"]:
                job = replace(job, code=local_code(job, self._code[job.workload["digest"]]))
        return local_folder(job)

    def _events(self, job: Job) -> Iterator[Event]:
        key = (job.preloaded, job.python)
        server = self._server(key)
        yield from server.run(job)
        self._idle.setdefault(key, []).append(server)

    def _server(self, key: tuple[str, str]) -> ForkServer:
        """An idle fork server of a framework and environment, started if necessary."""
        while servers := self._idle.get(key):
            with suppress(IndexError):  # a different thread took it
                server = servers.pop()
                if server.alive:
                    return server
        server = ForkServer(*key)
        self._servers.append(server)
        return server
