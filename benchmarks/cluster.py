"""How well are the nodes of a cluster used, and how many of them can one driver serve?

    python benchmarks/cluster.py busy [--nodes 4] [--trials 200]
    python benchmarks/cluster.py changes [--nodes 3] [--trials 60]
    python benchmarks/cluster.py messages [--nodes 4] [--epochs 300]

Each part starts a Ray cluster on this machine: a head that runs no trials, and nodes of one core with addresses of
their own. `raybench grid --address` runs trials there that sleep instead of training, so that nodes do not compete for
the cores of this machine.

`busy`: the share of the time in which nodes ran trials, from the first start to the last one, after which no work waits
any more; and the time from the end of a trial to the next start on its node.

`changes`: a node joins after a third of the trials, and one is ended after two thirds, with all of its processes.

`messages`: the processor time that a trial, an epoch and a second cost the driver and the head's processes; and the
largest number of epochs per second, from trials of many epochs that take no time.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
from large_grids import processor_time

from raybench.core.events import Event
from raybench.results.journal import read

GRID_FILE = """\
name: nodes
workload: sleeps.py:train
epochs: {epochs}
repeats: {repeats}
axes:
  device: [cpu]
  batch_size: [16, 32, 64, 128]
  learning_rate: {seconds}
"""

FUNCTION = """\
import os
import time


def train(trial, *, batch_size: int, learning_rate: float, epochs: int):
    seconds = learning_rate * (1 + (batch_size > 16) / 2 + (batch_size > 32) / 2 + (batch_size > 64))
    for epoch in trial.epochs(epochs):
        time.sleep(seconds)
        trial.log({"val/node": int(os.environ["NODE_NUMBER"]), "val/server": os.getppid()})
"""
"""A training function whose epochs sleep, three times as long for the largest batch as for the smallest."""

MEAN_SLEEP = 1.875
"""Mean length of an epoch in units of `learning_rate`."""

NO_WORK = 1e-6
"""Length of an epoch without work in seconds."""

CELLS = 4
STORE = 80_000_000
"""Bytes of each node's object store."""


class Nodes:
    """A Ray cluster on this machine: a head without cores, and nodes of one core each."""

    def __init__(self, folder: Path, count: int) -> None:
        # In Ray's default folder the cluster would replace another one's address.
        (folder / "ray").mkdir()
        os.environ |= {"RAY_TMPDIR": str(folder), "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": STORE}
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        self.address: str = self._cluster.address
        self._nodes: list[Any] = []
        for _ in range(count):
            self.add()

    def add(self) -> int:
        """Start another node and return its number."""
        number = len(self._nodes) + 1
        more = {"node_ip_address": f"127.0.0.{number + 1}", "env_vars": {"NODE_NUMBER": str(number)}}
        self._nodes.append(self._cluster.add_node(num_cpus=1, object_store_memory=STORE, **more))
        return number

    def end(self, number: int) -> None:
        """End a node and the processes of its trials, as a machine that loses its power."""
        node = self._nodes[number - 1]
        raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
        family = raylet.children(recursive=True)
        self._cluster.remove_node(node, allow_graceful=False)
        for process in family:
            try:
                process.kill()
            except psutil.Error:
                continue

    def head_times(self) -> dict[str, float]:
        """Processor time of the head's own processes in seconds."""
        processes = self._cluster.head_node.all_processes
        names = {"gcs_server": "head's GCS", "raylet": "head's raylet"}
        return {shown: processor_time(psutil.Process(processes[name][0].process.pid)) for name, shown in names.items()}

    def close(self) -> None:
        """End all nodes."""
        self._cluster.shutdown()


@contextmanager
def cluster_of(count: int) -> Iterator[Nodes]:
    """A cluster of so many nodes."""
    with tempfile.TemporaryDirectory(prefix="rb", ignore_cleanup_errors=True) as folder:
        nodes = Nodes(Path(folder), count)
        try:
            yield nodes
        finally:
            nodes.close()


@dataclass
class Attempt:
    """One attempt at a trial: its node, the process it was forked from, its begin and end in seconds, its status."""

    trial: str
    node: int
    server: int
    begin: float
    end: float
    status: str


class Grid:
    """`raybench grid` on a cluster, watched from its first trial to its last.

    `times` is the processor time of the driver and of the head's processes meanwhile, and `wall_s` the wall time.
    """

    def __init__(self, nodes: Nodes, trials: int, epochs: int, seconds: float) -> None:
        self._nodes, self._trials, self.epochs, self.seconds = nodes, trials, epochs, seconds
        self.events: list[Event] = []
        self.times: dict[str, float] = {}
        self.wall_s = 0.0

    def run(self, at_start: Callable[[int], None] = lambda started: None) -> None:
        """Run it; `at_start` is called with the number of trials that have started, whenever it has changed."""
        with tempfile.TemporaryDirectory(prefix="bench-") as name:
            folder = Path(name)
            (folder / "sleeps.py").write_text(FUNCTION)
            repeats = self._trials // CELLS
            text = GRID_FILE.format(epochs=self.epochs, repeats=repeats, seconds=f"[{self.seconds}]")
            (folder / "grid.yaml").write_text(text)
            command = [sys.executable, "-m", "raybench", "grid", "grid.yaml", "--address", self._nodes.address]
            command += ["--no-checks", "--no-tracking"]
            with (folder / "output.txt").open("w") as output:
                process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=output)
            try:
                self._watch(process, folder / "raybench-results" / "nodes" / "journal.jsonl", at_start)
                if process.wait() != 0:
                    raise SystemExit((folder / "output.txt").read_text())
                self.words = (folder / "output.txt").read_text()
            finally:
                process.kill()
                process.wait()

    def _watch(self, process: subprocess.Popen[bytes], journal: Path, at_start: Callable[[int], None]) -> None:
        driver, begin, seen = psutil.Process(process.pid), (0.0, {}), 0
        size = 0
        while process.poll() is None:
            time.sleep(0.1)
            if not journal.exists() or journal.stat().st_size == size:
                continue
            size = journal.stat().st_size
            self.events = [event for event in read(journal) if event.get("trial")]
            started = len({event["trial"] for event in self.events if event["event"] == "trial_started"})
            now = time.monotonic(), {"driver": processor_time(driver), **self._nodes.head_times()}
            if started and not seen:
                begin = now
            if started != seen:
                seen = started
                at_start(started)
            ends = {event["trial"] for event in self.events if event["event"] == "trial_ended"}
            if len(ends) == self._trials:
                self.wall_s = now[0] - begin[0]
                self.times = {name: now[1][name] - begin[1][name] for name in now[1]}
                return

    def attempts(self) -> list[Attempt]:
        """The attempts, in the order of their begin."""
        found: dict[tuple[str, int], dict[str, Any]] = {}
        for event in self.events:
            name = event["trial"]
            entry = found.setdefault((name, event["attempt"]), {"trial": name, "node": 0, "server": 0})
            if event["event"] == "trial_started":
                entry["begin"] = seconds_of(event)
            elif event["event"] == "epoch_ended":
                entry |= {each: int(event["metrics"][f"val/{each}"]) for each in ("node", "server")}
            elif event["event"] == "trial_ended":
                entry |= {"end": seconds_of(event), "status": event["status"]}
        return sorted((Attempt(**entry) for entry in found.values()), key=lambda attempt: attempt.begin)


def seconds_of(event: Event) -> float:
    """The time of an event in seconds."""
    return datetime.fromisoformat(event["t"]).timestamp()


def busy_shares(attempts: list[Attempt]) -> tuple[float, float]:
    """The mean share of the time in which a node was busy, and the share in which all were, while work waited."""
    nodes = sorted({attempt.node for attempt in attempts})
    first, last = attempts[0].begin, attempts[-1].begin
    changes = sorted(
        (min(max(moment, first), last), change)
        for attempt in attempts
        for moment, change in ((attempt.begin, 1), (attempt.end, -1))
    )
    running, before, node_s, all_s = 0, first, 0.0, 0.0
    for moment, change in changes:
        node_s += running * (moment - before)
        all_s += (running == len(nodes)) * (moment - before)
        running, before = running + change, moment
    return node_s / (len(nodes) * (last - first)), all_s / (last - first)


def gaps(attempts: list[Attempt]) -> list[float]:
    """Seconds from the end of an attempt to the next begin on its node."""
    found = []
    for node in {attempt.node for attempt in attempts}:
        own = [attempt for attempt in attempts if attempt.node == node]
        found += [after.begin - before.end for before, after in pairwise(own)]
    return sorted(found)


def busy(options: argparse.Namespace) -> dict[str, Any]:
    """Shares of busy time, and the gaps between trials."""
    with cluster_of(options.nodes) as nodes:
        grid = Grid(nodes, options.trials, options.epochs, options.seconds)
        grid.run()
    attempts = grid.attempts()
    share, all_share = busy_shares(attempts)
    between = gaps(attempts)
    length = statistics.mean(attempt.end - attempt.begin for attempt in attempts)
    print(f"{len(attempts)} trials of {length:.1f} s on {options.nodes} nodes, in {grid.wall_s:.0f} s")
    print(f"while work waited: a node was busy {share:.1%} of the time, all nodes were {all_share:.1%} of it")
    quantiles = statistics.quantiles(between, n=20)
    print(
        f"from the end of a trial to the next start on its node: median {quantiles[9] * 1000:.0f} ms, "
        f"95% of them at most {quantiles[18] * 1000:.0f} ms, longest {between[-1] * 1000:.0f} ms"
    )
    servers = len({attempt.server for attempt in attempts})
    print(f"{servers} fork servers were started")
    print("processor time: " + ", ".join(f"{name} {spent:.1f} s" for name, spent in grid.times.items()))
    shares = {"busy": share, "all_busy": all_share, "trial_s": length, "wall_s": grid.wall_s, "servers": servers}
    return {**shares, "gaps_s": between, "cpu_s": grid.times}


def changes(options: argparse.Namespace) -> dict[str, Any]:
    """A node that joins and one that leaves."""
    moments: dict[str, float] = {}
    numbers: dict[str, int] = {"left": 1}
    with cluster_of(options.nodes) as nodes:

        def at_start(started: int) -> None:
            if started >= options.trials // 3 and "joined" not in moments:
                numbers["joined"] = nodes.add()
                moments["joined"] = time.time()
            if started >= 2 * options.trials // 3 and "left" not in moments:
                moments["left"] = time.time()
                nodes.end(numbers["left"])

        grid = Grid(nodes, options.trials, options.epochs, options.seconds)
        grid.run(at_start)
    attempts = grid.attempts()
    joined = [attempt for attempt in attempts if attempt.node == numbers["joined"]]
    lost = [attempt for attempt in attempts if attempt.status != "completed"]
    again = [attempt for attempt in attempts if attempt.trial in {each.trial for each in lost} and attempt not in lost]
    print(f"{options.trials} trials on {options.nodes} nodes")
    if joined:
        after_s = joined[0].begin - moments["joined"]
        print(f"a node that joined: {len(joined)} trials, the first {after_s:.1f} s after the node was up")
    else:
        after_s = -1.0
        print("a node that joined: no trials")
    print(
        f"a node that left: {len(lost)} attempts lost, {len(again)} of them ran again on another node, the first "
        f"{min(attempt.begin for attempt in again) - moments['left']:.1f} s after it"
    )
    completed = sum(attempt.status == "completed" for attempt in attempts)
    servers = len({attempt.server for attempt in attempts if attempt.server})
    print(f"{completed} trials completed, from {servers} fork servers")
    counts = {"joined_trials": len(joined), "lost": len(lost), "again": len(again), "completed": completed}
    counts["servers"] = servers
    return {**counts, "first_after_s": after_s, "attempts": [asdict(attempt) for attempt in attempts]}


def messages(options: argparse.Namespace) -> dict[str, Any]:
    """Processor time per trial, epoch and second of the driver and the head's processes."""
    with cluster_of(options.nodes) as nodes:
        begin = nodes.head_times()
        time.sleep(options.idle)
        idle = {name: (spent - begin[name]) / options.idle for name, spent in nodes.head_times().items()}
        few = Grid(nodes, options.trials, 1, NO_WORK)
        few.run()
        many = Grid(nodes, options.trials, options.epochs, NO_WORK)
        many.run()
        slow = Grid(nodes, options.nodes * CELLS, 1, options.idle / MEAN_SLEEP / CELLS)
        slow.run()
    rate = options.trials * options.epochs / many.wall_s
    print(f"without work: {options.trials / few.wall_s:.1f} trials of 1 epoch per second")
    print(f"without work: {rate:.0f} epochs per second, in trials of {options.epochs} epochs")
    numbers: dict[str, Any] = {"trials_per_s": options.trials / few.wall_s, "epochs_per_s": rate}
    for name in few.times:
        per_epoch = (many.times[name] - few.times[name]) / options.trials / (options.epochs - 1)
        per_trial = few.times[name] / options.trials - per_epoch
        waiting = (slow.times[name] - options.nodes * CELLS * (per_trial + per_epoch)) / slow.wall_s
        numbers[name] = {"trial_ms": per_trial * 1000, "epoch_ms": per_epoch * 1000, "waiting_ms_per_s": waiting * 1000}
        print(
            f"processor time of the {name}: {per_trial * 1000:.2f} ms per trial, {per_epoch * 1000:.3f} ms per epoch, "
            f"{waiting * 1000:.1f} ms per second of waiting"
        )
    for name, spent in idle.items():
        print(f"processor time of the {name} without a grid: {spent * 1000:.1f} ms per second")
    return {**numbers, "idle_ms_per_s": {name: spent * 1000 for name, spent in idle.items()}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(required=True)
    for run, nodes, trials, epochs in ((busy, 4, 200, 3), (changes, 3, 60, 3), (messages, 4, 40, 300)):
        part = parts.add_parser(run.__name__, help=run.__doc__)
        part.set_defaults(run=run)
        part.add_argument("--nodes", type=int, default=nodes)
        part.add_argument("--trials", type=int, default=trials, help=f"a multiple of {CELLS}")
        part.add_argument("--epochs", type=int, default=epochs)
        part.add_argument("--json", type=Path, help="write the numbers here too")
        if run is messages:
            part.add_argument("--idle", type=float, default=20.0, help="seconds of waiting that are measured")
        else:
            part.add_argument("--seconds", type=float, default=1.0, help="length of the shortest epoch")
    options = parser.parse_args()
    numbers = options.run(options)
    if options.json:
        options.json.write_text(json.dumps(numbers, indent=1) + "\n")


if __name__ == "__main__":
    main()
