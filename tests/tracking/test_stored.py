"""The same numbers from a journal and from the MLflow store that was made from it: a database and a real server."""

import json
import sqlite3

import pytest
from pandas.testing import assert_frame_equal

import raybench
from raybench.analysis.columns import EPOCHS, TRIALS
from raybench.errors import UsageError
from raybench.reports import of_source
from raybench.tracking.mlflow import MlflowClient
from raybench.tracking.projection import EFFECTIVE, Summary
from raybench.tracking.server import BULK
from raybench.tracking.store import StoreError
from raybench.tracking.stored import StoredRun, cell, record
from raybench.tracking.sync import sync
from raybench.trial import events

GRID = "told_twice"
TARGET = {"metric": "val/accuracy", "at_least": 0.55, "at_most": None}
ROOFLINE = {
    "work": {"flops": 6.8e6, "values": 50000, "parameters": 111498},
    "probes": {"product": 5e10, "convolution": 4e10, "memory": 1e10},
}


def some_events(golden_events):
    """A grid of one cell of the contract in several repeats, with every kind of end."""
    started, first, second, ended = golden_events
    cell = json.loads(json.dumps(started["cell"]))
    cell["settings"] |= {"schedule": {"name": "exponential", "decay_steps": 20.0}, "mode": "odd", "knob": {"n": 3}}
    cell["engine"]["framework_version"] = "2.10"
    labels = {"grid": GRID, "profile": "box", "target": TARGET, "seed": 3, "host": started["host"]}

    def of(repeat, attempt, *told):
        return [{**event, "trial": f"960070f40c0c-r{repeat}", "attempt": attempt} for event in told]

    def start(repeat, **fields):
        return {**started, **labels, "cell": cell, "label": f"net box r{repeat}", **fields}

    lost = events.trial_ended("", 1, "lost") | {"t": "2026-11-21T09:00:07.000Z"}
    oom = {**ended, "status": "oom", "error": {"type": "OutOfMemory", "message": "no"}}
    proof = {"says": "passed", "factor": 1.0}
    yield from of(0, 1, start(0, roofline=ROOFLINE, decay_proof=proof), first, second, ended)
    yield from of(1, 1, start(1), first, lost)
    yield from of(1, 2, start(1), first, second, ended)
    yield from of(2, 1, start(2), first, oom)
    yield from of(3, 1, start(3), first)


@pytest.fixture
def journal(tmp_path, golden_events):
    path = tmp_path / GRID / "journal.jsonl"
    path.parent.mkdir()
    path.write_text("".join(json.dumps(event) + "\n" for event in some_events(golden_events)))
    return path


def same(stored, told):
    """Both tables are equal wherever a store has a column."""
    for table, columns, order in (("trials", TRIALS, []), ("epochs", EPOCHS, ["epoch"])):
        names = [column.name for column in columns if column.stored]
        frames = [getattr(results, table) for results in (stored, told)]
        names += [name for name in frames[1].columns if name not in {column.name for column in columns}]
        sides = [frame[names].sort_values(["trial", "attempt", *order]).reset_index(drop=True) for frame in frames]
        assert_frame_equal(*sides, rtol=1e-12)


@pytest.mark.parametrize("attempts", ["latest", "all"])
def test_a_store_says_what_the_journal_says(store, journal, attempts):
    sync(journal, store, GRID)
    told = raybench.load(journal, attempts=attempts)
    stored = raybench.load(store.uri, grid=GRID, attempts=attempts)
    assert len(told.trials) == {"latest": 4, "all": 5}[attempts]
    same(stored, told)
    row = stored.trials.set_index(["trial", "attempt"]).loc["960070f40c0c-r0", 1]
    assert (row["framework_version"], row["settings.mode"], row["settings.knob.n"]) == ("2.10", "odd", "3")
    assert (row["device"], row["host"], row["bound_by"]) == ("box", "node-1", "compute")
    assert (row["time_to_target_s"], row["epochs_to_target"], row["total_s"]) == (8.542, 2, 12.212)
    assert (row["decay_proof"], row["decay_factor"]) == ("passed", 1.0)


def test_a_report_of_a_store_doubts_what_was_doubted_when_it_was_written(store, journal):
    """Of a machine's cores MLflow is told nothing, but what follows from them is on the run."""
    events = [json.loads(line) for line in journal.read_text().splitlines()]
    for event in events:
        if event["event"] == "trial_started":
            event["machine"] = {"cores": 64}
    journal.write_text("".join(json.dumps(event) + "\n" for event in events))
    sync(journal, store, "of_64_cores")
    reports = [of_source(str(journal), journal.parent), of_source(store.uri, journal.parent, grid="of_64_cores")]
    told, stored = (
        {
            (doubt.says.partition(": ")[2], doubt.remedy, doubt.runs)
            for doubt in report.doubts
            if doubt.kind == "finding"
        }
        for report in reports
    )
    few = [words for words, _, _ in told if "64 cores" in words]
    assert few == ["few threads: 2 threads on 2 of its machine's 64 cores."]
    assert few[0] in {words for words, _, _ in stored}
    assert {words.partition(":")[0] for words, _, _ in told} <= {words.partition(":")[0] for words, _, _ in stored}


def test_what_a_device_costs_is_in_the_last_execution(store, journal):
    from raybench.tracking.mlflow import Runs

    grid = "priced"
    sync(journal, store, grid)
    for number, price in enumerate([1.0, 3600.0]):
        files = {EFFECTIVE: json.dumps({"devices": {"box": {"kind": "cpu", "price_per_hour": price}}})}
        Runs(store, grid).execution.write_summary(
            Summary(f"execution {number}", files, {}, f"2026-11-21T10:0{number}:00.000Z")
        )
    found = raybench.load(store.uri, grid=grid).trials.set_index("trial")
    assert found["price_per_hour"].tolist() == [3600.0] * 4
    assert found["total_price"]["960070f40c0c-r0"] == pytest.approx(12.212)


def test_every_grid_of_a_store_and_none_that_was_deleted(own_store, journal):
    for grid in ("kept_a", "kept_b", "gone"):
        sync(journal, own_store, grid)
    client = MlflowClient(own_store.uri)
    client.delete_experiment(client.get_experiment_by_name("gone").experiment_id)
    (run, *_) = client.search_runs([client.get_experiment_by_name("kept_b").experiment_id])
    client.delete_run(run.info.run_id)
    alien = client.create_run(client.create_experiment("not of raybench"))
    client.log_metric(alien.info.run_id, "loss", 1.0, step=1)
    found = raybench.load(own_store.path, attempts="all").trials
    assert len(found) >= 9
    with pytest.raises(UsageError, match=r"no results of a grid gone; (there are .*kept_a|did you mean)"):
        raybench.load(own_store.path, grid="gone")
    assert len(raybench.load(own_store.uri, grid="kept_b", attempts="all").trials) == 4


def test_a_server_that_has_no_page_for_curves_is_asked_run_by_run(server, journal, monkeypatch):
    sync(journal, server, "by_run")
    told = raybench.load(server.uri, grid="by_run")
    monkeypatch.setattr("raybench.tracking.server.BULK", BULK + "-that-is-not")
    assert_frame_equal(raybench.load(server.uri, grid="by_run").epochs, told.epochs)
    monkeypatch.undo()
    # Answers that are full are asked for again in halves, down to one run.
    monkeypatch.setattr("raybench.tracking.server.POINTS_A_REQUEST", 2)
    assert_frame_equal(raybench.load(server.uri, grid="by_run").epochs, told.epochs)


def test_what_is_no_store_is_said_in_one_line(tmp_path):
    with pytest.raises(StoreError, match="there is no such file"):
        raybench.load(f"sqlite:///{tmp_path}/missing.db")
    assert not (tmp_path / "missing.db").exists()
    other = tmp_path / "other.db"
    sqlite3.connect(other).execute("create table t (a)")
    with pytest.raises(StoreError, match="no such table"):
        raybench.load(other)
    (tmp_path / "noise.db").write_bytes(b"noise" * 1000)
    with pytest.raises(StoreError, match="not a database"):
        raybench.load(tmp_path / "noise.db")
    with pytest.raises(StoreError, match=r"127\.0\.0\.1") as caught:
        raybench.load("http://bob:s3cret@127.0.0.1:9/p")
    assert "s3cret" not in str(caught.value)
    with pytest.raises(UsageError, match="is no MLflow store of a database or a server"):
        raybench.load("file:///somewhere")


def test_reading_changes_nothing(own_store, journal):
    sync(journal, own_store, "read_only")
    before = own_store.path.read_bytes()
    raybench.load(own_store.uri)
    assert own_store.path.read_bytes() == before


def test_a_store_that_an_older_version_wrote():
    """Without the tags that came later, and with parameters of people's own."""
    run = StoredRun("g", "r", params={"a": "1", "a.b": "2", "repeat": "0", "workload.name": "12"})
    run.tags = {"raybench.trial_id": "c-r1", "raybench.attempt": "1", "raybench.status": "running"}
    run.add("summary/time_to_target_s", 2.5, 0, None)
    run.add("val/loss", float("nan"), 1, 5)
    run.add("val/loss", 0.5, 2, 5)
    found = record(run, {})
    assert found.attempt.cell == {"a": 1, "workload": {"name": "12"}}
    assert found.known["target_reached"] and found.known["time_to_target_s"] == 2.5
    assert (found.attempt.epochs, found.attempt.status, found.attempt.ended) == ([], None, None)
    assert record(StoredRun("g", "r"), {}) is None


def test_a_cell_comes_back_from_its_parameters(golden_events):
    from raybench.analysis.results import attempts
    from raybench.tracking.projection import parameters

    told = golden_events[0]["cell"] | {"again": "120000000000", "data": {"name": "x", "digest": None}}
    golden_events[0]["cell"] = told
    (attempt,) = attempts(golden_events).values()
    assert cell(parameters(attempt)) == told
