"""The same results from a results folder and from the MLflow store that has its journal: a database and a server."""

import json
import shutil
import sqlite3

import pytest
from pandas.testing import assert_frame_equal

import raybench
from raybench.core import events
from raybench.errors import UsageError
from raybench.reporting.build import from_source
from raybench.reporting.report import as_json
from raybench.results import executions
from raybench.results.executions import EFFECTIVE, PLAN, Summary
from raybench.results.history import GridHistory
from raybench.results.journal import JOURNAL, Journal
from raybench.sources.mlflow_store import journals_of
from raybench.tracking import journal_parts
from raybench.tracking.mlflow import MlflowClient, Runs
from raybench.tracking.store import StoreError
from raybench.tracking.sync import sync

CELL = "e5728b716bd9"
TARGET = {"metric": "val/accuracy", "at_least": 0.55, "at_most": None}
ROOFLINE = {
    "work": {"flops": 6.8e6, "values": 50000, "parameters": 111498},
    "probes": {"product": 5e10, "convolution": 4e10, "memory": 1e10},
}


def some_events(golden_events):
    """A grid of one cell of the contract in several repeats, with every kind of end and with findings."""
    started, first, second, ended = golden_events
    cell = json.loads(json.dumps(started["cell"]))
    cell["settings"] |= {"schedule": {"name": "exponential", "decay_steps": 20.0}, "mode": "odd", "knob": {"n": 3}}
    cell["engine"]["framework_version"] = "2.10"
    labels = {"profile": "box", "target": TARGET, "seed": 3, "host": started["host"], "machine": {"cores": 64}}

    def of(repeat, attempt, *told):
        names = {"trial": f"{CELL}-r{repeat}", "attempt": attempt}
        run = {"run": f"run {repeat}.{attempt}"}
        return [{**event, **names, **(run if "run" in event else {})} for event in told]

    def start(repeat, **fields):
        return {**started, **labels, "cell": cell, "label": f"net box r{repeat}", **fields}

    lost = events.trial_ended("", 1, "lost") | {"t": "2026-11-21T09:00:07.000Z"}
    oom = {**ended, "status": "oom", "error": {"type": "OutOfMemory", "message": "no"}}
    proof = {"says": "passed", "factor": 1.0}
    yield from of(0, 1, start(0, roofline=ROOFLINE, decay_check=proof), first, second, ended)
    yield from of(1, 1, start(1), first, lost)
    yield from of(1, 2, start(1), first, second, ended)
    yield from of(2, 1, start(2), first, oom)
    yield from of(3, 1, start(3), first)
    yield events.trial_skipped("0123456789ab-r0", "0123456789ab", "no TPU on any node")


def execution(number, price=1.0, repeats=4):
    """One that asked for some repeats, at a price."""
    plan = {"cells": [{"cell_id": CELL, "axes": {"device": "box"}, "repeats": repeats}], "baseline": {}}
    files = {
        EFFECTIVE: json.dumps({"devices": {"box": {"kind": "cpu", "price_per_hour": price}}}),
        PLAN: json.dumps({"wanted": {**plan, "workload": "katnoria_cnn"}}),
        "grid.yaml": "name: g\n",
    }
    begun = f"2026-11-21T1{number}:00:00.000Z"
    return Summary(f"{begun} node-1 {number}", files, {"completed": 2}, begun, begun)


@pytest.fixture
def results(tmp_path, golden_events):
    """Makes a results folder with a grid in it."""

    def make(grid, name="results", changes=None):
        with Journal(tmp_path / name / grid / JOURNAL) as journal:
            for event in some_events(golden_events):
                journal.append({**event, **(changes or {}), "grid": grid})
            executions.write_execution(journal, execution(1))
            executions.write_execution(journal, execution(2, 3600.0, 2))
        return tmp_path / name

    return make


@pytest.fixture
def in_parts(monkeypatch):
    """Journals are uploaded in parts of one or two lines."""
    monkeypatch.setattr(journal_parts, "LONGEST", 600)


def same(one, other):
    for table in ("trials", "epochs"):
        assert_frame_equal(getattr(one, table), getattr(other, table))


def artifacts_of(store):
    """The files of the parts of journals, by the grids' names."""
    found = sorted((store.path.parent / "mlartifacts").glob("*/*/artifacts/journal/*"))
    return {path.parents[3].name: [each for each in found if each.parents[3] == path.parents[3]] for path in found}


@pytest.mark.parametrize("attempts", ["latest", "all"])
def test_a_store_has_the_tables_of_the_results_folder(store, results, in_parts, attempts):
    folder = results(f"tables_{attempts}")
    grid = f"tables_{attempts}"
    sync(GridHistory.read(folder / grid / JOURNAL), store, grid)
    stored = raybench.load(store.uri, grid=grid, attempts=attempts)
    same(stored, raybench.load(folder, grid=grid, attempts=attempts))
    assert len(stored.trials) == {"latest": 5, "all": 6}[attempts]
    row = stored.trials.set_index(["trial", "attempt"]).loc[f"{CELL}-r0", 1]
    assert (row["framework_version"], row["settings.mode"], row["settings.knob.n"]) == ("2.10", "odd", "3")
    assert (row["wall_s"], row["mlperf_s"], row["price_per_hour"]) == (9.8, 9.089, 3600.0)
    requested = stored.trials[stored.trials["requested"]]["trial"]
    assert set(requested) == {f"{CELL}-r0", f"{CELL}-r1"}


def test_a_store_has_the_report_of_the_results_folder(store, results, in_parts):
    folder = results("reported")
    sync(GridHistory.read(folder / "reported" / JOURNAL), store, "reported")
    read: list[tuple[int, int]] = []
    stored = from_source(store.uri, folder, grid="reported", progress=lambda *bytes: read.append(bytes))
    kept = from_source("reported", folder)
    data = [as_json(report) | {"made": ""} for report in (stored, kept)]
    assert data[0] == data[1]
    assert any("this may have made the time up to" in remark.says for remark in stored.remarks), (
        "a finding with its magnitude"
    )
    size = (folder / "reported" / JOURNAL).stat().st_size
    assert len(read) > 5 and read[-1] == (size, size)


def test_what_is_there_is_not_uploaded_again(own_store, results, in_parts):
    folder = results("once")
    first = sync(GridHistory.read(folder / "once" / JOURNAL), own_store, "once")
    files = {path: path.stat().st_mtime_ns for path in artifacts_of(own_store)["once"]}
    assert first.parts == len(files) > 5 and "journal updated" in str(first)
    again = sync(GridHistory.read(folder / "once" / JOURNAL), own_store, "once")
    assert str(again) == "0 runs created, 0 updated, 5 unchanged"
    assert {path: path.stat().st_mtime_ns for path in artifacts_of(own_store)["once"]} == files
    with Journal(folder / "once" / JOURNAL) as journal:
        executions.write_execution(journal, execution(3))
    assert sync(GridHistory.read(folder / "once" / JOURNAL), own_store, "once").parts == 1
    same(raybench.load(own_store.uri, grid="once"), raybench.load(folder))


def test_sync_adds_the_journal_to_the_run_that_lacks_it(own_store, results):
    folder = results("lacking")
    for summary in (execution(1), execution(2, 3600.0, 2)):
        Runs(own_store, "lacking").write_summary(summary)
    with pytest.raises(UsageError, match=r"no results of (a grid lacking|raybench)"):
        raybench.load(own_store.uri, grid="lacking")
    sync(GridHistory.read(folder / "lacking" / JOURNAL), own_store, "lacking")
    client = MlflowClient(own_store.uri)
    found = client.search_runs([client.get_experiment_by_name("lacking").experiment_id])
    assert [run.info.status for run in found if run.info.run_name == "grid lacking"] == ["FINISHED"] * 2
    (_,) = artifacts_of(own_store)["lacking"]
    same(raybench.load(own_store.uri, grid="lacking"), raybench.load(folder, grid="lacking"))


def test_results_folders_of_one_grid_are_one(own_store, results):
    """Even if their executions have the same names, they are two journals."""
    one, other = (
        results("shared", name=name, changes={"machine": {"cores": cores}}) for name, cores in (("a", 2), ("b", 3))
    )
    for folder in (one, other):
        sync(GridHistory.read(folder / "shared" / JOURNAL), own_store, "shared")
    every = raybench.load(own_store.uri, grid="shared", attempts="all").trials
    tried = every[every["attempt"] > 0]
    assert len(tried) == 2 * 5
    assert sorted(tried[tried["trial"] == f"{CELL}-r1"]["attempt"]) == [1, 2, 3, 4]
    assert raybench.load(own_store.uri, grid="shared").trials["trial"].is_unique
    assert from_source(own_store.uri, one, grid="shared").results.latest.keys() == set(every["trial"])


def test_a_results_folder_that_was_copied_and_went_on_twice(own_store, results):
    grid = "copied"
    folder = results(grid)
    sync(GridHistory.read(folder / grid / JOURNAL), own_store, grid)
    copy = folder.parent / "copy"
    shutil.copytree(folder, copy)
    for place, trial in ((folder, "0000000000aa-r0"), (copy, "0000000000bb-r0")):
        with Journal(place / grid / JOURNAL) as journal:
            journal.append(events.trial_started(trial, 1))
            journal.append(events.trial_ended(trial, 1, "completed"))
    for place in (folder, copy, folder):
        sync(GridHistory.read(place / grid / JOURNAL), own_store, grid)
    trials = raybench.load(own_store.uri, grid=grid, attempts="all").trials
    assert len(trials) == 6 + 2 and {"0000000000aa-r0", "0000000000bb-r0"} < set(trials["trial"])


def test_a_part_that_is_damaged_or_gone_is_named_and_sync_mends_it(own_store, results, in_parts, caplog):
    folder = results("damaged")
    sync(GridHistory.read(folder / "damaged" / JOURNAL), own_store, "damaged")
    _, second, third, *_ = artifacts_of(own_store)["damaged"]
    second.write_bytes(second.read_bytes()[:-30])
    size = third.stat().st_size
    third.unlink()
    stored = raybench.load(own_store.uri, grid="damaged")
    which = f"{own_store}: the journal of damaged"
    problems = [
        f"{which}: 1 part is damaged; the lines that can be read are used",
        f"{which}: {size:,} bytes are missing; `raybench sync` adds them from the results folder",
    ]
    assert [record.getMessage() for record in caplog.records] == problems
    assert 0 < len(stored.epochs) < len(raybench.load(folder).epochs)
    assert set(problems) < set(from_source(own_store.uri, folder, grid="damaged").context.warnings)
    assert sync(GridHistory.read(folder / "damaged" / JOURNAL), own_store, "damaged").parts == 2
    same(raybench.load(own_store.uri, grid="damaged"), raybench.load(folder))
    last = artifacts_of(own_store)["damaged"][-1]
    size = last.stat().st_size
    last.unlink()
    with journals_of(own_store, "damaged") as (journal,):
        assert journal.problems[0].startswith(f"{which}: {size:,} bytes are missing"), "also at its end"
    for path in artifacts_of(own_store)["damaged"]:
        path.unlink()
    with pytest.raises(
        StoreError, match=r"the journal of damaged: [\d,]+ bytes are missing; `raybench sync` adds them"
    ):
        raybench.load(own_store.uri, grid="damaged")


def test_every_grid_of_a_store_and_none_that_was_deleted(own_store, results):
    folder = results("kept_a")
    for grid in ("kept_b", "gone"):
        results(grid)
    for grid in ("kept_a", "kept_b", "gone"):
        sync(GridHistory.read(folder / grid / JOURNAL), own_store, grid)
    client = MlflowClient(own_store.uri)
    client.delete_experiment(client.get_experiment_by_name("gone").experiment_id)
    alien = client.create_run(client.create_experiment("not of raybench"))
    client.log_metric(alien.info.run_id, "loss", 1.0, step=1)
    found = raybench.load(own_store.path)
    assert {"kept_a", "kept_b"} <= set(found.trials["grid"]) and "gone" not in set(found.trials["grid"])
    with pytest.raises(UsageError, match=r"no results of a grid gone; (there are .*kept_a|did you mean)"):
        raybench.load(own_store.path, grid="gone")
    with pytest.raises(UsageError, match=r"results of \d+ grids; choose one with --grid: .*kept_a, kept_b"):
        from_source(own_store.uri, folder)


def test_a_store_without_results_says_so(tmp_path, migrated_database):
    path = shutil.copy(migrated_database, tmp_path / "mlflow.db")
    client = MlflowClient(f"sqlite:///{path}")
    alien = client.create_run(client.create_experiment("of another program", artifact_location=str(tmp_path / "files")))
    client.log_metric(alien.info.run_id, "loss", 1.0, step=1)
    words = f"sqlite:///{path}: no results of raybench in it; `raybench sync` adds the journal of a results folder"
    for read in (lambda: raybench.load(path), lambda: from_source(str(path), tmp_path)):
        with pytest.raises(UsageError) as caught:
            read()
        assert str(caught.value) == words


def test_what_is_no_store_is_said_in_one_line(tmp_path):
    with pytest.raises(StoreError, match="no such file"):
        raybench.load(f"sqlite:///{tmp_path}/missing.db")
    assert not (tmp_path / "missing.db").exists()
    other = tmp_path / "other.db"
    sqlite3.connect(other).execute("create table t (a)")
    before = other.read_bytes()
    with pytest.raises(StoreError, match="the database belongs to another program"):
        raybench.load(other)
    assert other.read_bytes() == before
    (tmp_path / "noise.db").write_bytes(b"noise" * 1000)
    with pytest.raises(StoreError, match="not a database"):
        raybench.load(tmp_path / "noise.db")
    with pytest.raises(StoreError, match=r"127\.0\.0\.1") as caught:
        raybench.load("http://bob:s3cret@127.0.0.1:9/p")
    assert "s3cret" not in str(caught.value)
    with pytest.raises(UsageError, match="is not an MLflow database or server"):
        raybench.load("file:///somewhere")


def test_reading_changes_nothing(own_store, results, tmp_path, monkeypatch):
    folder = results("read_only")
    sync(GridHistory.read(folder / "read_only" / JOURNAL), own_store, "read_only")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    before = own_store.path.read_bytes()
    raybench.load(own_store.uri, grid="read_only")
    assert own_store.path.read_bytes() == before
    assert list((tmp_path / "empty").iterdir()) == []
