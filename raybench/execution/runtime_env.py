"""A Ray `runtime_env` as a trial's environment: Ray makes it, and an actor of Ray's in it keeps the fork template.

Ray tries a `runtime_env` that cannot be made for ever, so that everything here that waits for one has a limit.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

import raybench
from raybench.devices.node import installed
from raybench.engines import PACKAGES
from raybench.environments import NEEDED, Interpreter, called
from raybench.errors import ExecutionError
from raybench.execution.process import START_TIMEOUT, TemplateProcess
from raybench.trial import events
from raybench.trial.events import Event
from raybench.trial.job import Job

MAKE_TIMEOUT = 300.0
"""Seconds that making a `runtime_env` may take: one with large packages takes a minute."""


class _Host:
    """Lives inside the `runtime_env`, in a worker process of Ray's."""

    def interpreter(self) -> dict[str, Any]:
        """What is there, as the fields of an `Interpreter`."""
        import platform

        packages = installed((*PACKAGES.values(), *NEEDED))
        return {"version": platform.python_version(), "packages": packages}

    def start(self, framework: str) -> None:
        """Load a framework into a fork template."""
        self._template = TemplateProcess(framework)

    def run(self, job: dict[str, Any]) -> Iterator[Event]:
        """The events of one attempt."""
        yield from self._template.run(Job.from_json(job))


def _start_host(runtime_env: Mapping[str, Any], node_id: str) -> Any:
    """An actor on a node, in a `runtime_env` that brings this raybench along. It takes no resources: its trial has."""
    modules = [*runtime_env.get("py_modules", ()), str(Path(raybench.__file__).parent)]
    there = NodeAffinitySchedulingStrategy(node_id=node_id, soft=False)
    options = {"num_cpus": 0, "scheduling_strategy": there, "runtime_env": {**runtime_env, "py_modules": modules}}
    return ray.remote(_Host).options(**options).remote()


def try_runtime_envs(runtime_envs: Mapping[str, Mapping[str, Any]], nodes: Mapping[str, str]) -> dict[str, Any]:
    """Make each `runtime_env` on each node, all at once.

    Args:
        runtime_envs: by their keys.
        nodes: from Ray's number of a node to its name.

    Returns:
        For each number of a node, an `Interpreter` by key.
    """
    hosts = {(node, key): _start_host(env, node) for node in nodes for key, env in runtime_envs.items()}
    asked = {place: host.interpreter.remote() for place, host in hosts.items()}
    answered, _ = ray.wait(list(asked.values()), num_returns=len(asked), timeout=MAKE_TIMEOUT)
    found: dict[str, dict[str, Interpreter]] = {node: {} for node in nodes}
    for (node, key), answer in asked.items():
        where = f"{called(key)} on {nodes[node]}"
        try:
            if answer not in answered:
                raise TimeoutError(f"Ray did not make it within {MAKE_TIMEOUT:g} s")
            found[node][key] = Interpreter(**ray.get(answer))
        except (ray.exceptions.RayError, TimeoutError) as error:
            found[node][key] = Interpreter(problem=f"{where}: {_in_short(error)}")
    for host in hosts.values():
        ray.kill(host)
    return found


def _in_short(error: Exception) -> str:
    """The last line of what Ray says that is no frame of a traceback."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:300] if lines else type(error).__name__


class RemoteTemplate:
    """A fork template inside a `runtime_env`, on the node of the actor that asks for it.

    Raises:
        ExecutionError: the `runtime_env` cannot be made, or the framework cannot be loaded in it.
    """

    def __init__(self, framework: str, runtime_env: Mapping[str, Any]) -> None:
        self._host = _start_host(runtime_env, ray.get_runtime_context().get_node_id())
        self.alive = True
        try:
            ray.get(self._host.start.remote(framework), timeout=MAKE_TIMEOUT + START_TIMEOUT)
        except ray.exceptions.RayTaskError as error:
            self.close()
            raise ExecutionError(str(error.cause)) from None
        except ray.exceptions.RayError as error:
            self.close()
            raise ExecutionError(f"{called(json.dumps(runtime_env))}: {_in_short(error)}") from None

    def run(self, job: Job) -> Iterator[Event]:
        """Run one attempt and yield its events; the last is always `trial_ended`."""
        try:
            for event in self._host.run.options(num_returns="streaming").remote(job.to_json()):
                yield ray.get(event)
        except ray.exceptions.RayActorError as error:
            self.alive = False
            what = {"type": "ActorDied", "message": _in_short(error)}
            yield events.trial_ended(job.trial, job.attempt, events.LOST, error=what)

    def close(self) -> None:
        """End the actor and, with it, the template and whatever trial it still has."""
        self.alive = False
        ray.kill(self._host)
