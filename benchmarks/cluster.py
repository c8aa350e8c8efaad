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
import random
import re
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

from raybench.core.events import Event

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

MESSAGES = "messages of the head's GCS"
STATISTICS_EVERY = 2.0
"""Seconds after which the GCS writes its number of messages to a file."""

FEW = 6
"""How many times as many trials of one epoch are compared with as many trials as asked for."""

CELLS = 4
REQUESTS = re.compile(r"(\w+\.grpc_(?:server|client)\.\w+) - (\d+) total")
STORE = 80_000_000
"""Bytes of each node's object store."""


class Nodes:
    """A Ray cluster on this machine: a head without cores, and nodes of one core each."""

    def __init__(self, folder: Path, count: int) -> None:
        # In Ray's default folder the cluster would replace another one's address.
        (folder / "ray").mkdir()
        os.environ |= {"RAY_TMPDIR": str(folder), "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
        os.environ |= {"RAY_event_stats_print_interval_ms": f"{STATISTICS_EVERY * 1000:.0f}"}
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

    def head_messages(self) -> int:
        """The number of requests that the head's GCS has received or sent."""
        time.sleep(2 * STATISTICS_EVERY)
        logs = Path(self._cluster.head_node.get_session_dir_path()) / "logs"
        found = REQUESTS.findall((logs / "gcs_server.out").read_text(errors="replace"))
        return sum({name: int(number) for name, number in found}.values())

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


def processor_time(process: psutil.Process) -> float:
    """Processor time of a process in seconds; 0 if it has ended."""
    try:
        times = process.cpu_times()
        return times.user + times.system
    except psutil.Error:
        return 0.0


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

    `times` is the processor time of the driver and of the head's processes meanwhile, and `wall_s` the wall time. The
    whole command took `command_s`, in which the head's GCS had so many `messages`.
    """

    def __init__(self, nodes: Nodes, trials: int, epochs: int, seconds: float) -> None:
        self._nodes, self._trials, self.epochs, self.seconds = nodes, trials, epochs, seconds
        self.events: list[Event] = []
        self.times: dict[str, float] = {}
        self.wall_s = self.command_s = 0.0
        self.messages = 0

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
            first, begin_s = self._nodes.head_messages(), time.monotonic()
            with (folder / "output.txt").open("w") as output:
                process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=output)
            try:
                self._watch(process, folder / "raybench-results" / "nodes" / "journal.jsonl", at_start)
                if process.wait() != 0:
                    raise SystemExit((folder / "output.txt").read_text())
            finally:
                process.kill()
                process.wait()
        self.messages, self.command_s = self._nodes.head_messages() - first, time.monotonic() - begin_s

    def _watch(self, process: subprocess.Popen[bytes], journal: Path, at_start: Callable[[int], None]) -> None:
        driver, begin, started, ended = psutil.Process(process.pid), self._now(None), set[str](), set[str]()
        while process.poll() is None and not journal.exists():
            time.sleep(0.1)
        with journal.open("rb") as file:
            rest = b""
            while process.poll() is None and len(ended) < self._trials:
                time.sleep(0.1)
                *lines, rest = (rest + file.read()).split(b"\n")
                new = [event for event in map(json.loads, lines) if event.get("trial")]
                self.events += new
                newly_started = {event["trial"] for event in new if event["event"] == "trial_started"} - started
                if newly_started:
                    begin = begin if started else self._now(driver)
                    started |= newly_started
                    at_start(len(started))
                ended |= {
                    event["trial"] for event in new if event["event"] == "trial_ended" and event["status"] != "lost"
                }
        end = self._now(driver)
        self.wall_s, self.times = end[0] - begin[0], {name: each - begin[1][name] for name, each in end[1].items()}

    def _now(self, driver: psutil.Process | None) -> tuple[float, dict[str, float]]:
        """The time, and processor times, in seconds."""
        return time.monotonic(), {"driver": processor_time(driver) if driver else 0.0, **self._nodes.head_times()}

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
                # One whose node left before it began has an end alone.
                entry |= {"begin": seconds_of(event)} | entry | {"end": seconds_of(event), "status": event["status"]}
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
    again_s = min((attempt.begin - moments["left"] for attempt in again), default=0.0)
    print(
        f"a node that left: {len(lost)} attempts lost, {len(again)} of them ran again on another node, the first "
        f"{again_s:.1f} s after it"
    )
    completed = sum(attempt.status == "completed" for attempt in attempts)
    servers = len({attempt.server for attempt in attempts if attempt.server})
    print(f"{completed} trials completed, from {servers} fork servers")
    counts = {"joined_trials": len(joined), "lost": len(lost), "again": len(again), "completed": completed}
    counts["servers"] = servers
    return {**counts, "first_after_s": after_s, "attempts": [asdict(attempt) for attempt in attempts]}


def messages(options: argparse.Namespace) -> dict[str, Any]:
    """Processor time and messages per trial, epoch and second."""
    trials, more = options.trials, FEW * options.trials
    with cluster_of(1) as nodes:
        alone = idle_costs(nodes, options.idle)
        for _ in range(options.nodes - 1):
            nodes.add()
        idle = idle_costs(nodes, options.idle)
        one, few = Grid(nodes, trials, 1, NO_WORK), Grid(nodes, more, 1, NO_WORK)
        many = Grid(nodes, trials, options.epochs, NO_WORK)
        slow = Grid(nodes, options.nodes * CELLS, 1, options.idle / MEAN_SLEEP / CELLS)
        for grid in (one, few, many, slow):
            grid.run()
        waits = wait_costs(nodes, options.pending)
    numbers: dict[str, Any] = {
        "trials_per_s": more / few.wall_s,
        "epochs_per_s": trials * options.epochs / many.wall_s,
        "wait_ms": {str(count): each * 1000 for count, each in waits.items()},
    }
    print(f"without work: {numbers['trials_per_s']:.1f} trials of 1 epoch per second")
    print(f"without work: {numbers['epochs_per_s']:.0f} epochs per second, in trials of {options.epochs} epochs")
    for name in one.times:
        epoch = (many.times[name] / trials - few.times[name] / more) / (options.epochs - 1)
        trial = few.times[name] / more - epoch
        second = (slow.times[name] - options.nodes * CELLS * (trial + epoch)) / slow.wall_s
        numbers[name] = {"trial_ms": trial * 1000, "epoch_ms": epoch * 1000, "waiting_s_ms": second * 1000}
        print(
            f"processor time of the {name}: {trial * 1000:.2f} ms per trial, {epoch * 1000:.3f} ms per epoch, "
            f"{second * 1000:.1f} ms per second of waiting"
        )
    # Of whole commands, so that what each of them sends at its start and end is not counted.
    extra = {grid: grid.messages - idle[MESSAGES] * grid.command_s for grid in (one, few, many)}
    epoch = (extra[many] - extra[one]) / trials / (options.epochs - 1)
    trial = (extra[few] - extra[one]) / (more - trials) - epoch
    numbers[MESSAGES] = {"trial": trial, "epoch": epoch}
    print(f"{MESSAGES}: {trial:.1f} per trial, {epoch:.3f} per epoch")
    for name, each in idle.items():
        per_node = (each - alone[name]) / max(1, options.nodes - 1)
        numbers[name] |= {"idle_s": each, "idle_s_per_node": per_node}
        unit, factor = ("", 1) if name == MESSAGES else (" ms", 1000)
        print(
            f"{name}, without a grid: {each * factor:.2f}{unit} per second with {options.nodes} nodes, "
            f"{per_node * factor:.2f}{unit} of it for each node"
        )
    for count, each in waits.items():
        print(f"processor time of the driver for a look at {count:,} running trials: {each * 1000:.3f} ms")
    return numbers


def idle_costs(nodes: Nodes, seconds: float) -> dict[str, float]:
    """Processor time of the head's processes and messages of the GCS per second, while nothing runs."""
    begin, first, begin_s = nodes.head_times(), nodes.head_messages(), time.monotonic()
    time.sleep(seconds)
    spent = {name: each - begin[name] for name, each in nodes.head_times().items()}
    spent[MESSAGES] = nodes.head_messages() - first
    return {name: each / (time.monotonic() - begin_s) for name, each in spent.items()}


def wait_costs(nodes: Nodes, counts: list[int]) -> dict[int, float]:
    """Processor time in seconds for one call of `ray.wait`, as in each step of Tune, by the number of running tasks."""
    import ray

    ray.init(nodes.address, log_to_driver=False, logging_level="ERROR")
    task = ray.remote(num_cpus=0)(lambda: None)
    done, found = ray.put(None), {}
    for count in counts:
        running = [task.options(resources={"none": 1}).remote() for _ in range(count)]
        begin, calls = time.process_time(), 0
        while time.process_time() - begin < 0.2:
            futures = [*running, done]
            random.shuffle(futures)
            ray.wait(futures, num_returns=1, timeout=0.1)
            calls += 1
        found[count] = (time.process_time() - begin) / calls
        for future in running:
            ray.cancel(future)
    ray.shutdown()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(required=True)
    for run, nodes, trials, epochs in ((busy, 4, 200, 3), (changes, 3, 60, 3), (messages, 6, 40, 300)):
        part = parts.add_parser(run.__name__, help=run.__doc__)
        part.set_defaults(run=run)
        part.add_argument("--nodes", type=int, default=nodes)
        part.add_argument("--trials", type=int, default=trials, help=f"a multiple of {CELLS}")
        part.add_argument("--epochs", type=int, default=epochs)
        part.add_argument("--json", type=Path, help="write the numbers here too")
        if run is messages:
            part.add_argument("--idle", type=float, default=30.0, help="seconds of waiting that are measured")
            part.add_argument(
                "--pending", type=int, nargs="+", default=[1, 100, 1000], help="numbers of running trials"
            )
        else:
            part.add_argument("--seconds", type=float, default=1.0, help="length of the shortest epoch")
    options = parser.parse_args()
    numbers = options.run(options)
    if options.json:
        options.json.write_text(json.dumps(numbers, indent=1) + "\n")


if __name__ == "__main__":
    main()
