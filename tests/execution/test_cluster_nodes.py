"""What is known of a cluster's nodes, and files on their way home: without Ray."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest

from raybench.core.cell import UNKNOWN_CELL
from raybench.core.events import events_file
from raybench.core.job import Job
from raybench.devices import Hardware
from raybench.execution.files import LEFT, code_files, local_code, local_folder, put_file, remove_abandoned, take_files
from raybench.execution.ray_executor import limit_to_ray
from raybench.execution.ray_settings import CLUSTER_SETTINGS, MEMORY, RAY_PROGRAMS, RAY_SETTINGS, private_to_user
from raybench.planning.node import Node
from raybench.planning.placement import Placement, ResourceRequest, find_placements
from raybench.workloads import read_workload
from raybench.workloads.command import Command

CPU = Hardware("cpu", "EPYC", 8, 2**36, ids=tuple("01234567"))
GPU = Hardware("cuda", "T4", 2, 2**34, ids=("0", "1"))
NODE = Node("box", (CPU, GPU), packages={"torch": "2.13.0"}, address="10.0.0.2", data_root="/data")


def test_plan_is_limited_to_rays_resources():
    by_ray = {"CPU": 3.0, "GPU": 1.0, "memory": 1e9, "node:10.0.0.2": 1.0, "big": 2.0}
    found = limit_to_ray(NODE, by_ray)
    assert (found.cores, found.find("cuda")[0].ids, found.resources) == (3, ("0",), {"GPU": 1.0, "big": 2.0})
    none = limit_to_ray(NODE, {"GPU": 2.0})
    assert none.cores == 0
    assert find_placements(ResourceRequest("cuda", "torch", "fp32"), [none]) == "needs 1 core; box has 0"


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
def test_data_are_required_on_the_node(data, said):
    found = find_placements(
        ResourceRequest("cpu", "torch", "fp32", data=("mnist", "sha256:2")), [replace(NODE, data=data)]
    )
    assert found == said if said else isinstance(found[0], Placement)


def test_files_of_a_trial_are_returned(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home = tmp_path / "grid" / "attempts" / "t-r0" / "run-1"
    job = Job("t-r0", 1, 0, 0, UNKNOWN_CELL, {}, "", str(home))
    away = Path(local_folder(job).folder)
    assert away.is_relative_to(tmp_path / "cache")
    (home.parent / "run-2").mkdir(parents=True)
    shared = replace(job, folder=str(home.parent / "run-2"))
    assert local_folder(shared) == shared, "the disk is shared"

    (away / "inner").mkdir()
    (away / "inner" / "a.txt").write_text("a")
    lost = Path(local_folder(replace(job, folder=str(home.parent / "run-3"))).folder)
    events_file(lost).touch()
    files = dict(take_files(away))
    assert files == {"inner/a.txt": b"a"}
    assert not away.exists()
    for name, data in (files | {"../outside": b"x", "/tmp/raybench-outside": b"x", "": b"{}\n"}).items():
        put_file(home, name, data)
    assert (home / "inner" / "a.txt").read_text() == "a" and events_file(home).read_text() == "{}\n"
    assert not (home.parent / "outside").exists() and not Path("/tmp/raybench-outside").exists()

    remove_abandoned(tmp_path / "grid")
    assert not lost.exists(), "its node was lost before its files were returned"


def test_node_without_the_folder_gets_copies(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "proj" / "pack").mkdir(parents=True)
    (tmp_path / "proj" / "train.py").write_text("import pack.net\n")
    (tmp_path / "proj" / "pack" / "net.py").write_text("")
    (tmp_path / "proj" / "other.py").write_text("")
    info = read_workload(Command(("python", "train.py")), tmp_path / "proj")
    job = Job("t-r0", 1, 0, 0, UNKNOWN_CELL, info.to_json(), "", "")
    contents = code_files(job)
    assert local_code(job, contents) == "", "the disk is shared"
    (tmp_path / "proj").rename(tmp_path / "gone")
    code = Path(local_code(job, contents))
    assert sorted(path.relative_to(code).as_posix() for path in code.rglob("*.py")) == ["pack/net.py", "train.py"]


def test_large_files_stay_on_their_node(tmp_path, monkeypatch):
    monkeypatch.setattr("raybench.execution.files.MAX_SENT_BYTES", 3)
    (tmp_path / "large").write_text("four")
    (tmp_path / "small").write_text("one")
    files = dict(take_files(tmp_path))
    assert files["small"] == b"one"
    assert files[LEFT].decode() == f"{tmp_path}/large\n"
    assert (tmp_path / "large").exists()


def test_ray_still_knows_our_names(tmp_path):
    """Those that would fail silently; tests of a running grid look at the bind address, the token and the niceness."""
    ray = Path(importlib.util.find_spec("ray").submodule_search_locations[0])
    names = [*RAY_SETTINGS, *CLUSTER_SETTINGS, *private_to_user(tmp_path / "token"), *MEMORY]
    wanted = {name.removeprefix("RAY_").encode() for name in names}
    programs = [path for path in ray.rglob("*") if path.name in RAY_PROGRAMS and path.is_file()]
    assert {path.name for path in programs} == RAY_PROGRAMS.keys()
    for path in [*programs, *ray.glob("_*/**/*.py"), *ray.glob("tune/**/*.py"), *ray.glob("*.so")]:
        data = path.read_bytes()
        wanted -= {name for name in wanted if name in data}
    assert not wanted
