"""Trials whose ranks are on two nodes: here two fork servers that know each other by the network alone."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from support import jobs
from support.processes import all_gone

from raybench.core.events import OUTPUT
from raybench.core.ports import free_port
from raybench.execution.process import ForkServer

pytestmark = pytest.mark.slow


def make_job(folder, attribute, nodes, **more):
    device = {"replicas": 2, "devices": nodes}
    meeting = {}
    if nodes > 1:
        device["nodes"] = nodes
        meeting = {"master_port": free_port(), "relay_port": free_port(), "relay_key": "secret"}
        meeting |= {"address": "127.0.0.1", "interface": "lo"}
    chosen = {"batch_size": 24, "timeout": 120.0, "cores": []} | meeting | more
    return jobs.make_job(folder, attribute, "ranked.py", device, threads=1, **chosen)


@pytest.fixture(scope="module")
def nodes(fork_server):
    """Runs a job on two nodes; returns the events of the first one and the end of the other."""
    other = ForkServer("torch")

    def run(job):
        part = replace(job, node_rank=1, folder=f"{job.folder}/node-2")
        with ThreadPoolExecutor(1) as threads:
            further = threads.submit(lambda: list(other.run(part)))
            told = list(fork_server().run(job))
            return told, further.result()[-1]

    yield run
    other.close()


def test_two_nodes_train_as_one_does(fork_server, nodes, tmp_path):
    settings = {"epochs": 10, "steps_per_epoch": 1, "weight_decay": 1e-3}
    alone = list(fork_server().run(make_job(tmp_path / "1", "learning", 1, **settings)))
    told, further = nodes(make_job(tmp_path / "2", "learning", 2, **settings))
    assert told[-1]["status"] == further["status"] == "completed", told[-1]["error"]
    one, two = ([event for event in run if event["event"] == "epoch_ended"] for run in (alone, told))
    assert len(one) == len(two) == 10
    for single, merged in zip(one, two, strict=True):
        assert merged["metrics"] == pytest.approx(single["metrics"], rel=1e-4, abs=1e-5)
        assert (merged["steps"], merged["examples"]) == (single["steps"], single["examples"])
    assert told[0]["runtime_conditions"]["link"] and 0 <= told[-1]["communication"] < 1


@pytest.mark.parametrize(
    ("attribute", "status", "message"),
    [
        ("killed", "lost", "SIGKILL"),
        ("hanging", "timeout", "took longer than its timeout"),
    ],
)
def test_end_of_a_rank_on_another_node_ends_the_trial(nodes, tmp_path, attribute, status, message):
    begun = time.monotonic()
    told, _ = nodes(make_job(tmp_path, attribute, 2, timeout=10.0 if status == "timeout" else 120.0))
    last = told[-1]
    assert last["status"] == status
    assert message in last["error"]["message"]
    assert time.monotonic() - begun < 60
    texts = [(tmp_path / "attempt" / name / OUTPUT).read_text() for name in (".", "node-2")]
    pids = [int(line.split()[-1]) for text in texts for line in text.splitlines() if line.startswith("rank ")]
    assert len(pids) == 2 and all_gone(pids)
