"""Trials of several ranks: equal results, and what becomes of them when one rank ends badly."""

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from support import jobs
from support.processes import all_gone, eventually

from raybench.core.events import OUTPUT, events_file
from raybench.core.job import Target
from raybench.core.rank import Rank, set_rank
from raybench.execution.inline import run_job
from raybench.trial.journal import TrialJournal


def make_job(folder, attribute, devices=2, replicas=None, **more):
    device = {"replicas": replicas or devices, "devices": devices}
    return jobs.make_job(
        folder, attribute, "ranked.py", device, threads=2, **{"batch_size": 24, "timeout": 120.0} | more
    )


def ranks_in(folder):
    """The processes that the ranks said they are, by their number."""
    text = (folder / "attempt" / OUTPUT).read_text()
    return {int(number): int(pid) for number, pid in re.findall(r"rank (\d) is (\d+)", text)}


def children_of(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def epochs_of(told):
    assert told[-1]["status"] == "completed", told[-1]["error"]
    return [event for event in told if event["event"] == "epoch_ended"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("attribute", "devices", "one_device", "where"),
    [
        ("learning", 2, {"replicas": 2}, "host"),
        pytest.param("plain", 2, {"replicas": 1}, "device", marks=pytest.mark.exhaustive),
        pytest.param("learning", 3, {"replicas": 3}, "device", marks=pytest.mark.exhaustive),
    ],
)
def test_devices_train_as_one_does(template, tmp_path, attribute, devices, one_device, where):
    """Every epoch of one step, so that each step's losses, weights and running statistics are compared."""
    settings = {"epochs": 10, "steps_per_epoch": 1, "input": where, "weight_decay": 1e-3}
    single = list(template.run(make_job(tmp_path / "1", attribute, 1, **one_device, **settings)))
    several = list(template.run(make_job(tmp_path / "n", attribute, devices, **settings)))
    for one, other in zip(epochs_of(single), epochs_of(several), strict=True):
        assert other["metrics"] == pytest.approx(one["metrics"], rel=1e-4, abs=1e-5)
        assert (one["steps"], one["examples"]) == (other["steps"], other["examples"])
    losses = [epoch["metrics"]["train/loss"] for epoch in epochs_of(single)]
    assert losses[0] != pytest.approx(losses[-1], rel=1e-2)
    conditions, last = several[0]["runtime_conditions"], several[-1]
    assert conditions["threads"] == devices * max(1, 2 // devices)
    assert conditions["link"] == "the machine's memory" and 0 <= last["communication"] < 1
    assert sum(last["ledger"].values()) == pytest.approx(last["wall"], abs=max(0.005, 0.01 * last["wall"]))
    assert len(events_file(tmp_path / "n" / "attempt").read_text().splitlines()) == len(several)


@pytest.mark.slow
def test_function_on_two_devices(template, tmp_path):
    """DistributedDataParallel gives the losses of one process; the work of both ranks counts."""
    runs = {count: epochs_of(list(template.run(make_job(tmp_path / str(count), "train", count)))) for count in (1, 2)}
    for one, two in zip(runs[1], runs[2], strict=True):
        assert two["metrics"]["train/weights"] == pytest.approx(one["metrics"]["train/weights"], rel=1e-5)
        assert (one["examples"], one["units"], one["steps"]) == (two["examples"], two["units"], two["steps"])
        assert two["ledger"]["train"] < 0.3 + 10 * one["ledger"]["train"]


@pytest.mark.slow
def test_rank_0_ends_training_at_the_target(template, tmp_path):
    job = make_job(tmp_path, "train", epochs=50, target=Target("train/loss", at_most=10.0))
    stops = replace(job.cell, stop_at_target={"metric": "train/loss", "at_most": 10.0})
    assert len(epochs_of(list(template.run(replace(job, cell=stops))))) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("attribute", "trouble", "status", "kind", "message"),
    [
        ("greedy", "", "oom", "RuntimeError", "allocate"),
        ("killed", "", "lost", "Killed", "SIGKILL"),
        ("raising", "", "failed", "KeyError", "only in rank 1"),
        pytest.param("train", "greedy", "oom", "RuntimeError", "allocate", marks=pytest.mark.exhaustive),
        ("train", "hanging", "timeout", "Timeout", "rank 1 is at ranked.py:"),
    ],
)
def test_end_of_a_rank_ends_the_trial(template, tmp_path, attribute, trouble, status, kind, message):
    params = {"trouble": trouble} if trouble else None
    job = make_job(tmp_path, attribute, params=params, timeout=8.0 if status == "timeout" else 120.0)
    begun = time.monotonic()
    last = list(template.run(job))[-1]
    assert (last["status"], last["error"]["type"]) == (status, kind)
    assert status == "timeout" or last["error"]["rank"] == 1
    assert message in last["error"]["message"]
    pids = ranks_in(tmp_path)
    assert set(pids) == {0, 1} and all_gone(pids.values()) and template.alive
    assert time.monotonic() - begun < 60, "not only when some connection times out"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trouble", "warning"),
    [
        pytest.param("raising", "not measured in rank 1: 'only in rank 1'", marks=pytest.mark.exhaustive),
        ("killed", "not measured in rank 1: the process was ended by SIGKILL"),
        pytest.param("hanging", "not measured in rank 1: took longer", marks=pytest.mark.exhaustive),
    ],
)
def test_failure_after_the_training_keeps_it(template, tmp_path, trouble, warning):
    told = list(template.run(make_job(tmp_path, f"{trouble}_later")))
    assert len(epochs_of(told)) == 2
    assert [warning in text for text in told[-1]["warnings"]] == [True], told[-1]["warnings"]
    assert all_gone(ranks_in(tmp_path).values()) and template.alive


@pytest.mark.slow
def test_ranks_with_different_numbers_of_epochs(template, tmp_path):
    last = list(template.run(make_job(tmp_path, "train", params={"epochs_of_rank_1": 1}, epochs=3)))[-1]
    assert (last["status"], last["error"]["rank"]) == ("failed", 0)
    assert "closed" in last["error"]["message"]


@pytest.mark.slow
@pytest.mark.parametrize("whom", ["the trial's process", pytest.param("rank 0", marks=pytest.mark.exhaustive)])
def test_killed_from_outside_leaves_nothing(template, tmp_path, whom):
    run = template.run(make_job(tmp_path, "hanging"))
    next(run)
    eventually(lambda: len(ranks_in(tmp_path)) == 2, 120)
    pids = ranks_in(tmp_path)
    os.kill(pids[0] if whom == "rank 0" else children_of(template._process.pid)[0], signal.SIGKILL)
    assert list(run)[-1]["status"] == "lost"
    assert all_gone(pids.values())


NODES = """
import os, sys, time
from pathlib import Path
from raybench.core.cell import Cell
from raybench.core.events import trial_ended
from raybench.core.job import Job
from raybench.core.ledger import Ledger
from raybench.core.ports import free_port
from raybench.core.rank import current_rank
from raybench.trial.launch_ranks import run_ranks

NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK")
cell = Cell.from_json({"framework": "torch", "device": {"kind": "cpu", "devices": 4, "nodes": 2}})
network = {"address": "127.0.0.1", "master_port": 1, "relay_port": free_port(), "relay_key": "secret"}

def work(send):
    rank = current_rank()
    if sys.argv[2] == "error":
        failed = Path(sys.argv[1], "failed")
        if rank.number == 1:
            failed.touch()
        else:
            while not failed.exists():
                time.sleep(0.01)
            time.sleep(0.3)
        send(trial_ended("t-r0", 1, "failed", error={"message": f"of rank {rank.number}"}))
    if sys.argv[2] == "kill" and rank.number == 2:
        os.kill(os.getpid(), 9)
    place = " ".join([*map(os.environ.get, NAMES), "".join(rank.share("abcd")), str(rank.meet(rank.number))])
    send(trial_ended("t-r0", 1, "completed", warnings=[place]))

def show(event):
    error = event["error"]
    print(error["rank"], error["message"]) if error else print(*event["warnings"], sep=os.linesep)

node = int(os.fork() == 0)
job = Job("t-r0", 1, 0, 0, cell, {"folder": ""}, "", sys.argv[1], node_rank=node, **network)
run_ranks(job, work, (lambda event: None) if node else show, Ledger())
"""


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ("well", [f"{rank} 4 {rank % 2} 2 {rank // 2} {('ab', 'cd')[rank % 2]} 0" for rank in range(4)]),
        ("error", ["1 of rank 1"]),
        ("kill", ["2 the process was ended by SIGKILL"]),
    ],
)
def test_ranks_of_two_nodes(tmp_path, ends, said):
    """Without a framework: the place of each rank, its share of a node, and what rank 0 meets them with."""
    command = [sys.executable, "-c", NODES, str(tmp_path), ends]
    done = subprocess.run(command, start_new_session=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == said, done.stderr


@pytest.mark.parametrize("decision", [True, False])
def test_rank_0_decides_when_training_ends(decision):
    set_rank(Rank(1, 2, meet=lambda value: decision))
    try:
        assert TrialJournal(None, None, None, None, []).decide(1, not decision) is decision
    finally:
        set_rank(Rank())


def test_ranks_share_the_cores():
    def shares(count, values):
        return [list(Rank(number, count, number, count).share(values)) for number in range(count)]

    assert shares(2, [0, 1, 2, 3]) == [[0, 1], [2, 3]]
    assert shares(2, [0, 1, 2]) == [[0], [1]]
    assert shares(3, [4, 5]) == [[4], [5], [4]]
    assert shares(2, []) == [[], []]


@pytest.mark.slow
def test_inline_trial_has_no_ranks(tmp_path):
    told = []
    run_job(make_job(tmp_path, "learning"), told.append)
    assert told[0]["status"] == "failed" and "--inline" in told[0]["error"]["message"]
