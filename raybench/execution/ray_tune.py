"""Trials distributed by Ray Tune, on this machine or on a cluster: each in a fresh process on its own device.

Tune gives a trial an actor on the right node (`raybench.execution.actor`), which is reused. Tune receives one trial for
each free device (`Dispatcher`), because otherwise it lets small trials overtake large ones.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

# Ray reads these on import: no telemetry, no copy of the environment under `uv run`, none of Tune's loggers and
# snapshots (the journal is used to resume), and raybench's own handling of Ctrl-C.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
os.environ.setdefault("TUNE_DISABLE_SIGINT_HANDLER", "1")
os.environ.setdefault("TUNE_GLOBAL_CHECKPOINT_S", "1000000")
# Tune starts one trial at a time if a searcher suggests them: a trial waiting for its node would block all others.
os.environ.setdefault("TUNE_MAX_PENDING_TRIALS_PG", "1000")
# The GCS would keep a record of each of the last 100,000 tasks, some kB each, for a dashboard.
os.environ.setdefault("RAY_task_events_report_interval_ms", "0")
# Ray runs its workers and their children at niceness 15: any other process would slow down a timed trial.
os.environ.setdefault("RAY_worker_niceness", "0")
# A worker that ends would kill the guard of a trial, which then could not clean up the trial's processes.
os.environ.setdefault("RAY_kill_child_processes_on_worker_exit", "0")

import ray
from ray import tune
from ray._private import ray_constants, utils
from ray.job_config import JobConfig
from ray.tune import TuneError
from ray.tune.progress_reporter import TrialProgressCallback
from ray.tune.schedulers import FIFOScheduler
from ray.tune.search import Searcher

from raybench.core import events
from raybench.core.collector import collector_paused
from raybench.core.events import Event
from raybench.core.files import PACKAGE
from raybench.core.job import Job
from raybench.core.status import TrialStatus
from raybench.core.temp_folders import Scratch
from raybench.devices import KINDS
from raybench.environments import runtime_env_of
from raybench.errors import ExecutionError, RaybenchError
from raybench.execution.actor import TrialActor
from raybench.execution.base import MakeJob, Sink, Tell
from raybench.execution.cluster import RETURN_TIMEOUT, NodeMonitor, disambiguate, limit_to_ray, probe, put_files
from raybench.execution.ray_requirements import check_limits, ray_folder
from raybench.execution.ray_token import own_token
from raybench.execution.ray_watch import HeadWatch, RayGoneError, RayWatch
from raybench.execution.reaper import Reaper
from raybench.execution.runtime_env import MAKE_TIMEOUT
from raybench.execution.scheduler import AssignedWork, Dispatcher
from raybench.execution.tune_state import NODE, forget_finished, idle_actors_of, withdraw
from raybench.monitoring.host_load import HostLoad, measure_load
from raybench.planning.node import Node, probe_node
from raybench.trial.record import failure_event

SMALL_OBJECT_STORE = 100 * 1024 * 1024
"""Bytes of Ray's object store on a local Ray: only events pass through it."""

PROBE_TIMEOUT = 120.0
ACTOR_GONE = ("ActorDiedError", "ActorUnavailableError", "RayActorError", "WorkerCrashedError", "NodeDiedError")
PIN = 0.001
"""A small fraction of a node's own resource, which pins a trial to that node."""

RESTARTS = 2
"""Maximum number of restarts of a local Ray; after a third crash further ones are likely."""

RESTARTED = """{why}. Ray is restarted; running trials are lost and retried up to `retries` times."""

ENDED = """{why}, after {restarts} restarts in this grid. Finished trials are kept; run the same command again for the \
rest. If the system ended Ray for lack of memory (see `dmesg`), close other programs first."""

NO_NODE = {"type": "NodeGone", "message": "all nodes that can run it were lost and did not return"}


class _NotForDisk:
    """Tune writes its searcher and callbacks to disk to resume from; raybench resumes from the journal."""

    def __reduce__(self) -> tuple[type[object], tuple[()]]:
        return object, ()


class _PlanOrder(_NotForDisk, Searcher):  # type: ignore[misc]
    """Suggests the trials that the dispatcher places: one for each free device, in the plan's order."""

    def __init__(self, dispatcher: Dispatcher, make_job: MakeJob, sink: Sink, presence: NodeMonitor) -> None:
        super().__init__()
        self._dispatcher, self._make_job, self._sink, self._presence = dispatcher, make_job, sink, presence
        self._codes: dict[str, Any] = {}

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        self._presence.look()
        for work in self._presence.given_up():
            if not work.check:
                self._sink(events.trial_ended(work.name, work.attempt, TrialStatus.LOST, error=NO_NODE))
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
            # As text, because Tune copies a structure several times.
            "job": json.dumps(job.to_json()),
            "trial": job.trial,
            "attempt": job.attempt,
            "folder": job.folder,
            "bundle": _bundle(placement),
            "node": placement.node.name,
            "on_cluster": on_cluster,
            "runtime_env": runtime_env_of(fit.environment),
            "code": self._code(job) if on_cluster else None,
        }

    def _code(self, job: Job) -> Any:
        """A user's workload files in Ray's object store, for nodes without a shared disk."""
        if job.code and job.code not in self._codes:
            names = job.workload["files"]
            self._codes[job.code] = ray.put({name: (Path(job.code) / name).read_bytes() for name in names})
        return self._codes.get(job.code)

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """No-op: the end event of a trial has released its device."""

    def save(self, checkpoint_path: str) -> None:
        """No-op: a grid resumes from the journal."""

    def restore(self, checkpoint_path: str) -> None:
        """No-op, for the same reason."""


class _Listener(_NotForDisk, TrialProgressCallback):  # type: ignore[misc]
    """Passes events on; classifies the end of a trial whose actor died.

    As a `TrialProgressCallback` it replaces Tune's own, which prints nothing here and keeps every trial.
    """

    def __init__(self, dispatcher: Dispatcher, sink: Sink, presence: NodeMonitor, watch: RayWatch | None) -> None:
        self._dispatcher, self._sink, self._presence, self._watch = dispatcher, sink, presence, watch
        self.refusal: RaybenchError | None = None

    def on_step_begin(self, iteration: int, trials: Any, **info: Any) -> None:
        """Stop Tune if its Ray is gone; a step takes about 0.1 s."""
        if self._watch:
            self._watch.check()

    def on_trial_result(self, iteration: int, trials: Any, trial: Any, result: dict[str, Any], **info: Any) -> None:
        (event,) = result["events"]
        if "files" in result:
            put_files(Path(trial.config["folder"]), result["files"])
        if event["event"] in events.ENDS:
            self._dispatcher.release(event["trial"], event["attempt"], lost=event.get("status") == TrialStatus.LOST)
        self._tell(event)

    def on_trial_error(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
        job = Job.from_json(json.loads(trial.config["job"]))
        status, error = classify_actor_error(str(trial.get_error() or ""))
        if status == TrialStatus.LOST:
            if self._watch:
                self._watch.check_soon()
            self._presence.suspect(trial.config["node"])
        if (job.trial, job.attempt) in {(each.work.name, each.work.attempt) for each in self._dispatcher.running}:
            own_end = self._tell(failure_event(job, status, error))
            self._dispatcher.release(job.trial, job.attempt, lost=status == TrialStatus.LOST and not own_end)

    def on_trial_complete(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
        """No-op: the last event has been passed on."""

    def _tell(self, event: Event) -> Event | None:
        """Pass an event on; an error is stored, because Tune converts every error to text."""
        try:
            return self._sink(event)
        except RaybenchError as error:
            self.refusal = error
            raise


class _TrialScheduler(_NotForDisk, FIFOScheduler):  # type: ignore[misc]
    """Starts trials in their order, and removes those from Tune that need it no longer.

    Tune keeps every trial with its last result until the end, and looks at all of them in each of its steps. A trial
    that waits for a node which has gone is withdrawn, because Tune would wait with it.
    """

    def __init__(self, dispatcher: Dispatcher, presence: NodeMonitor) -> None:
        super().__init__()
        self._dispatcher, self._presence = dispatcher, presence

    def choose_trial_to_run(self, tune_controller: Any) -> Any:
        self._presence.look()
        controller = tune_controller._tune_controller
        idle_actors_of(controller).absent = self._presence.absent_addresses
        for trial in controller.get_trials() if self._presence.absent else ():
            if trial.status == "PENDING" and trial.config["node"] in self._presence.absent:
                withdraw(controller, trial)
                self._dispatcher.release(trial.config["trial"], trial.config["attempt"], begun=False)
        forget_finished(controller)
        return super().choose_trial_to_run(tune_controller)


def classify_actor_error(trace: str) -> tuple[str, dict[str, Any]]:
    """The status of a trial whose actor failed, from Ray's error message.

    An actor goes away with its worker or its node, or is killed by Ray's memory monitor. Any other error was raised in
    the actor.
    """
    if any(sign in trace for sign in ("OutOfMemoryError", "low on memory", "memory pressure")):
        return TrialStatus.OOM, {"type": "OutOfMemory", "message": "stopped by Ray because its node ran low on memory"}
    if not trace or any(sign in trace for sign in ACTOR_GONE):
        return TrialStatus.LOST, {"type": "ActorDied", "message": "the worker or its node was lost"}
    last_line = trace.strip().splitlines()[-1]
    return TrialStatus.FAILED, {"type": "ActorFailed", "message": last_line, "traceback": trace}


def _bundle(placement: AssignedWork) -> dict[str, float]:
    """The resources that a placement takes of its node, in Ray's terms.

    A local Ray has no other users: there every trial requests the same, because Tune starts a new actor, and with it
    new fork servers, for a trial that requests different resources.
    """
    if not placement.node.address:
        return {"CPU": PIN}
    fit = placement.work.trial.cell.fit
    assert fit is not None, "a trial that fits nowhere is never dispatched"
    bundle = {"CPU": float(len(placement.cores)), f"{NODE}{placement.node.address}": PIN, **dict(fit.resources)}
    resource = KINDS[placement.work.trial.cell.content.device.kind].ray_resource
    if placement.visible and resource:
        bundle[resource] = bundle.get(resource, 0.0) + len(placement.visible)
    return bundle


def _innermost(error: BaseException) -> str:
    """The root cause of an error in one line: Ray wraps a refused token in two errors of its own."""
    while error.__cause__ is not None:
        error = error.__cause__
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


class _OwnPath(JobConfig):  # type: ignore[misc]
    """Keeps the driver's folder off the path of Ray's workers.

    A module there could hide one of the standard library.

    A raybench that is not installed is still found there.
    """

    def __init__(self) -> None:
        package = PACKAGE.parent
        super().__init__(_py_driver_sys_path=[] if package.name.endswith("-packages") else [str(package)])

    def _runtime_env_has_working_dir(self) -> bool:
        """True, because Ray then adds no folder to the path; it has no option for that."""
        return True


@contextmanager
def _sigterm_kept() -> Iterator[None]:
    """Keep this process's handler of SIGTERM.

    Ray sets two handlers of its own on start, one of which aborts the process, and removes them all on shutdown.
    """
    handler, install = signal.getsignal(signal.SIGTERM), utils.set_sigterm_handler
    utils.set_sigterm_handler = lambda handler: None
    try:
        yield
    finally:
        utils.set_sigterm_handler = install
        if handler is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)


class RayTuneExecutor:
    """Ray Tune on this machine (`address` None: a local Ray, shut down with it) or on a running cluster."""

    uses_ray = True
    own_is_up = False
    """Whether the Ray of this process is a local one that was started by one of these executors."""

    def __init__(self, address: str | None = None, patience: float = RETURN_TIMEOUT) -> None:
        self._address, self._patience = address, patience
        self._environments: Sequence[str] = ()
        self._connected = self._started = self._joined = False
        self._scratch: Scratch | None = None
        self._kept = ExitStack()
        self._reaper: Reaper | None = None
        self._watch: RayWatch | None = None

    def nodes(self, environments: Sequence[str] = ()) -> list[Node]:
        """Every node of the cluster, or this machine as one.

        Each is probed locally, including its environments.

        Raises:
            ExecutionError: a node does not answer.
        """
        self._environments = environments
        try:
            self._connect(tell=lambda words: None)  # the error below says the same
            return self._ask(environments)
        except RayGoneError as gone:
            raise ExecutionError(f"{gone} before the first trial; run the same command again") from None

    def _ask(self, environments: Sequence[str]) -> list[Node]:
        """Every node, each probed locally.

        Raises:
            ExecutionError: a node does not answer.
            RayGoneError: Ray ended.
        """
        alive = [node for node in ray.nodes() if node["Alive"]]
        answers = [probe(node, environments, "" if self._started else None) for node in alive]
        make_s = MAKE_TIMEOUT if any(map(runtime_env_of, environments)) else 0.0
        deadline = time.monotonic() + PROBE_TIMEOUT + make_s
        try:
            while len(ray.wait(answers, num_returns=len(answers), timeout=1.0)[0]) < len(answers):
                if self._watch:
                    self._watch.check()
                if time.monotonic() > deadline:
                    break
            nodes: list[Node] = ray.get(answers, timeout=0)
        except ray.exceptions.RayError as error:
            raise ExecutionError(f"a node of the cluster did not answer: {error}") from error
        if self._started:
            return nodes
        return disambiguate([limit_to_ray(node, entry["Resources"]) for node, entry in zip(nodes, alive, strict=True)])

    def _connect(self, tell: Tell) -> None:
        """Start a local Ray or join the cluster.

        The local Ray's folder has a short name, because socket paths have a length limit.

        A Ray that the caller has started is the cluster, and is not shut down.

        Raises:
            ExecutionError: Ray does not start, or there is no cluster at the address.
            RayGoneError: a local Ray ended while it started.
        """
        if self._connected:
            return
        if ray.is_initialized():
            self._connected, self._started = True, RayTuneExecutor.own_is_up
            return
        logging.getLogger("ray.tune").setLevel(logging.CRITICAL)  # raybench's own display reports the same
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "include_dashboard": False}
        quiet["job_config"] = _OwnPath()
        # A Ray that is not a cluster takes the address 127.0.0.1, and then its servers listen only there; otherwise
        # they listen on every network interface. There is no argument for that: Ray treats 127.0.0.1 as a mistake.
        ray_constants.ENABLE_RAY_CLUSTER = self._address is not None
        if self._address is not None:
            del quiet["include_dashboard"]
            try:
                with _sigterm_kept():
                    ray.init(self._address, **quiet)
            except (ConnectionError, ValueError, RuntimeError) as error:
                raise ExecutionError(
                    f"cannot connect to a Ray cluster at {self._address}: {_innermost(error)}"
                ) from error
            self._connected = self._joined = True
            return
        check_limits(probe_node().cores)
        self._scratch = ray_folder()
        self._kept.enter_context(own_token(self._scratch.path))
        # Ray makes its folder accessible to every user of the machine, so it is placed inside a private one.
        folder, cores = self._scratch.path / "r", probe_node().cores
        self._reaper = Reaper(self._scratch.path)
        self._watch = RayWatch(folder, tell)
        try:
            memory = {"object_store_memory": SMALL_OBJECT_STORE}
            with _sigterm_kept():
                ray.init("local", num_cpus=cores, _temp_dir=str(folder), **memory, **quiet)
        # Any error of Ray: on a machine too busy for its time limits it raises a plain Exception.
        except Exception as error:
            self._watch.check_soon()
            raise ExecutionError(f"Ray did not start on this machine: {error}") from error
        self._watch.check()
        self._reaper.ray_is_up()
        self._watch.ray_is_up()
        self._connected = self._started = RayTuneExecutor.own_is_up = True

    def host_load(self) -> HostLoad | None:
        """Other programs' use of this machine; not measured for a cluster, whose trials may run elsewhere."""
        return measure_load() if self._address is None else None

    def run(self, dispatcher: Dispatcher, make_job: MakeJob, sink: Sink, tell: Tell) -> None:
        """Run through Tune until nothing is left; a local Ray that ends meanwhile is restarted.

        Raises:
            ExecutionError: Ray does not start, or has ended too often.
        """
        in_main = threading.current_thread() is threading.main_thread()
        # SIGTERM, for example from a batch system, stops a grid like Ctrl-C. Ray's handler would end the process at
        # once.
        old_handler = signal.signal(signal.SIGTERM, signal.default_int_handler) if in_main else None
        endings, head_watch = 0, None
        try:
            while not dispatcher.finished:
                try:
                    self._connect(tell)
                    if not self._watch and not head_watch:
                        head_watch = HeadWatch(ray.get_runtime_context().gcs_address, tell)
                    self._run(dispatcher, make_job, sink, tell)
                except RayGoneError as gone:
                    endings += 1
                    if endings <= RESTARTS:
                        tell(RESTARTED.format(why=gone))
                    self.close()  # a trial could still complete while its worker lives
                    self._give_back(dispatcher, sink, str(gone))
                    if endings > RESTARTS:
                        raise ExecutionError(ENDED.format(why=gone, restarts=RESTARTS)) from None
        except KeyboardInterrupt:
            for work in [placement.work for placement in dispatcher.running]:
                dispatcher.release(work.name, work.attempt)
                if not work.check:
                    sink(events.trial_ended(work.name, work.attempt, TrialStatus.KILLED))
            raise
        finally:
            if head_watch:
                head_watch.close()
            if old_handler is not None:
                signal.signal(signal.SIGTERM, old_handler)

    @staticmethod
    def _give_back(dispatcher: Dispatcher, sink: Sink, reason: str) -> None:
        """Release the work that ran when Ray ended: trials are lost (retried while retries remain), checks restart."""
        error = {"type": "RayGone", "message": reason}
        for work in [placement.work for placement in dispatcher.running]:
            own_end = None
            if not work.check:
                own_end = sink(events.trial_ended(work.name, work.attempt, TrialStatus.LOST, error=error))
            dispatcher.release(work.name, work.attempt, lost=not own_end, begun=not work.check)

    def _run(self, dispatcher: Dispatcher, make_job: MakeJob, sink: Sink, tell: Tell) -> None:
        """Run through Tune until nothing is left.

        Raises:
            RayGoneError: Ray ended, or its folder was removed.
        """
        storage, presence = ray_folder(), NodeMonitor(dispatcher, tell, self._patience, self._environments)
        listener = _Listener(dispatcher, sink, presence, self._watch)
        tuner = tune.Tuner(
            TrialActor,
            tune_config=tune.TuneConfig(
                search_alg=_PlanOrder(dispatcher, make_job, sink, presence),
                scheduler=_TrialScheduler(dispatcher, presence),
                num_samples=-1,
                reuse_actors=True,
                trial_name_creator=lambda trial: trial.config["trial"],
                trial_dirname_creator=lambda trial: f"{trial.config['trial']}-{trial.trial_id}",
            ),
            run_config=tune.RunConfig(
                name="grid",
                storage_path=str(storage.path),
                verbose=0,
                # If Tune saved a trial at its end, the next one would meanwhile request an actor of its own.
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
                callbacks=[listener],
                # Silent at this verbosity. By default Tune's reporter for notebooks clears the output of the cell.
                progress_reporter=tune.CLIReporter(),
            ),
        )
        try:
            tuner.fit()
        except Exception as error:
            if self._watch:
                self._watch.check_soon()
            if isinstance(error, TuneError) and listener.refusal:
                raise listener.refusal from None
            raise
        finally:
            storage.close()

    def close(self) -> None:
        """Leave the cluster, or shut down the local Ray and remove its folder.

        A Ray that the caller has started is not shut down.
        """
        if self._watch:
            self._watch.expect_shutdown()
        if self._joined or self._scratch:
            # While Ray shuts down, it ends a process with status 1 if any thread frees an object reference, as a
            # collection in the thread that imports the report's libraries would.
            with _sigterm_kept(), collector_paused():
                ray.shutdown()
            RayTuneExecutor.own_is_up = False
        if self._watch:
            self._watch.close()
            self._watch = None
        self._connected = self._started = self._joined = False
        if self._reaper:
            self._reaper.close()
            self._reaper = None
        self._kept.close()
        if self._scratch:
            self._scratch.close()
            self._scratch = None
