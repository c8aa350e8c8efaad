"""The process that owns Ray: starts or joins it, and lets Ray Tune run one agent per node.

Runs as `python -m raybench.execution.ray_process`, as a child of the driver, which owns the plan, the files and the
display, and never imports Ray. If Ray aborts its process or hangs, the driver goes on. When standard input closes,
everything that was started here is killed.

To Tune, each node's agent is a trial that holds all of the node's resources until the end of the grid; it starts again
after the loss of its worker or node. raybench's own trials are processes of the agents, in the order of the plan: Tune
itself lets small trials overtake large ones.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any

import psutil

from raybench.core.process_guard import adopt_orphans, watch
from raybench.core.temp_folders import sweep

END_S = 5.0
"""Most seconds in which what this process has started is killed."""


def end() -> None:
    """Kill everything that this process has started, and end it."""
    deadline = time.monotonic() + END_S
    while (family := psutil.Process().children(recursive=True)) and time.monotonic() < deadline:
        for each in family:
            with suppress(psutil.Error):
                each.kill()
        psutil.wait_procs(family, timeout=0.05)
    sweep()
    os._exit(0)


if __name__ == "__main__":
    watch(0, end)  # before the imports, which take many seconds on a busy machine

import ray  # noqa: E402
from ray import tune  # noqa: E402
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: E402

from raybench.execution.node_agent import NodeAgent  # noqa: E402
from raybench.execution.ray_settings import MEMORY  # noqa: E402
from raybench.planning.node import Node, probe_node  # noqa: E402

OBJECT_STORE_BYTES = 100 * 1024 * 1024
"""Ray's object store on a local Ray: nothing passes through it."""

PROBE_TIMEOUT_S = 120.0

HEARTBEAT_S = 3.0
"""Seconds between two messages to the driver that say which nodes Ray has."""

NODE_SHARE = 0.001
"""Fraction of a node's own resource, which places an agent on that node."""

NOT_REQUESTED = ("memory", "object_store_memory")


class AgentTrial(tune.Trainable):  # type: ignore[misc]  # Ray has no types
    """Tune's trial: the agent of a node."""

    def setup(self, config: dict[str, Any]) -> None:
        """Connect to the driver."""
        agent = config["agent"]
        accelerators = ray.get_runtime_context().get_accelerator_ids()
        self._agent = NodeAgent(agent["listener"], agent["key"], agent["node"], accelerators)

    def step(self) -> dict[str, Any]:
        """Run trials until the connection closes; Tune then starts the agent again, if the grid has not ended."""
        self._agent.serve()
        raise ConnectionError("the connection to the driver has closed")

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """No-op: results are in the attempts' files."""


def innermost(error: BaseException) -> str:
    """The root cause of an error in one line: Ray wraps a refused token in two errors of its own."""
    while error.__cause__ is not None:
        error = error.__cause__
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def start_ray(address: str | None, cores: int) -> None:
    """Start a local Ray, or join the cluster at an address."""
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is None:
        quiet |= {"num_cpus": cores, "object_store_memory": OBJECT_STORE_BYTES, **MEMORY}
        ray.init("local", include_dashboard=False, **quiet)
    else:
        ray.init(address, **quiet)


def alive_nodes() -> list[dict[str, Any]]:
    """Ray's descriptions of the nodes that are there."""
    return [entry for entry in ray.nodes() if entry["Alive"]]


def probe(environments: Sequence[str]) -> list[tuple[Node, Mapping[str, float]]]:
    """Every node of the cluster, described by a task on it, with the resources that Ray offers there."""
    entries = alive_nodes()
    answers = [
        ray.remote(num_cpus=0)(probe_node)
        .options(scheduling_strategy=NodeAffinitySchedulingStrategy(node_id=entry["NodeID"], soft=False))
        .remote(entry["NodeManagerAddress"], list(environments))
        for entry in entries
    ]
    return list(zip(ray.get(answers, timeout=PROBE_TIMEOUT_S), (entry["Resources"] for entry in entries), strict=True))


def agent_resources(address: str) -> dict[str, float]:
    """All resources that Ray offers on a node, so that no other job of Ray runs beside a trial."""
    entry = next(entry for entry in alive_nodes() if not address or entry["NodeManagerAddress"] == address)
    own = f"node:{entry['NodeManagerAddress']}"
    names = [name for name in entry["Resources"] if name not in NOT_REQUESTED and not name.startswith("node:")]
    return {own: NODE_SHARE, **{name: entry["Resources"][name] for name in names}}


def run_agents(agents: Sequence[Mapping[str, Any]], storage: Path) -> None:
    """Run an agent on each node through Tune, until they end."""
    trials = [{**agent, "resources": agent_resources(agent["ray_address"])} for agent in agents]
    tuner = tune.Tuner(
        tune.with_resources(AgentTrial, lambda config: tune.PlacementGroupFactory([config["agent"]["resources"]])),
        param_space={"agent": tune.grid_search(trials)},
        run_config=tune.RunConfig(
            name="grid",
            storage_path=str(storage),
            verbose=0,
            failure_config=tune.FailureConfig(max_failures=-1),
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
        ),
    )
    tuner.fit()


def main() -> None:
    """Serve the driver: start Ray, describe nodes, run agents."""
    settings = json.loads(sys.stdin.buffer.readline())
    adopt_orphans()
    driver = Client(settings["listener"], authkey=bytes.fromhex(settings["key"]))
    sending = threading.Lock()

    def send(**message: Any) -> None:
        with sending:
            driver.send(message)

    def beat() -> None:
        while True:
            send(alive=[entry["NodeManagerAddress"] for entry in alive_nodes()])
            time.sleep(HEARTBEAT_S)

    try:
        start_ray(settings["address"], settings["cores"])
        send(started=ray.util.get_node_ip_address())
        threading.Thread(target=beat, name="heartbeat", daemon=True).start()
        while True:
            request = driver.recv()
            if "probe" in request:
                send(nodes=probe(request["probe"]))
            else:
                run_agents(request["agents"], Path(settings["storage"]))
    except Exception as error:
        with suppress(OSError):  # the driver has ended
            send(error=innermost(error))
    end()


if __name__ == "__main__":
    main()
