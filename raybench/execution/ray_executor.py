"""Executor on Ray: this process plans and records, a child process owns Ray and runs the trials through Ray Tune.

The files of the attempts are the record of the trials. This process reads them as they grow; those of a node that does
not share this disk are copied here first.
"""

from __future__ import annotations

import errno
import os
import pickle
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib import metadata
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil

from raybench.config.load import plain
from raybench.core import events
from raybench.core.events import ENDS, Event, events_file
from raybench.core.job import Job
from raybench.core.labels import configuration_label
from raybench.core.status import TrialStatus
from raybench.core.temp_folders import Scratch, sweep
from raybench.core.text import join_words
from raybench.devices import KINDS, Hardware, hosted
from raybench.devices.host import usable_cores
from raybench.devices.program import OWN_THREADS
from raybench.environments import own_environ
from raybench.errors import ExecutionError
from raybench.execution.base import Executor, MakeJob, Sink, Tell
from raybench.execution.files import FileTail, code_files, put_file
from raybench.execution.ray_settings import (
    CLUSTER_SETTINGS,
    CONFIG_KEY,
    RAY_PROGRAMS,
    RAY_SETTINGS,
    private_to_user,
    token_of_cluster,
)
from raybench.execution.schedule import Schedule, ScheduledTrial, demand, pool
from raybench.monitoring.host import HostLoad, LoadMeter
from raybench.planning.node import Node, probe_node
from raybench.planning.placement import ResourceRequest
from raybench.planning.plan import Check
from raybench.results.folder import TUNE, parse_events

POLL_S = 0.1  # seconds between two looks at the files of running trials, and at Ray's own processes

START_TIMEOUT_S = 600.0
"""Timeout for the start of Ray and of the first trial; at a load of 15 on two cores Ray alone has taken 200 s."""

SLOW_START_S = 20.0  # seconds of starting Ray after which a message says that it is slow

RETURN_TIMEOUT_S = 600.0
"""Seconds to wait for a node that the remaining trials need; a machine restarts within some minutes."""

CLOSE_TIMEOUT_S = 10.0  # seconds to wait until the child process has killed everything that it had started
FINISH_TIMEOUT_S = 30.0  # seconds in which Tune may end its actors and write its record after the last trial

CAUSE = re.compile(r"Check failed|\*\*\* SIG|Fatal Python error")
"""How a line of Ray's log begins that says why its process ends itself."""

AGAIN = "Finished trials are kept; run the same command again for the rest."

NO_NODE = "all nodes that can run it were lost and did not return"


class RayProcess:
    """The child process that owns Ray."""

    def __init__(self, address: str | None, cores: int) -> None:
        self.address = address
        self._scratch = Scratch(for_sockets=True)
        folder = self._scratch.path
        self._log = folder / "ray.log"
        environ = {**RAY_SETTINGS, **own_environ(), "RAY_TMPDIR": str(folder)}
        environ[OWN_THREADS] = os.environ.get("OMP_NUM_THREADS", "")
        environ.pop("RAY_ADDRESS", None)
        if address is None:
            environ |= private_to_user(folder / "token")
            environ.pop("RAY_AUTH_TOKEN", None)  # it would count instead
        else:
            environ = {**CLUSTER_SETTINGS, **token_of_cluster(environ), **environ}
        here, there = socket.socketpair()
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "raybench.execution.ray_process", str(there.fileno())],
                pass_fds=[there.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,  # Ray adds the current folder to its workers' import path
                env=environ,
                start_new_session=True,
            )
        there.close()
        self._connection = Connection(here.detach())
        self._connection.send({"address": address, "cores": cores})
        self._ray: dict[str, psutil.Process] = {}
        self._failure = ""
        self._is_started = False

    def send(self, do: str, **request: Any) -> None:
        """Ask the child to do something."""
        with suppress(OSError):  # it has ended, which the next message says
            self._connection.send({"do": do, **request})

    def next_message(self) -> Mapping[str, Any] | None:
        """The next message of the child; None if there is none soon.

        Raises:
            ExecutionError: Ray cannot be used.
        """
        message: Mapping[str, Any] | None = None
        with suppress(EOFError, OSError):
            if self._connection.poll(POLL_S):
                message = self._connection.recv()
        if message is None or message.keys() & {"started", "error"}:
            self._is_started |= bool(message and "started" in message)
            self._failure = message.get("error", "") if message else ""
            if reason := self._reason():
                raise ExecutionError(reason)
            return None
        return message

    def _reason(self) -> str:
        """Why Ray cannot be used; empty if it can."""
        if self._failure:
            return f"Ray reported an error: {self._failure}" if self._is_started else f"{self._target}: {self._failure}"
        code = self._process.poll()
        for name, process in self._ray_processes().items() if code != -signal.SIGKILL else ():
            with suppress(psutil.Error):
                if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                    continue
            return f"Ray's {RAY_PROGRAMS[name]} ended"  # upon which the child ends, too
        if code is None:
            return ""
        how = f" by {signal.Signals(-code).name}" if code < 0 else ""
        lines = self._log.read_text(errors="replace").strip().splitlines()
        causes = [line for line in lines if CAUSE.search(line)]  # the addresses of the stack follow it
        return ": ".join([f"The process of Ray was ended{how}", *(causes[:1] or lines[-1:])])

    @property
    def _target(self) -> str:
        return "Ray did not start" if self.address is None else f"cannot connect to a Ray cluster at {self.address}"

    def _ray_processes(self) -> dict[str, psutil.Process]:
        """The programs of a local Ray, as soon as they run."""
        if self.address is None and len(self._ray) < len(RAY_PROGRAMS):
            with suppress(psutil.Error):
                for process in psutil.Process(self._process.pid).children():
                    with suppress(psutil.Error):
                        if process.name() in RAY_PROGRAMS:
                            self._ray.setdefault(process.name(), process)
        return self._ray

    def wait_started(self, tell: Tell = lambda text: None) -> None:
        """Wait until Ray has started or the cluster has answered."""
        began_s, limit_s = time.monotonic(), SLOW_START_S
        while not self._is_started:
            self.next_message()
            if time.monotonic() - began_s > limit_s:
                if limit_s == START_TIMEOUT_S:
                    raise ExecutionError(f"{self._target} within {START_TIMEOUT_S:g} s")
                tell(f"Ray has not started after {limit_s:g} s; on a busy machine it takes minutes.")
                limit_s = START_TIMEOUT_S

    def probe(self, environments: Sequence[str]) -> list[tuple[Node, Mapping[str, float]]]:
        """Every node of the cluster with its environments, and the resources that Ray offers there."""
        nodes: list[tuple[Node, Mapping[str, float]]] = self._answer("probe", "nodes", environments=list(environments))
        return nodes

    def starts_nodes(self) -> bool:
        """Return whether the cluster has an autoscaler."""
        return bool(self._answer("ask", "starts_nodes"))

    def _answer(self, do: str, name: str, **request: Any) -> Any:
        try:
            self.wait_started()
            self.send(do, **request)
            while not (message := self.next_message()) or name not in message:
                pass
        except ExecutionError as error:
            if self._failure:  # such as a cluster that refuses the connection
                raise
            raise ExecutionError(f"{error}. Run the same command again.") from None
        return message[name]

    def close(self) -> None:
        """Kill everything that the child has started, and remove its folder."""
        self._connection.close()
        try:
            self._process.wait(CLOSE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        _kill_session(self._process.pid)  # if it was killed, what it had started would end only later
        self._scratch.close()
        sweep()  # the folders of killed trials


def _kill_session(leader: int) -> None:
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if os.getsid(process.pid) == leader:
                process.kill()


class RayExecutor(Executor):
    """Runs trials on this machine (`address` None: a local Ray, ended with it) or on a running cluster.

    Args:
        callbacks: of Ray Tune; they run in the process of Ray.
    """

    def __init__(self, address: str | None = None, callbacks: Sequence[Any] = ()) -> None:
        self._address, self.callbacks = address, callbacks
        self._meter = LoadMeter() if address is None else None  # measures while the grid is planned
        self._ray: RayProcess | None = None

    def _start(self) -> RayProcess:
        if self._ray is None:
            self._ray = RayProcess(self._address, len(usable_cores()))
        return self._ray

    def prepare(self) -> None:
        """Start Ray, or join the cluster, while the grid is planned."""
        self._start()

    def nodes(self, environments: Sequence[str] = ()) -> list[Node]:
        """This machine, without Ray; or every node of the cluster."""
        if self._address is None:
            return [probe_node(environments=environments)]
        answers = self._start().probe(environments)
        return [limit_to_ray(node, resources) for node, resources in answers]

    def host_load(self) -> HostLoad | None:
        """Other programs' use of this machine; not measured for a cluster, whose trials may run elsewhere."""
        return self._meter.read() if self._meter else None

    def starts_nodes(self) -> bool:
        """Return whether the cluster has an autoscaler."""
        return self._address is not None and self._start().starts_nodes()

    def run(self, schedule: Schedule, make_job: MakeJob, sink: Sink, tell: Tell) -> None:
        """Run until the schedule has nothing left."""
        callbacks = _pickled(self.callbacks)
        grid = _Grid(self._start(), schedule, make_job, sink, tell)
        try:
            grid.run(callbacks)
        except BaseException as error:
            self._end_ray()  # with the trials that run; the next grid starts it again
            if isinstance(error, ExecutionError):
                grid.follow()
                raise ExecutionError(f"{error}. {AGAIN}") from None
            raise

    def close(self) -> None:
        """End the child process, with a local Ray and all trials."""
        self._end_ray()

    def _end_ray(self) -> None:
        if self._ray is not None:
            self._ray.close()
            self._ray = None


def _pickled(callbacks: Sequence[Any]) -> bytes:
    """The callbacks for the process of Ray, with the code of those that are not installed there."""
    if not callbacks:
        return pickle.dumps([])
    from ray import cloudpickle  # loaded by whoever made the callbacks

    for callback in callbacks:
        module = sys.modules[type(callback).__module__]
        if "site-packages" not in str(getattr(module, "__file__", "")) and module.__name__ != "__main__":
            cloudpickle.register_pickle_by_value(module)
    return bytes(cloudpickle.dumps(list(callbacks)))


@dataclass
class _Running:
    """An assignment that was handed out.

    Attributes:
        steps: the checks that are still to run, and None for the trial itself.
        job: the current one.
        tail: of the file of its events.
        last: events that are passed on when the trial has ended.
    """

    assignment: ScheduledTrial
    steps: list[Check | None]
    job: Job
    tail: FileTail
    last: list[Event] = field(default_factory=list)
    has_begun: bool = False

    @property
    def key(self) -> tuple[str, int]:
        return self.assignment.work.trial.trial_id, self.assignment.work.attempt


class _Grid:
    """The trials of one grid."""

    def __init__(self, ray: RayProcess, schedule: Schedule, make_job: MakeJob, sink: Sink, tell: Tell) -> None:
        self._ray, self._schedule, self._make_job, self._sink, self._tell = ray, schedule, make_job, sink, tell
        self._running: dict[tuple[str, int], _Running] = {}
        self._present, self._unplanned = {node.name for node in schedule.nodes}, set[str]()
        self._sent_code: set[tuple[str, str]] = set()
        self._ray_version = metadata.version("ray")
        self._folder: Path | None = None  # of the grid, once Tune runs

    def run(self, callbacks: bytes) -> None:
        """Run until nothing is left."""
        self._ray.wait_started(self._tell)
        for device, request in self._schedule.wanted.items():
            self._ray.send("want", device=device, bundles=_bundles(request), timeout_s=self._schedule.patience_s)
        waits_since = time.monotonic()
        while not self._schedule.finished:
            while assignment := self._schedule.next() or self._schedule.ahead():
                self._start(assignment, callbacks)
            if message := self._ray.next_message():
                self._handle(message)
            self.follow()
            stuck = [running for running in self._running.values() if not running.has_begun and self._lacks(running)]
            if not self._schedule.stranded and not stuck:
                waits_since = time.monotonic()
            elif time.monotonic() - waits_since > RETURN_TIMEOUT_S:
                for running in stuck:
                    self._end(running, NO_NODE)
                for work in self._schedule.give_up():
                    error = {"type": "NodeGone", "message": NO_NODE}
                    self._sink(events.trial_ended(work.trial.trial_id, work.attempt, TrialStatus.LOST, error=error))
        self._finish()

    def _finish(self) -> None:
        """Let Tune end its actors and write its record."""
        if self._folder is None:
            return
        self._ray.send("finish")
        deadline = time.monotonic() + FINISH_TIMEOUT_S
        while time.monotonic() < deadline:
            message = self._ray.next_message()
            if message and "finished" in message:
                return

    def _start(self, assignment: ScheduledTrial, callbacks: bytes) -> None:
        steps = [*assignment.work.checks, None]
        job = self._job(assignment, steps[0])
        if self._folder is None:
            self._folder = Path(job.folder).parents[2]
            tune = self._folder / TUNE
            shutil.rmtree(tune, ignore_errors=True)
            nodes = self._schedule.nodes
            self._ray.send("begin", grid=str(self._folder), folder=tune, nodes=nodes, callbacks=callbacks)
        running = _Running(assignment, steps, job, FileTail(events_file(Path(job.folder))))
        self._running[running.key] = running
        trial, attempt = running.key
        axes, repeat = assignment.work.trial.cell.axes, assignment.work.trial.repeat
        values = {"trial": trial, "attempt": attempt, "nodes": [node.address for node in assignment.nodes]}
        values["label"] = f"{configuration_label(axes, axes)}, repeat {repeat + 1}"
        requested = [_requested(assignment, node) for node in assignment.nodes]
        config = {**plain(axes), "repeat": repeat + 1, CONFIG_KEY: values}
        self._ray.send("start", key=running.key, config=config, requested=requested, **self._message(running))

    def _job(self, assignment: ScheduledTrial, check: Check | None) -> Job:
        job = self._make_job(assignment, check)
        return replace(job, versions={**job.versions, "ray": self._ray_version})

    def _message(self, running: _Running) -> dict[str, Any]:
        """The job of an assignment, and the user's files for each cluster node that has not got them."""
        job, code = running.job, {}
        for node in running.assignment.nodes if job.workload["folder"] else ():
            sent = (node.address, job.workload["digest"])
            if node.address and sent not in self._sent_code:
                self._sent_code.add(sent)
                code[node.address] = code_files(job)
        return {"job": job.to_json(), "code": code}

    def follow(self) -> None:
        """Pass on what the running trials have written."""
        for running in list(self._running.values()):
            self._follow(running)

    def _follow(self, running: _Running) -> None:
        """Pass on what the current job has written; after a check, start the next job."""
        for event in parse_events(running.tail.read(), str(running.tail.path), []):
            running.has_begun |= not running.steps[0]
            if event["event"] == "trial_ended" or event["event"] == "trial_audited":
                running.last.append(event)
                continue
            self._sink(event)
            if event["event"] == "check_ended":
                self._schedule.check_ended(event["trial"])
                running.steps.pop(0)
                running.job = self._job(running.assignment, running.steps[0])
                running.tail = FileTail(events_file(Path(running.job.folder)))
                addresses = [node.address for node in running.assignment.nodes]
                self._ray.send("continue", key=running.key, addresses=addresses, **self._message(running))
                return

    def _handle(self, message: Mapping[str, Any]) -> None:
        if "data" in message:
            put_file(Path(message["folder"]), message["name"], message["data"])
        elif "ended" in message:
            if running := self._running.get(tuple(message["ended"])):
                self._end(running, message["reason"])
        elif "alive" in message:
            self._see_nodes(message["alive"])
        elif message.get("arrived") in self._schedule.wanted:
            nodes = [limit_to_ray(node, resources) for node, resources in message["nodes"]]
            self._present |= {node.name for node in nodes}
            self._schedule.arrive(message["arrived"], nodes)

    def _end(self, running: _Running, error: str) -> None:
        """Pass on the end of a trial; without one in its file, it is lost."""
        self._follow(running)
        del self._running[running.key]
        ends = [event for event in running.last if event["event"] in ENDS]
        may_return = not ends and not running.has_begun and error != NO_NODE
        if may_return and self._schedule.put_back(*running.key, counts=not self._lacks(running)):
            return
        if not ends:
            names = join_words([node.name for node in running.assignment.nodes])
            message = error or f"Ray's worker on {names} was lost, or the node itself"
            reason: dict[str, Any] = {"type": "WorkerLost", "message": message}
            if os.strerror(errno.ENOSPC) in error:
                reason["disk_full"] = True
            ends = [events.trial_ended(*running.key, TrialStatus.LOST, error=reason)]
        for event in (event for event in running.last if event["event"] not in ENDS):
            self._sink(event)
        self._sink(ends[0])
        self._schedule.release(*running.key, lost=ends[0]["status"] == TrialStatus.LOST)
        for node in running.assignment.nodes:
            if node.address and not self._schedule.needs(node.name):
                self._ray.send("leave", address=node.address)

    def _lacks(self, running: _Running) -> bool:
        return not self._present.issuperset(node.name for node in running.assignment.nodes)

    def _see_nodes(self, addresses: Sequence[str]) -> None:
        present = {node.name for node in self._schedule.nodes if node.address in addresses}
        for name in sorted(self._present ^ present):
            self._tell(f"{name} is back." if name in present else f"{name} was lost, with its running trials.")
        # Such as a lost node that came back with another address; those started for a device are planned on arrival.
        new = {*addresses} - {node.address for node in self._schedule.nodes} - self._unplanned
        if len(present) < len(self._schedule.nodes):
            for address in sorted(new):
                self._tell(f"{address} joined the cluster, and this command cannot use it: stop it and run it again.")
            self._unplanned |= new
        self._present = present
        self._schedule.present(present)


def _requested(assignment: ScheduledTrial, node: Node) -> dict[str, float] | None:
    """The resources of Ray that a trial takes on a node; None for all of them, if it runs there alone."""
    fit = assignment.fit
    if assignment.exclusive:
        return None
    accelerators = {}
    if fit.accelerators:
        accelerators[KINDS[fit.hardware.kind].ray_resource] = demand(fit, node)[pool(fit)]
    return {"CPU": float(fit.cpus), **accelerators, **dict(fit.resources)}


def _bundles(request: ResourceRequest) -> list[dict[str, float]]:
    """The resources of Ray that a trial asks of each of its nodes, before any is there."""
    accelerators = {} if hosted(request.kind) else {KINDS[request.kind].ray_resource: float(request.count)}
    return [{"CPU": float(max(1, request.cpus)), **accelerators, **dict(request.resources)}] * request.nodes


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
