"""Ray's `runtime_env` as a trial's environment: Ray creates it, and an actor in it keeps the fork server.

Ray retries a `runtime_env` that cannot be created forever, so every wait for one has a timeout here.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from raybench.core.events import Event
from raybench.core.job import Job
from raybench.core.secret_masking import mask_words
from raybench.core.status import TrialStatus
from raybench.core.temp_folders import Scratch
from raybench.engines.user_loop import LOOP_PACKAGES
from raybench.environments import NEEDED, Interpreter, environment_label, link_package, runtime_env_of
from raybench.errors import ExecutionError
from raybench.execution.process import START_TIMEOUT, ForkServer
from raybench.planning.node import Node, installed, probe_node
from raybench.trial.record import failure_event

MAKE_TIMEOUT = 300.0
"""Timeout for creating a `runtime_env`, in seconds: one with large packages takes a minute."""


class _Host:
    """Actor that runs inside the `runtime_env`, in a Ray worker process."""

    def interpreter(self) -> dict[str, Any]:
        """Description of its interpreter, as the fields of an `Interpreter`."""
        packages = installed((*LOOP_PACKAGES.values(), *NEEDED))
        return {"version": platform.python_version(), "packages": packages}

    def start(self, framework: str, passive: bool) -> None:
        """Load a framework into a fork server."""
        self._framework, self._template = framework, ForkServer(framework, passive=passive)

    def run(self, job: dict[str, Any]) -> Iterator[Event]:
        """The events of one attempt."""
        if not self._template.alive:
            self.start(self._framework, job["host_busy"])
        yield from self._template.run(Job.from_json(job))


class _Place:
    """A `runtime_env` on this node, with an actor in it.

    The actor finds this raybench, and takes no resources.

    Raises:
        ValueError, TypeError: Ray does not accept it as a `runtime_env`.
    """

    def __init__(self, runtime_env: Mapping[str, Any]) -> None:
        self._folder = Scratch()
        link_package(self._folder.path)
        env_vars = runtime_env.get("env_vars") or {}
        if not isinstance(env_vars, Mapping):
            raise TypeError("env_vars must be a map of strings")
        path = os.pathsep.join(filter(None, [str(self._folder.path), env_vars.get("PYTHONPATH")]))
        affinity = NodeAffinitySchedulingStrategy(node_id=ray.get_runtime_context().get_node_id(), soft=False)
        own_env = {**runtime_env, "env_vars": {**env_vars, "PYTHONPATH": path}}
        self.host = ray.remote(_Host).options(num_cpus=0, scheduling_strategy=affinity, runtime_env=own_env).remote()

    def close(self) -> None:
        """End the actor and all processes that it has started."""
        ray.kill(self.host)
        self._folder.close()


def probe_with_runtime_envs(address: str, environments: Sequence[str]) -> Node:
    """Describe this machine, a Ray node, with environments including `runtime_env` ones.

    Every `runtime_env` is created here, all in parallel; this takes at most `MAKE_TIMEOUT` in addition to `probe_node`.
    """
    node = probe_node(address, environments)
    interpreters = dict(node.environments)
    hosts: dict[str, _Place] = {}
    for key in environments:
        if (runtime_env := runtime_env_of(key)) is not None:
            try:
                hosts[key] = _Place(runtime_env)
            except (ValueError, TypeError) as error:
                interpreters[key] = Interpreter(problem=f"{environment_label(key)}: {_in_short(error, runtime_env)}")
    answers = {key: host.host.interpreter.remote() for key, host in hosts.items()}
    if answers:
        ray.wait(list(answers.values()), num_returns=len(answers), timeout=MAKE_TIMEOUT)
    for key, answer in answers.items():
        try:
            interpreters[key] = Interpreter(**ray.get(answer, timeout=0))
        except ray.exceptions.GetTimeoutError:
            reason = f"Ray did not build it within {MAKE_TIMEOUT:g} s"
            interpreters[key] = Interpreter(problem=f"{environment_label(key)} on {node.name}: {reason}")
        except ray.exceptions.RayError as error:
            reason = _in_short(error, runtime_env_of(key) or {})
            interpreters[key] = Interpreter(problem=f"{environment_label(key)} on {node.name}: {reason}")
        hosts[key].close()
    return replace(node, environments=interpreters)


def _in_short(error: Exception, runtime_env: Mapping[str, Any]) -> str:
    """The last line of Ray's error about a `runtime_env`, without secrets.

    Traceback frames are skipped.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return mask_words(lines[-1], runtime_env)[:300] if lines else type(error).__name__


class RemoteForkServer:
    """A fork server inside a `runtime_env`, on the requesting actor's node.

    Raises:
        ExecutionError: the `runtime_env` cannot be created, or the framework cannot be loaded in it.
    """

    def __init__(self, framework: str, runtime_env: Mapping[str, Any], passive: bool = False) -> None:
        self._place, self._runtime_env = _Place(runtime_env), runtime_env
        self.alive = True
        try:
            ray.get(self._place.host.start.remote(framework, passive), timeout=MAKE_TIMEOUT + START_TIMEOUT)
        except ray.exceptions.RayTaskError as error:
            self.close()
            raise ExecutionError(mask_words(str(error.cause), runtime_env)) from None
        except ray.exceptions.RayError as error:
            self.close()
            raise ExecutionError(
                f"{environment_label(json.dumps(runtime_env))}: {_in_short(error, runtime_env)}"
            ) from None

    def run(self, job: Job) -> Iterator[Event]:
        """Run one attempt and yield its events; the last is always one of `events.ENDS`."""
        try:
            for event in self._place.host.run.options(num_returns="streaming").remote(job.to_json()):
                yield ray.get(event)
        except ray.exceptions.RayActorError as error:
            self.alive = False
            failure = {"type": "ActorDied", "message": _in_short(error, self._runtime_env)}
            yield failure_event(job, TrialStatus.LOST, failure)

    def close(self) -> None:
        """End the actor, with the fork server and any running trial."""
        self.alive = False
        self._place.close()
