"""Replicas that are processes: one trial of several ranks, and what becomes of it when one of them ends badly."""

import os
import re
import signal
import time
from importlib import metadata
from pathlib import Path

import pytest
from support import WORKLOADS
from support.cells import make_cell
from support.processes import all_gone

from raybench.core.events import OUTPUT, events_file
from raybench.core.job import Job
from raybench.core.rank import Rank
from raybench.core.settings import DEFAULTS
from raybench.devices.host import model_name, usable_cores
from raybench.execution.inline import run_job
from raybench.workloads import read_workload

HERE = WORKLOADS


def make_job(folder, attribute, replication, replicas=2, threads=2, timeout=120.0, check="", **settings):
    info = read_workload(f"ranked.py:{attribute}", HERE)
    cores = usable_cores()
    device = {"kind": "cpu", "model": model_name(), "count": len(cores), "threads": threads}
    devices = replicas if replication == "devices" else 1
    cell = make_cell(
        workload=info.identity(),
        data={"name": info.name, "digest": None, "examples": {"train": None, "val": None}},
        device=device | {"replicas": replicas, "replication": replication, "devices": devices},
        engine={"name": "torch", "version": 1, "framework_version": metadata.version("torch")[:4]},
        resolved={**DEFAULTS, "framework": "torch", "epochs": 2, "batch_size": 24, "replicas": replicas, **settings},
    )
    attempt = str(folder / "attempt")
    return Job("t-r0", 1, 0, 0, cell, info.to_json(), str(folder), attempt, cores, timeout=timeout, check=check)


@pytest.fixture(scope="module")
def template(fork_server):
    return fork_server()


def ranks_in(folder):
    """The processes that the ranks said they are, by their number."""
    text = (folder / "attempt" / OUTPUT).read_text()
    return {int(number): int(pid) for number, pid in re.findall(r"rank (\d) is (\d+)", text)}


def both_ranks_in(folder):
    """The same, once there are two."""
    deadline = time.monotonic() + 120
    while len(ranks_in(folder)) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    return ranks_in(folder)


def children_of(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("replicas", "where"),
    [
        (2, "host"),
        pytest.param(3, "device", marks=pytest.mark.exhaustive),
    ],
)
def test_processes_train_as_groups_on_one_device_do(template, tmp_path, replicas, where):
    """Every epoch of one step, so that each step's losses, weights and running statistics are compared."""
    runs = {}
    for form in ("grouped", "devices"):
        job = make_job(
            tmp_path / form, "learning", form, replicas, epochs=10, steps_per_epoch=1, input=where, weight_decay=1e-3
        )
        runs[form] = list(template.run(job))
        assert runs[form][-1]["status"] == "completed", runs[form][-1]["error"]
    grouped, ranked = ([e for e in runs[form] if e["event"] == "epoch_ended"] for form in ("grouped", "devices"))
    assert len(grouped) == len(ranked) == 10
    assert any("running_var" in name for name in grouped[0]["metrics"])
    assert grouped[0]["metrics"]["train/loss"] != pytest.approx(grouped[-1]["metrics"]["train/loss"], rel=1e-2)
    for one, other in zip(grouped, ranked, strict=True):
        assert other["metrics"] == pytest.approx(one["metrics"], rel=1e-4, abs=1e-5)
        assert (one["steps"], one["examples"]) == (other["steps"], other["examples"])


@pytest.mark.slow
def test_what_a_ranked_trial_tells(template, tmp_path):
    told = list(template.run(make_job(tmp_path, "learning", "devices", threads=2)))
    kinds = [event["event"] for event in told]
    assert [kind for kind in kinds if kind != "trial_audited"] == ["trial_started", *["epoch_ended"] * 2, "trial_ended"]
    fair = told[0]["runtime_conditions"]
    assert (fair["ranks"], fair["threads_per_rank"], fair["threads"]) == (2, 1, 2)
    assert fair["cores"] == usable_cores()
    assert told[0]["cell"]["device"]["replication"] == "devices"
    assert fair["link"] == "the machine's memory"
    last = told[-1]
    assert 0 <= last["communication"] < 1
    assert sum(last["ledger"].values()) == pytest.approx(last["wall"], abs=max(0.005, 0.01 * last["wall"]))
    assert len(events_file(tmp_path / "attempt").read_text().splitlines()) == len(told)
    assert not (tmp_path / "attempt" / "ranks").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("attribute", "status", "kind", "says"),
    [
        ("greedy", "oom", "RuntimeError", "allocate"),
        ("killed", "lost", "Killed", "SIGKILL"),
        ("raising", "failed", "KeyError", "only in rank 1"),
        pytest.param("leaving", "failed", "Exit", "exited with status 7", marks=pytest.mark.exhaustive),
    ],
)
def test_a_ranks_end_is_the_trials(template, tmp_path, attribute, status, kind, says):
    last = list(template.run(make_job(tmp_path, attribute, "devices")))[-1]
    assert (last["status"], last["error"]["type"]) == (status, kind)
    assert says in last["error"]["message"]
    if "rank" in last["error"]:
        assert last["error"]["rank"] == 1
        assert "KeyError" in last["error"]["traceback"] or "empty" in last["error"]["traceback"]
    else:
        assert "rank 1 of 2 ended without a message" in last["error"]["output"]
    pids = ranks_in(tmp_path)
    assert set(pids) == {0, 1}
    assert all_gone(pids.values())
    assert template.alive


@pytest.mark.slow
@pytest.mark.parametrize("whom", [0, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_killed_rank_leaves_nothing(template, tmp_path, whom):
    run = template.run(make_job(tmp_path, "hanging", "devices"))
    next(run)
    pids = both_ranks_in(tmp_path)
    begun = time.monotonic()
    os.kill(pids[whom], signal.SIGKILL)
    last = list(run)[-1]
    assert time.monotonic() - begun < 60, "not only when some connection times out"
    assert last["status"] == "lost"
    assert all_gone(pids.values())


@pytest.mark.slow
def test_ranks_end_with_the_trials_own_process(template, tmp_path):
    run = template.run(make_job(tmp_path, "hanging", "devices"))
    next(run)
    pids = both_ranks_in(tmp_path)
    (trial,) = children_of(template._process.pid)
    os.kill(trial, signal.SIGKILL)
    assert list(run)[-1]["status"] == "lost"
    assert all_gone(pids.values())


def test_ranks_share_the_cores():
    def shares(count, values):
        return [list(Rank(number, count).share(values)) for number in range(count)]

    assert shares(2, [0, 1, 2, 3]) == [[0, 1], [2, 3]]
    assert shares(2, [0, 1, 2]) == [[0], [1]]
    assert shares(3, [4, 5]) == [[4], [5], [4]]
    assert shares(2, []) == [[], []]


@pytest.mark.slow
def test_inline_trial_has_no_ranks(tmp_path):
    told_events = []
    run_job(make_job(tmp_path, "learning", "devices"), told_events.append)
    (told,) = told_events
    assert told["status"] == "failed"
    assert "2 replicas in separate processes cannot run with --inline" in told["error"]["message"]
