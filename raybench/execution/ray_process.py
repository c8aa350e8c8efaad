"""The process that owns Ray: starts or joins it, describes its nodes, and runs the trials of a grid through Ray Tune.

Runs as `python -m raybench.execution.ray_process DESCRIPTOR`, as a child of the driver, which owns the plan, the files
and the display, and never imports Ray. If Ray aborts its process or hangs, the driver goes on. The two send each other
messages through a socket, whose descriptor is the argument; when it closes, everything that was started here is killed.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import psutil

from raybench.core.process_guard import adopt_orphans, watch
from raybench.core.status import TrialStatus
from raybench.core.temp_folders import sweep

END_S = 5.0  # most seconds in which what this process has started is killed


def end() -> None:
    """Kill everything that this process has started, and end it."""
    if _grid_server:
        _grid_server.close()
    deadline = time.monotonic() + END_S
    while (family := psutil.Process().children(recursive=True)) and time.monotonic() < deadline:
        for process in family:
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(family, timeout=0.05)
    sweep()
    os._exit(0)


_grid_server: GridServer | None = None

if __name__ == "__main__":
    watch(int(sys.argv[1]), end)  # before the imports, which take many seconds on a busy machine

import ray  # noqa: E402
from ray.cloudpickle import loads  # noqa: E402

from raybench.execution.node_server import AttemptKey, NodeServer  # noqa: E402
from raybench.execution.ray_nodes import RayNodes, has_autoscaler  # noqa: E402
from raybench.execution.ray_settings import CONFIG_KEY, MEMORY  # noqa: E402
from raybench.execution.tune_grid import ACTOR_LOSSES, innermost, run_trials, server_name  # noqa: E402
from raybench.planning.node import Node  # noqa: E402

OBJECT_STORE_BYTES = 100 * 1024 * 1024  # Ray's object store on a local Ray: only events pass through it
CONNECT_S = 10.0  # seconds in which the head of a cluster has to accept a connection

REFUSED = """it refused the token; set RAY_AUTH_TOKEN to the token of the cluster, or write it to ~/.ray/auth_token, \
where `ray start` has it on the head"""

LOOK_S = 2.0  # seconds between two looks at which nodes Ray has
RESTART_S = 0.5  # seconds between two calls of an actor that Ray starts again, or whose node may be lost

ACTOR_LOST = "Tune's actor of the trial was lost"

MAX_ENDS = 64  # maximum number of ended trials of which files are being copied at once


def start_ray(address: str | None, cores: int) -> None:
    """Start a local Ray, or join the cluster at an address."""
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is None:
        quiet |= {"num_cpus": cores, "object_store_memory": OBJECT_STORE_BYTES, **MEMORY}
        ray.init("local", include_dashboard=False, **quiet)
        return
    host, _, port = address.rpartition(":")
    if port.isdecimal():
        try:
            socket.create_connection((host, int(port)), CONNECT_S).close()
        except OSError as error:  # Ray itself tries for minutes
            raise ConnectionError(error.strerror or str(error)) from None
    try:
        ray.init(address, **quiet)
    except ConnectionError as error:
        if "AuthToken" in traceback.format_exc():
            raise ConnectionError(REFUSED) from None
        raise error from None


class GridServer:
    """Runs the trials that the driver sends, through Tune, on actors of the nodes."""

    def __init__(self, driver: Connection, ray_nodes: RayNodes) -> None:
        self._driver, self._sending = driver, threading.Lock()
        self._ray_nodes = ray_nodes
        self._alive, self._looking = set[str](), threading.Lock()
        self._waiting: SimpleQueue[dict[str, Any] | None] = SimpleQueue()
        self._servers: dict[str, Any] = {}
        self._nodes: dict[str, Node] = {}
        self._copies: dict[AttemptKey, list[threading.Thread]] = {}
        self._starts: dict[str, ThreadPoolExecutor] = {}  # by node, on which trials start in their order
        self._ends = ThreadPoolExecutor(MAX_ENDS)
        self._grid, self._environments = "", list[str]()

    def send(self, **message: Any) -> None:
        """Send a message to the driver."""
        with self._sending:
            self._driver.send(message)

    def serve(self) -> None:
        """Do what the driver asks for, until it ends."""
        while True:
            request = self._driver.recv()
            kind = request.pop("do")
            if kind == "probe":
                self._environments = request["environments"]
                self._alive = set(self._ray_nodes.alive())
                self.send(nodes=self._ray_nodes.probe([*self._alive], self._environments))
                threading.Thread(target=self._watch, daemon=True).start()
            elif kind == "ask":
                self.send(starts_nodes=has_autoscaler())
            elif kind == "begin":
                self._begin(**request)
            elif kind == "start":
                self._starter(request["config"][CONFIG_KEY]["nodes"]).submit(self._start, **request)
            elif kind == "continue":
                self._starter(request["addresses"]).submit(self._accept, **request)
            elif kind == "want":
                threading.Thread(target=self._wait_for, kwargs=request, daemon=True).start()
            elif kind == "leave":
                self._leave(request["address"])
            elif kind == "finish":
                self._waiting.put(None)

    def _starter(self, addresses: Sequence[str]) -> ThreadPoolExecutor:
        return self._starts.setdefault(addresses[0], ThreadPoolExecutor(1))

    def close(self) -> None:
        """Let the actors of a cluster's nodes end what they have started: Ray would kill the actors alone."""
        if servers := [server for address, server in self._servers.items() if address]:
            with suppress(Exception):
                ray.get([server.close.remote() for server in servers], timeout=END_S)

    def _look(self) -> set[str]:
        """Tell the driver which nodes have come and gone; return the addresses of those that are there."""
        with self._looking:
            addresses = set(self._ray_nodes.alive())
            if addresses != self._alive:
                for address in self._alive - addresses:
                    self._servers.pop(address, None)
                self._alive = addresses
                self.send(alive=sorted(addresses))
            return addresses

    def _watch(self) -> None:
        while True:
            time.sleep(LOOK_S)
            self._look()

    def _begin(self, grid: str, folder: Path, nodes: Sequence[Node], callbacks: bytes) -> None:
        """Begin a grid: Tune runs in a thread of its own."""
        self._grid, self._waiting = grid, SimpleQueue()
        self._nodes = {node.address: node for node in nodes}
        for address in self._nodes:
            self._server(address)

        def run() -> None:
            try:
                run_trials(self._waiting, self._ended, folder, loads(callbacks))
                self.send(finished=True)
            except BaseException as error:
                self.send(error=innermost(error))

        threading.Thread(target=run, name="tune", daemon=True).start()

    def _server(self, address: str) -> Any:
        """The actor of a node, started if necessary."""
        if address not in self._servers:
            options = {
                **self._ray_nodes.options(address),
                "name": server_name(address),
                "get_if_exists": True,
                "max_restarts": -1,
            }
            self._servers[address] = ray.remote(NodeServer).options(**options).remote(self._nodes[address])
            self._servers[address].sweep.remote(self._grid)
        return self._servers[address]

    def _wait_for(self, device: str, bundles: Sequence[Mapping[str, float]], timeout_s: float) -> None:
        """Send the driver the nodes that the cluster starts for a device; none if it does not in time."""
        deadline, nodes = time.monotonic() + timeout_s, list[Any]()
        while not nodes and (left_s := deadline - time.monotonic()) > 0:  # again if one was lost at once
            nodes = self._ray_nodes.probe(self._ray_nodes.wait_for(bundles, left_s), self._environments)
        self._nodes |= {node.address: node for node, _ in nodes}
        self._look()
        self.send(arrived=device, nodes=nodes)

    def _leave(self, address: str) -> None:
        """End the actor of a node that has no further trials, so that the cluster may end the node."""
        if server := self._servers.pop(address, None):
            ray.kill(server)

    def _start(
        self, key: AttemptKey, config: dict[str, Any], requested: Sequence[Mapping[str, float] | None], **job: Any
    ) -> None:
        """Send the first job of a trial to its nodes, then hand the trial to Tune."""
        addresses = config[CONFIG_KEY]["nodes"]
        if self._accept(key, addresses, **job):
            try:
                bundles = [self._ray_nodes.bundle(*pair) for pair in zip(addresses, requested, strict=True)]
            except KeyError:  # a node was just lost
                self._ended(key, True)
                return
            config[CONFIG_KEY]["node_ids"], config[CONFIG_KEY]["bundles"] = zip(*bundles, strict=True)
            self._waiting.put(config)

    def _accept(
        self, key: AttemptKey, addresses: Sequence[str], job: Mapping[str, Any], code: Mapping[str, Mapping[str, bytes]]
    ) -> bool:
        """Send a job to its nodes; return whether they have taken it."""
        try:
            meeting = self._on_server(addresses[0], "meeting_point") if len(addresses) > 1 else {}
            for rank, address in enumerate(addresses):
                target = Path(job["folder"], *([f"node-{rank + 1}"] if rank else []))
                target.mkdir(parents=True, exist_ok=True)  # a node that sees it shares this disk
                part = {**job, **meeting, "node_rank": rank, "folder": str(target)}
                if folder := self._on_server(address, "accept", key, part, code.get(address, {})):
                    copy = threading.Thread(target=self._copy, args=(address, key, folder, target, rank), daemon=True)
                    self._copies.setdefault(key, []).append(copy)
                    copy.start()
        except Exception as error:  # such as a full disk, or a node that was just lost
            self._ended(key, True, innermost(error))
            return False
        return True

    def _on_server(self, address: str, method: str, *arguments: Any) -> Any:
        """Call a method of a node's actor; wait while it restarts, unless Ray says that the node is lost."""
        while True:
            try:
                return ray.get(getattr(self._server(address), method).remote(*arguments))
            except (KeyError, *ACTOR_LOSSES):
                time.sleep(RESTART_S)
                if address and address not in self._look():
                    raise

    def _copy(self, address: str, key: AttemptKey, folder: str, target: Path, rank: int) -> None:
        """Send the driver what a job writes on a node whose disk the driver does not see."""
        with suppress(ray.exceptions.RayError):  # the node was lost; the trial ends with an error of Tune
            for reference in self._server(address).files.options(num_returns="streaming").remote(key, folder):
                name, data = ray.get(reference)
                if name or not rank:  # the events of further nodes are in those of the first
                    self.send(data=data, name=name, folder=str(target))

    def _ended(self, key: AttemptKey, is_error: bool, error: str = "") -> None:
        """Tell the driver that a trial has ended, after what its nodes have written."""

        def finish() -> None:
            self._look()  # the driver has to know first that a node is gone
            status, _, message = error.partition(": ")
            end = (status, message) if status in [*TrialStatus] else (TrialStatus.LOST, error or ACTOR_LOST)
            for server in list(self._servers.values()) if is_error else ():
                with suppress(ray.exceptions.RayError):
                    ray.get(server.cancel.remote(key, *end))
            for copy in self._copies.pop(key, ()):
                copy.join()
            self.send(ended=key, reason=error)

        self._ends.submit(finish)


def main() -> None:
    """Serve the driver."""
    driver = Connection(int(sys.argv[1]))
    settings = driver.recv()
    adopt_orphans()
    global _grid_server
    server = _grid_server = GridServer(driver, RayNodes(settings["address"] is None))
    try:
        start_ray(settings["address"], settings["cores"])
        server.send(started=ray.util.get_node_ip_address())
        server.serve()
    except Exception as error:
        with suppress(OSError):  # the driver has ended
            server.send(error=innermost(error))
    end()


if __name__ == "__main__":
    main()
