"""Executor on Ray: this process plans and records, a child process owns Ray, agents on the nodes run the trials."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import metadata
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from queue import Empty, Queue
from signal import Signals
from typing import Any

import psutil

from raybench.core import events
from raybench.core.job import Job
from raybench.core.status import TrialStatus
from raybench.core.temp_folders import Scratch, sweep
from raybench.devices import KINDS, Hardware, hosted
from raybench.devices.program import OWN_THREADS
from raybench.environments import own_environ
from raybench.errors import ExecutionError
from raybench.execution.base import MakeJob, Sink, Tell
from raybench.execution.files import code_files, put_files
from raybench.execution.ray_settings import RAY_PROGRAMS, RAY_SETTINGS, private_to_user
from raybench.execution.scheduler import AssignedWork, Dispatcher
from raybench.monitoring.host import HostLoad, LoadMeter
from raybench.planning.node import Node, probe_node

POLL_S = 0.5
"""Seconds between two checks of Ray while no message comes."""

START_TIMEOUT_S = 600.0
"""Timeout for the start of Ray and of the first agent; at a load of 15 on two cores Ray alone has taken 200 s."""

SLOW_START_S = 20.0
"""Seconds of starting Ray after which a message says that it is slow."""

SILENT_S = 24.0
"""Seconds without an answer of Ray's head after which Ray counts as lost."""

RETURN_TIMEOUT_S = 600.0
"""Seconds to wait for a node that the remaining trials need; a machine restarts within some minutes."""

SETTLE_S = 1.0
"""Seconds to wait, after the loss of a worker, for the end of Ray's own processes, which may be the cause."""

CLOSE_TIMEOUT_S = 10.0
"""Seconds to wait until the child process has killed everything that it had started."""

AGAIN = "Finished trials are kept; run the same command again for the rest."

NO_NODE = {"type": "NodeGone", "message": "all nodes that can run it were lost and did not return"}


class RayProcess:
    """The child process that owns Ray, and the connections to it and to the agents."""

    def __init__(self, address: str | None, cores: int) -> None:
        self.address = address
        self.inbox: Queue[tuple[Connection, Mapping[str, Any]]] = Queue()
        self._key = secrets.token_bytes(32)
        self._scratch = Scratch(for_sockets=True)
        folder = self._scratch.path
        self._log = folder / "ray.log"
        self._listeners = [self._listen(str(folder / "driver"))]
        environ = {**RAY_SETTINGS, **own_environ(), "RAY_TMPDIR": str(folder)}
        environ[OWN_THREADS] = os.environ.get("OMP_NUM_THREADS", "")
        if address is None:
            environ |= private_to_user(folder / "token")
            environ.pop("RAY_AUTH_TOKEN", None)  # it would count instead
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "raybench.execution.ray_process"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=folder,  # Ray adds the current folder to its workers' import path
                env=environ,
                start_new_session=True,
            )
        paths = {"listener": str(folder / "driver"), "storage": str(folder / "tune")}
        settings = {**paths, "key": self._key.hex(), "address": address, "cores": cores}
        assert self._process.stdin
        self._process.stdin.write(json.dumps(settings).encode() + b"\n")
        self._process.stdin.flush()
        self._child: Connection | None = None
        self._ray: dict[str, psutil.Process] = {}
        self._silent_polls = 0
        self._failure = ""
        self.own_address = ""
        self.alive: set[str] = set()
        self.agents: dict[str, Agent] = {}
        self._agents_started = False

    def _listen(self, address: Any) -> Listener:
        """Accept connections and read their messages, in threads."""
        listener = Listener(address, backlog=64, authkey=self._key)

        def read(connection: Connection) -> None:
            try:
                while True:
                    self.inbox.put((connection, connection.recv()))
            except (EOFError, OSError):
                self.inbox.put((connection, {"closed": True}))

        def accept() -> None:
            while True:
                try:
                    connection = listener.accept()
                except Exception:  # closed, or a stranger without the key
                    if self._process.poll() is not None:
                        return
                    continue
                threading.Thread(target=read, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, name="accept", daemon=True).start()
        return listener

    def next_message(self) -> tuple[Connection, Mapping[str, Any]] | None:
        """The next message of an agent, or of the child that is not about Ray's state; None if there is none soon."""
        try:
            connection, message = self.inbox.get(timeout=POLL_S)
        except Empty:
            # Polls are counted, not seconds: after a suspension of this machine Ray has to answer first.
            self._silent_polls += bool(self.own_address)
            self.check()
            return None
        if "alive" in message:
            self._silent_polls, self.alive = 0, set(message["alive"])
        elif "started" in message:
            self._child, self.own_address = connection, message["started"]
        elif "error" in message:
            self._failure = message["error"]
        elif connection is not self._child or "nodes" in message:
            return connection, message
        self.check()
        return None

    def check(self, settle_s: float = 0.0) -> None:
        """Check that Ray is there, if necessary for some seconds."""
        deadline = time.monotonic() + settle_s
        while True:
            reason = self._reason()
            if reason:
                raise ExecutionError(f"{reason}. {AGAIN}")
            if time.monotonic() >= deadline:
                return
            time.sleep(0.1)

    def _reason(self) -> str:
        """Why Ray cannot be used; empty if it can."""
        if self._failure:
            return f"Ray reported an error: {self._failure}" if self.own_address else f"{self._target}: {self._failure}"
        code = self._process.poll()
        if code is not None:
            how = f" by {Signals(-code).name}" if code < 0 else ""
            lines = self._log.read_text(errors="replace").strip().splitlines()
            return ": ".join([f"The process of Ray was ended{how}", *lines[-1:]])
        self._find_ray_processes()
        for name, process in self._ray.items():
            with suppress(psutil.Error):
                if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                    continue
            return f"Ray's {RAY_PROGRAMS[name]} ended"
        if self._silent_polls * POLL_S >= SILENT_S:
            return f"Ray has not answered for {SILENT_S:g} s"
        return ""

    @property
    def _target(self) -> str:
        return "Ray did not start" if self.address is None else f"cannot connect to a Ray cluster at {self.address}"

    def _find_ray_processes(self) -> None:
        if self.address is None and len(self._ray) < len(RAY_PROGRAMS):
            with suppress(psutil.Error):
                for process in psutil.Process(self._process.pid).children():
                    with suppress(psutil.Error):
                        if process.name() in RAY_PROGRAMS:
                            self._ray.setdefault(process.name(), process)

    def wait_started(self) -> None:
        """Wait until Ray has started or the cluster has answered."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self.own_address:
            self.next_message()
            if time.monotonic() > deadline:
                raise ExecutionError(f"{self._target} within {START_TIMEOUT_S:g} s")

    def probe(self, environments: Sequence[str]) -> list[tuple[Node, Mapping[str, float]]]:
        """Every node of the cluster with its environments, and the resources that Ray offers there."""
        self.wait_started()
        assert self._child
        self._child.send({"probe": list(environments)})
        while True:
            answer = self.next_message()
            if answer and "nodes" in answer[1]:
                nodes: list[tuple[Node, Mapping[str, float]]] = answer[1]["nodes"]
                return nodes

    def start_agents(self, nodes: Sequence[Node]) -> None:
        """Start an agent on each node, once; those of a cluster connect over the network."""
        if self._agents_started:
            return
        self._agents_started = True
        self.wait_started()
        assert self._child
        if self.address is not None:
            self._listeners.append(self._listen((self.own_address, 0)))
        agent = {"listener": self._listeners[-1].address, "key": self._key}
        self._child.send(
            {"agents": [agent | {"node": node.name, "ray_address": node.address} for node in nodes if node.hardware]}
        )

    def close(self) -> None:
        """Kill everything that the child has started, and remove its folder."""
        assert self._process.stdin
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(CLOSE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        _kill_session(self._process.pid)  # if it was killed, what it had started would end only later
        for listener in self._listeners:
            with suppress(OSError):
                listener.close()
        self._scratch.close()
        sweep()  # the folders of killed trials


def _kill_session(leader: int) -> None:
    """Kill the processes of a session."""
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if os.getsid(process.pid) == leader:
                process.kill()


class RayExecutor:
    """Runs trials on this machine (`address` None: a local Ray, ended with it) or on a running cluster."""

    def __init__(self, address: str | None = None) -> None:
        self._address = address
        self._meter = LoadMeter() if address is None else None  # measures while the grid is planned
        self._ray: RayProcess | None = None
        self._cores = 0

    def _start(self) -> RayProcess:
        if self._ray is None:
            self._ray = RayProcess(self._address, self._cores)
        return self._ray

    def nodes(self, environments: Sequence[str] = ()) -> list[Node]:
        """This machine, without Ray; or every node of the cluster."""
        if self._address is None:
            node = probe_node(environments=environments)
            self._cores = node.cores
            return [node]
        answers = self._start().probe(environments)
        return [limit_to_ray(node, resources) for node, resources in answers]

    def host_load(self) -> HostLoad | None:
        """Other programs' use of this machine; not measured for a cluster, whose trials may run elsewhere."""
        return self._meter.read() if self._meter else None

    def run(self, dispatcher: Dispatcher, make_job: MakeJob, sink: Sink, tell: Tell) -> None:
        """Run until the dispatcher has nothing left."""
        _Grid(self._start(), dispatcher, make_job, sink, tell).run()

    def close(self) -> None:
        """End the child process, with a local Ray and all trials."""
        if self._ray is not None:
            self._ray.close()
            self._ray = None


class Agent:
    """A connected agent."""

    def __init__(self, connection: Connection, node: Node, accelerators: Mapping[str, Sequence[str]]) -> None:
        self.connection, self.node, self._accelerators = connection, node, accelerators
        self._sent_code: set[str] = set()

    def start(self, job: Job) -> None:
        """Send a job; on a cluster with the user's files, once, and with the accelerators as Ray names them."""
        code = {}
        if self.node.address:
            Path(job.folder).mkdir(parents=True, exist_ok=True)
            job = replace(job, visible=self._ray_ids(job))
            digest = job.workload["digest"]
            if job.workload["folder"] and digest not in self._sent_code:
                code = {digest: code_files(job)}
                self._sent_code.add(digest)
        self.connection.send({"job": job.to_json(), "code": code, "remote": bool(self.node.address)})

    def _ray_ids(self, job: Job) -> list[str]:
        """The ids of the job's accelerators: Ray may number them differently if it was given only some of a host."""
        kind = job.cell.device.kind
        ids = [each for entry in self.node.find(kind) for each in entry.ids]
        ray_ids = self._accelerators.get(KINDS[kind].ray_resource or "", ())
        names = dict(zip(ids, ray_ids, strict=False))
        return [names.get(each, each) for each in job.visible]


class _Grid:
    """The trials of one grid on the agents of one Ray."""

    def __init__(self, ray: RayProcess, dispatcher: Dispatcher, make_job: MakeJob, sink: Sink, tell: Tell) -> None:
        self._ray, self._dispatcher, self._make_job, self._sink, self._tell = ray, dispatcher, make_job, sink, tell
        self._nodes = {node.name: node for node in dispatcher.nodes}
        self._folders: dict[str, Path] = {}
        self._ray_version = metadata.version("ray")

    def run(self) -> None:
        """Run until nothing is left."""
        self._dispatcher.present(self._ray.agents)
        started_s, started, limit_s = time.monotonic(), False, SLOW_START_S
        self._ray.start_agents(list(self._nodes.values()))
        stranded_since = time.monotonic()
        while not self._dispatcher.finished:
            while placement := self._dispatcher.next():
                self._start(placement)
            answer = self._ray.next_message()
            if answer:
                self._handle(*answer)
            self._drop_dead_nodes()
            now = time.monotonic()
            started |= bool(self._ray.agents)
            if not started and now - started_s > limit_s:
                if limit_s == START_TIMEOUT_S:
                    raise ExecutionError(f"Ray has not started a worker within {limit_s:g} s. {AGAIN}")
                self._tell(f"Ray has not started after {limit_s:g} s; on a busy machine it takes minutes.")
                limit_s = START_TIMEOUT_S
            if not self._dispatcher.stranded:
                stranded_since = now
            elif started and now - stranded_since > RETURN_TIMEOUT_S:
                for work in self._dispatcher.give_up():
                    if not work.check:
                        self._sink(events.trial_ended(work.name, work.attempt, TrialStatus.LOST, error=NO_NODE))

    def _start(self, placement: AssignedWork) -> None:
        job = self._make_job(placement)
        job = replace(job, versions={**job.versions, "ray": self._ray_version})
        self._folders[job.trial] = Path(job.folder)
        with suppress(OSError):  # its connection is closed, which the next message says
            self._ray.agents[placement.node.name].start(job)

    def _handle(self, connection: Connection, message: Mapping[str, Any]) -> None:
        if "node" in message:
            name = message["node"]
            self._ray.agents[name] = Agent(connection, self._nodes[name], message["accelerators"])
            self._ray.alive.add(self._nodes[name].address)  # the last heartbeat may be from before its return
            self._dispatcher.present(self._ray.agents)
        elif "event" in message:
            event = message["event"]
            running = {(each.work.name, each.work.attempt): each for each in self._dispatcher.running}
            placement = running.get((event["trial"], event["attempt"]))
            if placement is None:  # given up as lost before
                return
            if message.get("files"):
                put_files(self._folders[event["trial"]], message["files"])
            own_end = self._sink(event)
            if event["event"] in events.ENDS:
                lost = event.get("status") == TrialStatus.LOST and not own_end
                self._dispatcher.release(event["trial"], event["attempt"], lost)
        elif "closed" in message:
            for name in [name for name, agent in self._ray.agents.items() if agent.connection is connection]:
                self._ray.check(SETTLE_S)
                self._lose(name)

    def _drop_dead_nodes(self) -> None:
        """Close the connections to nodes that Ray has lost: those of a machine without power stay open."""
        for name, agent in list(self._ray.agents.items()):
            if agent.node.address and self._ray.alive and agent.node.address not in self._ray.alive:
                self._lose(name)

    def _lose(self, name: str) -> None:
        """End the running attempts of a node; one is tried again unless its own record says that it has ended."""
        agent = self._ray.agents.pop(name)
        agent.connection.close()
        self._dispatcher.present(self._ray.agents)
        self._tell(f"Ray's worker on {name} was lost, with its running trials; Ray starts a new one when it can.")
        error = {"type": "WorkerLost", "message": "Ray's worker or its node was lost"}
        for placement in [each for each in self._dispatcher.running if each.node.name == name]:
            work, own_end = placement.work, None
            if not work.check:  # a check starts again
                own_end = self._sink(events.trial_ended(work.name, work.attempt, TrialStatus.LOST, error=error))
            self._dispatcher.release(work.name, work.attempt, lost=not own_end, begun=not work.check)


def limit_to_ray(node: Node, ray_resources: Mapping[str, float]) -> Node:
    """Restrict a cluster node to the resources that Ray offers: custom resources, cores and accelerators."""
    basic = ("CPU", "memory", "object_store_memory")
    resources = {
        name: amount for name, amount in ray_resources.items() if name not in basic and not name.startswith("node:")
    }
    hardware = [_cut(entry, ray_resources) for entry in node.hardware]
    return replace(node, resources=resources, hardware=tuple(entry for entry in hardware if entry.count))


def _cut(entry: Hardware, ray_resources: Mapping[str, float]) -> Hardware:
    resource = "CPU" if hosted(entry.kind) else KINDS[entry.kind].ray_resource
    if not resource:
        return entry
    limit = int(ray_resources.get(resource, 0.0))
    return replace(entry, count=min(entry.count, limit), ids=entry.ids[:limit])
