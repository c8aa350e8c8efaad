"""What is known of a cluster's nodes, and files on their way home: without Ray."""

from dataclasses import replace

import pytest
import ray
from raybench.execution.cluster import LEFT, NodeMonitor, disambiguate, limit_to_ray, own_folder, put_files, take_files

from raybench.core.cell import UNKNOWN_CELL
from raybench.core.job import Job
from raybench.devices import Hardware
from raybench.environments import Interpreter
from raybench.execution import cluster
from raybench.execution.scheduler import Dispatcher
from raybench.planning.node import Node
from raybench.planning.placement import Placement, ResourceRequest, find_placement

CPU = Hardware("cpu", "EPYC", 8, 2**36, ids=tuple("01234567"))
GPU = Hardware("cuda", "T4", 2, 2**34, ids=("0", "1"))
NODE = Node("box", (CPU, GPU), packages={"torch": "2.13.0"}, address="10.0.0.2", data_root="/data")


def test_machines_of_one_name_are_told_apart_by_their_addresses():
    other = replace(NODE, address="10.0.0.3")
    alone = replace(NODE, name="head", address="10.0.0.1")
    names = [node.name for node in disambiguate([NODE, other, alone])]
    assert names == ["box (10.0.0.2)", "box (10.0.0.3)", "head"]
    assert len(Dispatcher([], disambiguate([NODE, other])).nodes) == 2


def test_no_more_is_planned_for_than_ray_hands_out():
    by_ray = {"CPU": 3.0, "GPU": 1.0, "memory": 1e9, "node:10.0.0.2": 1.0, "big": 2.0}
    found = limit_to_ray(NODE, by_ray)
    assert (found.cores, found.find("cuda")[0].ids, found.resources) == (3, ("0",), {"GPU": 1.0, "big": 2.0})
    none = limit_to_ray(NODE, {"GPU": 2.0})
    assert none.cores == 0
    assert find_placement(ResourceRequest("cuda", "torch", "fp32"), [none]) == "needs 1 core; box has 0"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({}, "box has no mnist in /data; run `raybench data fetch mnist` there"),
        (
            {"mnist": "sha256:1"},
            "mnist in /data on box has digest sha256:1, and here sha256:2; use the same data on all machines",
        ),
        ({"mnist": "sha256:2"}, None),
    ],
)
def test_data_are_looked_for_where_the_trial_would_run(data, said):
    found = find_placement(
        ResourceRequest("cpu", "torch", "fp32", data=("mnist", "sha256:2")), [replace(NODE, data=data)]
    )
    assert found == said if said else isinstance(found, Placement)


def test_a_trials_files_come_home_and_nothing_else_is_written(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home = tmp_path / "home" / "attempt-1"
    job = Job("t-r0", 1, 0, 0, UNKNOWN_CELL, {}, "", str(home))
    away = own_folder(job)
    assert away.folder.startswith(str(tmp_path / "cache"))
    (home.parent / "attempt-2").mkdir(parents=True)
    shared = replace(job, folder=str(home.parent / "attempt-2"))
    assert own_folder(shared) == shared, "the disk is shared"

    from pathlib import Path

    (Path(away.folder) / "inner").mkdir()
    (Path(away.folder) / "inner" / "a.txt").write_text("a")
    files = take_files(Path(away.folder))
    assert files == {"inner/a.txt": b"a"}
    assert not Path(away.folder).exists()
    put_files(home, files | {"../outside": b"x", "/tmp/raybench-outside": b"x"})
    assert (home / "inner" / "a.txt").read_text() == "a"
    assert not (home.parent / "outside").exists() and not Path("/tmp/raybench-outside").exists()


def test_a_file_too_large_to_come_stays_and_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("raybench.execution.cluster.LARGEST_FILE", 3)
    (tmp_path / "large").write_text("four")
    (tmp_path / "small").write_text("one")
    files = take_files(tmp_path)
    assert files["small"] == b"one"
    assert files[LEFT].decode() == f"{tmp_path}/large\n"
    assert (tmp_path / "large").exists()


def test_nodes_are_alike_if_the_same_trials_can_run_on_them():
    tested = replace(NODE, environments={"e": Interpreter("/a/python", "3.12", {"torch": "2.13.0"})})
    elsewhere = {"e": Interpreter("/b/python", "3.12", {"torch": "2.13.0"})}
    memory = (replace(CPU, memory_bytes=2**36 - 4096), GPU)
    twin = replace(tested, name="twin", address="10.0.0.3", data_root="/other", hardware=memory, environments=elsewhere)
    assert twin.is_like(tested)
    for change in (
        {"hardware": (CPU,)},
        {"hardware": (replace(CPU, memory_bytes=2**35), GPU)},
        {"packages": {"torch": "2.12.0"}},
        {"python": "3.13"},
        {"resources": {"big": 1.0}},
        {"data": {"mnist": "sha256:1"}},
        {"environments": {"e": Interpreter("/a/python", "3.12", {"torch": "2.12.0"})}},
    ):
        assert not replace(twin, **change).is_like(tested), change


class Joining:
    """Ray's list of nodes, on which another joins, and a monitor that looks at it."""

    def __init__(self, monkeypatch, joined):
        self.words, self.now, self.entries = [], 0.0, [self.entry(NODE)]
        self.dispatcher = Dispatcher([], [limit_to_ray(NODE, self.entries[0]["Resources"])])
        monkeypatch.setattr(ray, "nodes", lambda: self.entries)
        monkeypatch.setattr(ray, "wait", lambda answers, timeout: (answers, []))
        monkeypatch.setattr(ray, "get", lambda answer: answer)
        monkeypatch.setattr(cluster, "probe", lambda entry, environments: joined)
        self.monitor = NodeMonitor(self.dispatcher, self.words.append, clock=lambda: self.now)
        self.monitor.look()
        self.entries = [*self.entries, self.entry(joined)]
        for _ in range(3):
            self.now += cluster.LOOK_EVERY
            self.monitor.look()

    @staticmethod
    def entry(node):
        resources = {"CPU": float(node.cores), "GPU": 2.0, **node.resources}
        return {"NodeManagerAddress": node.address, "NodeID": node.address, "Alive": True, "Resources": resources}

    def names(self):
        return [node.name for node in self.dispatcher.nodes]


def test_a_node_that_joins_is_used_under_a_name_of_its_own(monkeypatch):
    joining = Joining(monkeypatch, replace(NODE, address="10.0.0.3"))
    assert joining.names() == ["box", "box (10.0.0.3)"]
    assert joining.words == ["Ray's node box (10.0.0.3) has joined and gets trials."]
    joining.entries = joining.entries[:1]
    joining.now += cluster.LOOK_EVERY
    joining.monitor.look()
    assert joining.monitor.absent == {"box (10.0.0.3)"}
    assert joining.monitor.absent_addresses == {"10.0.0.3"}


def test_a_node_unlike_those_of_the_plan_is_named_once_and_not_used(monkeypatch):
    joining = Joining(monkeypatch, replace(NODE, name="other", address="10.0.0.3", packages={"torch": "2.12.0"}))
    assert joining.names() == ["box"]
    (words,) = joining.words
    assert words.startswith("Ray's node other has joined, but differs in hardware, packages or data")
