"""Tune's actor for trials.

It keeps fork servers running, so that a further trial only costs a fork.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import ray
from ray import tune

from raybench.core import events
from raybench.core.events import Event
from raybench.core.job import Job
from raybench.core.status import TrialStatus
from raybench.devices import KINDS
from raybench.errors import ExecutionError
from raybench.execution.cluster import own_code, own_folder, take_files
from raybench.execution.process import ForkServer
from raybench.execution.runtime_env import RemoteForkServer
from raybench.trial.record import failure_event


class TrialRunner(Protocol):
    """Process with a loaded framework that runs each attempt in a fresh process."""

    @property
    def alive(self) -> bool:
        """Return whether it can run another trial."""

    def run(self, job: Job) -> Iterator[Event]:
        """The events of one attempt."""

    def close(self) -> None:
        """Terminate it and any running trial."""


class TrialActor(tune.Trainable):  # type: ignore[misc]  # Ray has no types
    """Passes jobs to a local fork server and returns events as results.

    It keeps one fork server for each framework and environment of its trials: in a shuffled grid they alternate, an
    idle server uses no processor time, and loading a framework again takes seconds.
    """

    _events: Iterator[Event]
    _away: str | None

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> tune.PlacementGroupFactory:
        """The cores and accelerators of the placement, on its node."""
        return tune.PlacementGroupFactory([config["bundle"]])

    def setup(self, config: dict[str, Any]) -> None:
        """Prepare the iterator of the job's events; nothing runs yet."""
        if not hasattr(self, "_templates"):
            self._templates: dict[tuple[object, ...], TrialRunner] = {}
            self._folder = Path.cwd()
        self.config: dict[str, Any] = {}  # Tune would send it with each result
        job, on_cluster = Job.from_json(json.loads(config["job"])), config["on_cluster"]
        local_job = own_folder(job) if on_cluster else job
        if config.get("code") and not Path(job.code).is_dir():
            local_job = replace(local_job, code=str(own_code(job, ray.get(config["code"]))))
        self._away = local_job.folder if local_job.folder != job.folder else None
        self._events = self._run(local_job, on_cluster, config["runtime_env"])

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Take the next trial with the same fork servers, and in the same folder: Tune makes one for each trial."""
        with suppress(OSError):  # it may have been cleaned up
            os.chdir(self._folder)
            Path(self.logdir).rmdir()
        self.setup(new_config)
        return True

    def step(self) -> dict[str, Any]:
        """The next event, in a list: Tune makes statistics of numbers in dicts.

        The last has `done` and, if its files are not on the driver's disk, `files`.
        """
        event = next(self._events)
        done = event["event"] in events.ENDS
        if done and self._away:
            for _ in self._events:  # the generator still writes files after its last event
                pass
            return {"events": [event], "done": done, "files": take_files(Path(self._away))}
        return {"events": [event], "done": done}

    def cleanup(self) -> None:
        """Terminate the fork servers and any running trial."""
        for template in self._templates.values():
            template.close()

    def _run(self, job: Job, on_cluster: bool, runtime_env: Mapping[str, Any] | None) -> Iterator[Event]:
        resource = KINDS[job.cell.device.kind].ray_resource
        if job.visible and on_cluster and resource:
            job = replace(job, visible=ray.get_runtime_context().get_accelerator_ids()[resource])
        try:
            template = self._template(job, runtime_env)
        except ExecutionError as error:
            failure: dict[str, Any] = {"type": "ExecutionError", "message": str(error)}
            if os.strerror(errno.ENOSPC) in failure["message"]:
                yield failure_event(job, TrialStatus.LOST, failure | {"disk_full": True})
                return
            yield failure_event(job, TrialStatus.FAILED, failure)
            return
        yield from template.run(job)

    def _template(self, job: Job, runtime_env: Mapping[str, Any] | None) -> TrialRunner:
        """The fork server of the job's framework and environment, started if necessary.

        Raises:
            ExecutionError: it cannot be started.
        """
        framework, python, passive = job.preloaded, job.python, job.host_busy
        key = (framework, python, json.dumps(runtime_env, sort_keys=True), passive)
        cached = self._templates.pop(key, None)
        if cached and cached.alive:
            self._templates[key] = cached
            return cached
        if cached:
            cached.close()
        template: TrialRunner
        if runtime_env:
            template = RemoteForkServer(framework, runtime_env, passive)
        else:
            template = ForkServer(framework, python, passive=passive)
        self._templates[key] = template
        return template
