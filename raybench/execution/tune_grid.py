"""The trials of a grid as trials of Ray Tune.

The plan decides which trial is next and on which nodes; Tune starts, watches and ends it. `PlanSearcher` hands out what
the driver has sent, `GridTrial` is Tune's actor of a trial, which iterates over the events of the `NodeServer` that
runs it, and `EndCallback` reports its end. A result of Tune is an epoch: its number, its seconds of training and its
metrics. The files of an attempt, not these results, are what raybench reports.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import ray
from ray import tune
from ray.tune.logger import JsonLoggerCallback
from ray.tune.result import RESULT_DUPLICATE
from ray.tune.search import Searcher

from raybench.core.events import ENDS, Event
from raybench.core.ledger import training_s
from raybench.core.status import TrialStatus
from raybench.execution.node_server import AttemptKey
from raybench.execution.ray_nodes import NODE_ID
from raybench.execution.ray_settings import CONFIG_KEY

ACTOR_LOSSES = (ray.exceptions.RayActorError, ray.exceptions.ActorUnschedulableError)
"""Errors of a call whose actor, or the node of it, is lost or not there yet."""

NODE_END_S = 10.0  # seconds in which the other nodes of a trial have to end after the first one

Ended = Callable[[AttemptKey, bool, str], None]
"""Called at the end of a trial: whether Tune has an error, and which one, if it is not the loss of an actor."""


def server_name(address: str) -> str:
    """The name of the actor of a node."""
    return f"raybench-node-{address}"


def key_of(config: Mapping[str, Any]) -> AttemptKey:
    """The trial and attempt of a config."""
    return config[CONFIG_KEY]["trial"], config[CONFIG_KEY]["attempt"]


def described(event: Event) -> str:
    """The status and the error of an ended trial in one line."""
    error = event["error"] or {}
    return f"{event['status']}: {error.get('type')}: {error.get('message')}"


def resources_of(config: Mapping[str, Any]) -> tune.PlacementGroupFactory:
    """The resources of a trial: a bundle on each of its nodes."""
    values = config[CONFIG_KEY]
    labels = [{NODE_ID: node_id} for node_id in values["node_ids"]]
    return tune.PlacementGroupFactory(list(values["bundles"]), strategy="STRICT_SPREAD", bundle_label_selector=labels)


class TrialFailed(Exception):
    """A trial without a result: its status and the error, such as that of its code."""


class GridTrial(tune.Trainable):  # type: ignore[misc]  # Ray has no types
    """Tune's actor of one trial after another; the training runs in processes of the nodes' actors."""

    def setup(self, config: dict[str, Any]) -> None:
        """Note the first trial."""
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Note the next trial."""
        self._key, self._addresses = key_of(new_config), new_config[CONFIG_KEY]["nodes"]
        self._streams: list[Any] = []  # of the events of each node; those of the first are the trial's
        self._result: dict[str, Any] = {}
        return True

    def step(self) -> dict[str, Any]:
        """Return the next epoch of the trial; at its end, the last one with a status other than `completed`.

        Raises:
            TrialFailed: the trial has ended without a result.
        """
        if not self._streams:
            by_ray = ray.get_runtime_context().get_accelerator_ids()
            servers = [ray.get_actor(server_name(address)) for address in self._addresses]
            self._streams = [
                server.run.options(num_returns="streaming").remote(self._key, {} if number else by_ray)
                for number, server in enumerate(servers)
            ]
        while True:
            event = self._next_event()
            if event["event"] == "epoch_ended":
                seconds = training_s(event["ledger"])
                self._result = {"epoch": event["epoch"], "epoch_s": seconds, **event["metrics"]}
                return self._result
            if event["event"] in ENDS:
                self._end_other_nodes()
                if TrialStatus(event["status"]).is_failure:
                    raise TrialFailed(described(event))
                if self._result and event["status"] == TrialStatus.COMPLETED:
                    return {RESULT_DUPLICATE: True, "done": True}  # nothing that callbacks have not seen
                return {**self._result, "status": event["status"], "done": True}

    def _next_event(self) -> Event:
        """The next event of the trial, which is one of its first node.

        Raises:
            TrialFailed: the part on another node has failed, or the node is lost.
        """
        while True:
            (stream,), _ = ray.wait(self._streams, num_returns=1)
            number = self._streams.index(stream)
            try:
                event: Event = ray.get(next(stream))
            except StopIteration:
                if number == 0:
                    raise TrialFailed(f"{TrialStatus.LOST}: its process ended without a result") from None
                del self._streams[number], self._addresses[number]
            except ACTOR_LOSSES:
                raise TrialFailed(f"{TrialStatus.LOST}: node {self._addresses[number]} was lost") from None
            else:
                if number == 0:
                    return event
                if event["event"] in ENDS and event["error"]:
                    raise TrialFailed(
                        f"{event['status']}: on node {self._addresses[number]}: {event['error']['message']}"
                    )

    def _end_other_nodes(self) -> None:
        """Wait until the other nodes have ended, and end those that go on."""
        streams = self._streams[1:]
        deadline = time.monotonic() + NODE_END_S
        while streams and time.monotonic() < deadline:
            ready, _ = ray.wait(streams, num_returns=1, timeout=max(0.0, deadline - time.monotonic()))
            for stream in ready:
                with suppress(*ACTOR_LOSSES):
                    for _ in stream:
                        pass
                streams.remove(stream)
        for address in self._addresses[1:] if streams else ():
            with suppress(*ACTOR_LOSSES):
                server = ray.get_actor(server_name(address))
                ray.get(server.cancel.remote(self._key, TrialStatus.KILLED, "the trial has ended on its first node"))

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """No-op: results are in the attempts' files."""


class _Unsaved:
    """A part of an experiment that Tune's record of it leaves out."""

    def __getstate__(self) -> dict[str, Any]:
        return {}


class PlanSearcher(_Unsaved, Searcher):  # type: ignore[misc]
    """Hands out the trials that the driver has sent, in their order."""

    def __init__(self, waiting: SimpleQueue[dict[str, Any] | None]) -> None:
        super().__init__()
        self._waiting, self._running = waiting, 0

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """The next config; None if there is none yet, and the end of the search after the last.

        While a trial runs, Tune must not wait here. Without one it does: Tune itself would ask again after a second.
        """
        if self._running and self._waiting.empty():
            return None
        config = self._waiting.get()
        if config is None:
            return str(Searcher.FINISHED)
        self._running += 1
        return config

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Note the end of a trial."""
        self._running -= 1

    def save(self, checkpoint_path: str) -> None:
        """No-op: the plan is made again from the grid and the attempts' files."""

    def restore(self, checkpoint_path: str) -> None:
        """No-op."""


class EndCallback(_Unsaved, tune.Callback):  # type: ignore[misc]
    """Reports the end of each trial."""

    def __init__(self, ended: Ended) -> None:
        self._ended = ended

    def on_trial_complete(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
        """Report a trial with a result."""
        self._ended(key_of(trial.config), False, "")

    def on_trial_error(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
        """Report a trial without one."""
        self._ended(key_of(trial.config), True, innermost(trial.get_error()))


def innermost(error: BaseException | None) -> str:
    """The root cause of an error in one line, without the errors in which Ray wraps it; "" for the loss of an actor."""
    while error is not None and (cause := getattr(error, "cause", None) or error.__cause__):
        error = cause
    if error is None or isinstance(error, ACTOR_LOSSES):
        return ""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def run_trials(
    waiting: SimpleQueue[dict[str, Any] | None],
    ended: Ended,
    folder: Path,
    callbacks: Sequence[tune.Callback],
) -> None:
    """Run trials until the end of the search.

    Args:
        waiting: their configs; None ends the search.
        folder: of Tune's own record of the experiment, which `ray.tune.ExperimentAnalysis` reads.
    """
    tune.Tuner(
        tune.with_resources(GridTrial, resources_of),
        tune_config=tune.TuneConfig(
            search_alg=PlanSearcher(waiting),
            num_samples=-1,
            reuse_actors=True,
            trial_name_creator=lambda trial: trial.config[CONFIG_KEY]["label"],
            trial_dirname_creator=lambda trial: "{}-{}".format(*key_of(trial.config)),
        ),
        run_config=tune.RunConfig(
            name=folder.name,
            storage_path=str(folder.parent),
            verbose=0,
            callbacks=[EndCallback(ended), JsonLoggerCallback(), *callbacks],
            failure_config=tune.FailureConfig(max_failures=0),
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
        ),
    ).fit()
