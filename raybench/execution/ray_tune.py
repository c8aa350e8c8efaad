"""Trials fanned out by Ray Tune, on this machine or on a cluster: each in a fresh process on a device of its own.

Tune gives a trial an actor on the right node (`raybench.execution.actor`), which is reused. Tune is asked for one trial
for each device that is free (`Dispatcher`), because left to itself it lets small trials overtake large ones.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

# Ray reads these when it is imported: no telemetry, no copy of the environment under `uv run`, none of Tune's own
# loggers and snapshots (resuming is the journal's work), and our own handling of Ctrl-C.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
os.environ.setdefault("TUNE_DISABLE_SIGINT_HANDLER", "1")
os.environ.setdefault("TUNE_GLOBAL_CHECKPOINT_S", "1000000")
# Tune starts one trial at a time where a searcher names them: one that waits for its node would hold up all others.
os.environ.setdefault("TUNE_MAX_PENDING_TRIALS_PG", "1000")
# Ray runs its workers, and so everything they start, at niceness 15: any other process would starve a timed trial.
os.environ.setdefault("RAY_worker_niceness", "0")

import ray
from ray import tune
from ray._private import ray_constants
from ray.tune import TuneError
from ray.tune.schedulers import FIFOScheduler
from ray.tune.search import Searcher
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from raybench.cell import PROCESS
from raybench.devices import RAY_RESOURCES
from raybench.devices.node import Node, probe_node
from raybench.environments import runtime_env_of
from raybench.errors import ExecutionError, RaybenchError
from raybench.execution.actor import TrialActor
from raybench.execution.base import MakeJob, Sink
from raybench.execution.cluster import RETURN_TIMEOUT, Presence, handed_out, put_files, told_apart
from raybench.execution.dispatch import Dispatcher, Placement
from raybench.execution.reaper import Reaper
from raybench.execution.runtime_env import MAKE_TIMEOUT, probe_with_runtime_envs
from raybench.trial import events
from raybench.trial.events import Event
from raybench.trial.job import Job
from raybench.trial.record import end_for
from raybench.trial.scratch import Scratch

SMALL_OBJECT_STORE = 100 * 1024 * 1024
"""Bytes of Ray's object store on a machine of our own: only events pass through it."""

PROBE_TIMEOUT = 120.0
ACTOR_GONE = ("ActorDiedError", "ActorUnavailableError", "RayActorError", "WorkerCrashedError", "NodeDiedError")
PIN = 0.001
"""A sliver of a node's own resource: pins a trial to that node."""

NO_NODE = {"type": "NodeGone", "message": "every node that can hold it went away and did not come back"}


class _NotForDisk:
    """Tune writes its searcher and callbacks to disk to restore a run from; ours is restored from the journal."""

    def __reduce__(self) -> tuple[type[object], tuple[()]]:
        return object, ()


class _PlanOrder(_NotForDisk, Searcher):  # type: ignore[misc]
    """Suggests what the dispatcher places: one trial for each free device, in the plan's order."""

    def __init__(self, dispatcher: Dispatcher, make_job: MakeJob, sink: Sink, presence: Presence) -> None:
        super().__init__()
        self._dispatcher, self._make_job, self._sink, self._presence = dispatcher, make_job, sink, presence

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        self._presence.look()
        for work in self._presence.given_up():
            if not work.check:
                self._sink(events.trial_ended(work.name, work.attempt, events.LOST, error=NO_NODE))
        if self._dispatcher.finished:
            return str(Searcher.FINISHED)
        placement = self._dispatcher.next()
        if placement is None:
            return None
        fit = placement.work.trial.cell.fit
        assert fit is not None, "a trial that fits nowhere is never dispatched"
        job = self._make_job(placement)
        job = replace(job, versions={**job.versions, "ray": ray.__version__})
        on_cluster = bool(placement.node.address)
        if on_cluster:
            Path(job.folder).mkdir(parents=True, exist_ok=True)
        return {
            "job": job.to_json(),
            "bundle": _bundle(placement),
            "node": placement.node.name,
            "on_cluster": on_cluster,
            "runtime_env": runtime_env_of(fit.environment),
        }

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Nothing: the event that ends a trial has released its device."""

    def save(self, checkpoint_path: str) -> None:
        """Nothing: the journal is what a grid resumes from."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing, likewise."""


class _Listener(_NotForDisk, tune.Callback):  # type: ignore[misc]
    """Passes events on as they arrive, and names the end of a trial whose actor went away."""

    def __init__(self, dispatcher: Dispatcher, sink: Sink, presence: Presence) -> None:
        self._dispatcher, self._sink, self._presence = dispatcher, sink, presence
        self.refusal: RaybenchError | None = None

    def on_trial_result(self, iteration: int, trials: Any, trial: Any, result: dict[str, Any], **info: Any) -> None:
        event = result["event"]
        if "files" in result:
            put_files(Path(trial.config["job"]["folder"]), result["files"])
        if event["event"] in events.ENDS:
            self._dispatcher.release(event["trial"], event["attempt"], lost=event.get("status") == events.LOST)
        self._tell(event)

    def on_trial_error(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
        job = Job.from_json(trial.config["job"])
        status, error = name_actor_end(str(trial.get_error() or ""))
        if status == events.LOST:
            self._presence.doubt(trial.config["node"])
        if self._dispatcher.release(job.trial, job.attempt, lost=status == events.LOST):
            self._tell(end_for(job, status, error))

    def _tell(self, event: Event) -> None:
        """Pass an event on; why it was refused is kept, for Tune makes a text of every error."""
        try:
            self._sink(event)
        except RaybenchError as error:
            self.refusal = error
            raise


class _Departures(_NotForDisk, FIFOScheduler):  # type: ignore[misc]
    """Takes back trials that wait for a node which has gone: Tune would wait with them."""

    def __init__(self, dispatcher: Dispatcher, presence: Presence) -> None:
        super().__init__()
        self._dispatcher, self._presence = dispatcher, presence

    def choose_trial_to_run(self, tune_controller: Any) -> Any:
        self._presence.look()
        for trial in tune_controller.get_trials() if self._presence.absent else ():
            if trial.status == "PENDING" and trial.config["node"] in self._presence.absent:
                tune_controller.stop_trial(trial)
                job = Job.from_json(trial.config["job"])
                self._dispatcher.release(job.trial, job.attempt, begun=False)
        return super().choose_trial_to_run(tune_controller)


def name_actor_end(trace: str) -> tuple[str, dict[str, Any]]:
    """The status of a trial whose actor failed, from what Ray says of it.

    An actor goes away with its worker or its node, or is ended by Ray's memory monitor. Anything else was raised in it.
    """
    if any(sign in trace for sign in ("OutOfMemoryError", "low on memory", "memory pressure")):
        return events.OOM, {"type": "OutOfMemory", "message": "ended by Ray, for its node ran low on memory"}
    if not trace or any(sign in trace for sign in ACTOR_GONE):
        return events.LOST, {"type": "ActorDied", "message": "the worker or its node went away"}
    last = trace.strip().splitlines()[-1]
    return events.FAILED, {"type": "ActorFailed", "message": last, "traceback": trace}


def _bundle(placement: Placement) -> dict[str, float]:
    """What a placement takes of its node, in Ray's resources.

    A Ray of our own has nobody else to keep account for: there every trial asks for the same, since Tune starts an
    actor anew, and with it the templates, for a trial that asks for something else.
    """
    if not placement.node.address:
        return {"CPU": PIN}
    fit = placement.work.trial.cell.fit
    assert fit is not None, "a trial that fits nowhere is never dispatched"
    bundle = {"CPU": float(len(placement.cores)), f"node:{placement.node.address}": PIN, **dict(fit.resources)}
    if placement.visible:
        resource = RAY_RESOURCES[placement.work.trial.cell.content["device"]["kind"]]
        bundle[resource] = bundle.get(resource, 0.0) + len(placement.visible)
    return bundle


def _innermost(error: BaseException) -> str:
    """What an error came from, in a line: Ray hides a refused token below two of its own."""
    while error.__cause__ is not None:
        error = error.__cause__
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _interrupt(number: int, frame: Any) -> None:
    """A polite request to end, such as a batch system's, is what Ctrl-C is."""
    raise KeyboardInterrupt


class RayTuneExecutor:
    """Ray Tune on this machine (`address` None: a Ray of its own, ended with it) or on a running cluster."""

    isolation = PROCESS

    def __init__(self, address: str | None = None, patience: float = RETURN_TIMEOUT) -> None:
        self._address, self._patience = address, patience
        self._scratch: Scratch | None = None
        self._reaper: Reaper | None = None

    def nodes(self, environments: Sequence[str] = ()) -> list[Node]:
        """Every node of the cluster, or this machine as one: each asked on the spot, also for its environments.

        Raises:
            ExecutionError: a node does not answer.
        """
        self._connect()
        asked, alive = [], [node for node in ray.nodes() if node["Alive"]]
        for node in alive:
            there = NodeAffinitySchedulingStrategy(node_id=node["NodeID"], soft=False)
            task = ray.remote(num_cpus=0)(probe_with_runtime_envs).options(scheduling_strategy=there)
            address = "" if self._address is None else node["NodeManagerAddress"]
            asked.append(task.remote(address, list(environments)))
        making = MAKE_TIMEOUT if any(map(runtime_env_of, environments)) else 0.0
        try:
            found: list[Node] = ray.get(asked, timeout=PROBE_TIMEOUT + making)
        except ray.exceptions.RayError as error:
            raise ExecutionError(f"a node of the cluster did not answer: {error}") from error
        if self._address is None:
            return found
        return told_apart([handed_out(node, of["Resources"]) for node, of in zip(found, alive, strict=True)])

    def _connect(self) -> None:
        """Start a Ray of our own in a short-named folder (its sockets' paths are limited), or join the cluster."""
        if ray.is_initialized():
            return
        logging.getLogger("ray.tune").setLevel(logging.CRITICAL)  # what it would say is told by our own display
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "include_dashboard": False}
        # A Ray that is no cluster takes the address 127.0.0.1, and then its servers listen there alone; with any other
        # they listen on every network interface. It has no argument for that: it takes 127.0.0.1 to be a slip.
        ray_constants.ENABLE_RAY_CLUSTER = self._address is not None
        if self._address is not None:
            del quiet["include_dashboard"]
            try:
                ray.init(self._address, **quiet)
            except (ConnectionError, ValueError, RuntimeError) as error:
                raise ExecutionError(f"no Ray cluster at {self._address}: {_innermost(error)}") from error
            return
        self._scratch = Scratch()
        self._reaper = Reaper(self._scratch.path)
        folder, cores = str(self._scratch.path), probe_node().cores
        try:
            ray.init("local", num_cpus=cores, object_store_memory=SMALL_OBJECT_STORE, _temp_dir=folder, **quiet)
        # Whatever Ray raises: of a machine too busy for its own time limits it is a plain Exception.
        except Exception as error:
            raise ExecutionError(f"Ray did not start on this machine: {error}") from error
        self._reaper.ray_is_up()

    def run(self, dispatcher: Dispatcher, make_job: MakeJob, sink: Sink) -> None:
        """Run through Tune until nothing is left."""
        if dispatcher.finished:
            return
        self._connect()
        in_main = threading.current_thread() is threading.main_thread()
        # Ray's own handler ends the driver where it stands.
        before = signal.signal(signal.SIGTERM, _interrupt) if in_main else None
        storage, presence = Scratch(), Presence(dispatcher, self._patience)
        listener = _Listener(dispatcher, sink, presence)
        tuner = tune.Tuner(
            TrialActor,
            tune_config=tune.TuneConfig(
                search_alg=_PlanOrder(dispatcher, make_job, sink, presence),
                scheduler=_Departures(dispatcher, presence),
                num_samples=-1,
                reuse_actors=True,
                trial_name_creator=lambda trial: trial.config["job"]["trial"],
                trial_dirname_creator=lambda trial: f"{trial.config['job']['trial']}-{trial.trial_id}",
            ),
            run_config=tune.RunConfig(name="grid", storage_path=str(storage.path), verbose=0, callbacks=[listener]),
        )
        try:
            tuner.fit()
        except TuneError:
            if listener.refusal:
                raise listener.refusal from None
            raise
        except KeyboardInterrupt:
            for work in [placement.work for placement in dispatcher.running]:
                dispatcher.release(work.name, work.attempt)
                if not work.check:
                    sink(events.trial_ended(work.name, work.attempt, events.KILLED))
            raise
        finally:
            if before is not None:
                signal.signal(signal.SIGTERM, before)
            storage.close()

    def close(self) -> None:
        """Leave the cluster, or end our own Ray and its folder."""
        if ray.is_initialized():
            ray.shutdown()
        if self._reaper:
            self._reaper.close()
            self._reaper = None
        if self._scratch:
            self._scratch.close()
            self._scratch = None
