"""A grid on a Ray cluster of two nodes, of which the second shares nothing with the driver but the network."""

import re
import subprocess
import sys
import time

import pytest
from support.grid_files import events_of
from support.two_nodes import TwoNodes, missing

from raybench.results.folder import ATTEMPTS

pytestmark = [pytest.mark.slow, pytest.mark.ray, pytest.mark.cluster]

TRAIN = """
import time


def train(trial, *, pause: float = 2.0, part: int = 1):
    trial.checkpoint(lambda path: path.write_text("saved"), lambda path: path.read_text())
    for epoch in trial.epochs():
        time.sleep(pause)
        trial.log({"train/loss": 1.0})
"""
COMMON = """
workload: mine.py:train
threads: 1
devices:
  any: {kind: cpu, cpus: 1}
  there: {kind: cpu, cpus: 1, resources: {TPU: 1}}
  nowhere: {kind: cpu, cpus: 1, resources: {TPU: 8}}
"""

PLACED = f"""
name: placed
{COMMON}
epochs: 2
repeats: 2
params: {{pause: 0.1}}
axes: {{device: [any, there, nowhere]}}
overrides:
- {{when: {{device: there}}, set: {{params: {{pause: 0.2}}}}}}
- {{when: {{device: nowhere}}, set: {{params: {{pause: 0.3}}}}}}
"""

LEAVING = f"""
name: leaving
{COMMON}
epochs: 6
checkpoint_every: 1
axes: {{device: [any, there], params.part: [1]}}
include: [{{device: any, params.part: 2}}]
"""


PAIRS = f"""
name: pairs
{COMMON.replace("mine.py", "pair.py")}
epochs: 3
params: {{pause: 0.2}}
axes: {{device: [any], nodes: [1, 2, 3]}}
"""

PAIR = """
import time
import torch.distributed


def train(trial, *, pause: float):
    torch.distributed.init_process_group("gloo")
    for epoch in trial.epochs():
        for _ in trial.steps(range(10), examples=10 // trial.world_size):
            torch.distributed.barrier()
            time.sleep(pause / 10 / trial.world_size)
        trial.log({"train/loss": 1.0})
"""

TORCHRUN = """
name: torchrun
workload:
  command: torchrun --nnodes={nodes} --node-rank={node_rank} --nproc-per-node={count} --master-addr={master_addr}
    --master-port={master_port} run.py
devices:
  any: {kind: cpu, cpus: 1}
axes: {device: [any], nodes: [2]}
"""

RUN = """
import time
import torch
import torch.distributed

torch.distributed.init_process_group("gloo")
for epoch in range(8):
    time.sleep(1.0)
    mean = torch.tensor([float(torch.distributed.get_rank())])
    torch.distributed.all_reduce(mean)
    if torch.distributed.get_rank() == 0:
        print(f"Epoch {epoch + 1}: loss {mean.item():.1f}", flush=True)
torch.distributed.destroy_process_group()
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    reason = missing()
    if reason:
        pytest.skip(reason)
    results = tmp_path_factory.mktemp("driver")
    nodes = TwoNodes(tmp_path_factory.mktemp("cluster"), results)
    nodes.results = results
    try:
        nodes.start_head()
        nodes.start_second()
        yield nodes
    finally:
        nodes.close()


class Grid:
    """The command on a cluster."""

    def __init__(self, cluster, name, text, *options):
        self.folder = cluster.results / name
        self.folder.mkdir()
        (self.folder / "mine.py").write_text(TRAIN)
        (self.folder / "pair.py").write_text(PAIR)
        (self.folder / "run.py").write_text(RUN)
        (self.folder / "grid.yaml").write_text(text)
        self.cluster, self.results = cluster, self.folder / "raybench-results" / name
        self.options = options or ["--no-checks"]
        self.start()

    def start(self):
        """Start the command, or start it again."""
        command = [sys.executable, "-m", "raybench", "grid", "grid.yaml", "--address", self.cluster.address]
        command += ["--tracking", "none", *self.options]
        with (self.folder / "words.txt").open("w") as words:
            out = {"stdout": words, "stderr": words}
            self.process = subprocess.Popen(command, cwd=self.folder, env=self.cluster.environ, **out)

    @property
    def words(self):
        return (self.folder / "words.txt").read_text()

    def events(self, *kinds):
        return [event for event in events_of(self.results) if event["event"] in kinds]

    def wait_for(self, what):
        deadline = time.monotonic() + 240
        while time.monotonic() < deadline and self.process.poll() is None:
            if found := what():
                return found
            time.sleep(0.1)
        raise AssertionError(self.words)

    def finish(self, status):
        assert self.process.wait(300) == status, self.words


@pytest.fixture(scope="module")
def placed(cluster):
    """The first grid; `left` has the files of its trials that are still on the second node at its end."""
    before = files_of_trials(cluster)
    grid = Grid(cluster, "placed", PLACED)
    grid.finish(0)  # a part of it ran
    grid.left = files_of_trials(cluster) - before
    return grid


def files_of_trials(cluster):
    return {path for path in (cluster.cache / "raybench" / "trials").rglob("*") if path.is_file()}


def test_trials_land_where_their_device_is(placed):
    hosts = {}
    for event in placed.events("trial_started"):
        hosts.setdefault(event["profile"], []).append(event["host"]["name"])
    assert hosts["there"] == ["node-b"] * 2
    assert len({*hosts["any"]}) == 2, "a repeat on each node"
    assert re.search(r"needs 8 x TPU; node-b \([0-9.]+\) has 4", " ".join(placed.words.split()))


def test_files_travel_to_nodes_and_back(placed):
    ends = placed.events("trial_ended")
    assert [event["status"] for event in ends] == ["completed"] * 4, [event["error"] for event in ends]
    for event in ends:
        files = {path.name for path in (placed.results / ATTEMPTS / event["trial"]).rglob("*")}
        assert "output.log" in files
    assert placed.left == set()


def test_a_trial_over_two_nodes(cluster):
    grid = Grid(cluster, "pairs", PAIRS, "--wait-for-nodes", "0")
    grid.finish(0)
    ends = {event["trial"]: event for event in grid.events("trial_ended")}
    assert [event["status"] for event in ends.values()] == ["completed"] * 2, grid.words
    starts = {event["cell"]["device"].get("nodes", 1): event for event in grid.events("trial_started")}
    assert starts[2]["runtime_conditions"]["link"] and starts[2]["all_reduce"]["gb_per_s"] > 0.01
    assert "all_reduce" not in starts[1]
    words = " ".join(grid.words.split())
    assert "needs 3 nodes of one model; the cluster has 2 with" in words
    assert re.search(r"2 nodes: .*efficiency.* With 2 nodes the network sums 64 MiB at [0-9.]+ GB/s", words), words
    assert grid.events("epoch_ended")[-1]["epoch"] == 3


@pytest.mark.exhaustive
def test_a_command_over_two_nodes_of_which_one_is_lost(cluster):
    grid = Grid(cluster, "torchrun", TORCHRUN)
    grid.wait_for(lambda: grid.events("epoch_seen"))  # the epochs of a command are timed at its end
    cluster.kill_second()
    killed = time.monotonic()
    (lost,) = grid.wait_for(lambda: grid.events("trial_ended"))
    assert time.monotonic() - killed < 30
    assert lost["status"] == "lost" and re.search(r"node-b|198\.18", lost["error"]["message"]), lost["error"]
    cluster.start_second()
    grid.finish(0)
    last = grid.events("trial_ended")[-1]
    assert (last["status"], last["attempt"]) == ("completed", 2), last["error"]
    losses = [e["metrics"]["train/loss"] for e in grid.events("epoch_ended") if e["attempt"] == 2]
    assert losses == [1.0] * 8, "the sum over the ranks of both nodes"


@pytest.mark.exhaustive
def test_a_node_that_goes_away_and_comes_back(cluster):
    grid = Grid(cluster, "leaving", LEAVING)

    def on_second():
        there = {e["trial"]: e for e in grid.events("trial_started") if e["host"]["name"] == "node-b"}
        over = {e["trial"] for e in grid.events("epoch_ended") if e["epoch"] >= 2}
        ended = {e["trial"] for e in grid.events("trial_ended")}
        return next((there[trial] for trial in there if trial in over and trial not in ended), None)

    hit = grid.wait_for(on_second)
    cluster.kill_second()
    lost = grid.wait_for(lambda: [e for e in grid.events("trial_ended") if e["status"] == "lost"])
    assert lost[0]["trial"] == hit["trial"]
    # What any node can hold goes on here; what only the other one can hold waits for it.
    grid.wait_for(lambda: len([e for e in grid.events("trial_ended") if e["status"] == "completed"]) >= 1)
    grid.wait_for(lambda: "node-b (" in grid.words and "was lost" in grid.words)
    cluster.start_second()
    grid.finish(0)
    ends = {(e["trial"], e["attempt"]): e for e in grid.events("trial_ended")}
    assert sorted(e["status"] for e in ends.values()) == ["completed"] * 3 + ["lost"]
    started = {(e["trial"], e["attempt"]): e for e in grid.events("trial_started")}
    assert {e["host"]["name"] for e in started.values() if e["profile"] == "there"} == {"node-b"}
    again = ends[hit["trial"], 2]
    resumed = [e for e in grid.events("trial_resumed") if e["trial"] == hit["trial"]]
    on_the_same = started[hit["trial"], 2]["host"]["name"] == "node-b"
    assert bool(resumed) == on_the_same, "a checkpoint is where it was made"
    assert on_the_same or "restarted from epoch 1" in again["warnings"][0]


@pytest.mark.exhaustive
def test_a_node_that_comes_back_with_a_different_address(cluster):
    text = LEAVING.replace("name: leaving", "name: moved").replace("[any, there]", "[there]")
    grid = Grid(cluster, "moved", text[: text.index("include")])
    grid.wait_for(lambda: grid.events("epoch_ended"))
    cluster.kill_second()
    grid.wait_for(lambda: "was lost" in grid.words)
    cluster.move_second()
    cluster.start_second()
    grid.wait_for(lambda: "joined the cluster" in grid.words)
    grid.process.terminate()
    grid.finish(130)
    grid.start()
    grid.finish(0)
    assert [event["status"] for event in grid.events("trial_ended")][-1] == "completed"
