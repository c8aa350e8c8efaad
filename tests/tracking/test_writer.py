"""The background writer on a real sqlite store, and on stores that are not there."""

import shutil
import socket
import subprocess
import sys
import time

import pytest
from support import TESTS
from support.tracked import OwnHistoryWriter, ended, epoch, eventually, runs, started

from raybench.core import events
from raybench.results.executions import Summary
from raybench.results.history import GridHistory
from raybench.results.journal import JOURNAL, Journal
from raybench.sources.mlflow_store import journals_of
from raybench.tracking import writer as writing
from raybench.tracking.journal_parts import FOLDER
from raybench.tracking.mapping import SUMMARY
from raybench.tracking.mlflow import MlflowClient
from raybench.tracking.store import resolve
from raybench.tracking.sync import sync
from raybench.tracking.writer import MlflowWriter


@pytest.fixture
def store(own_store):
    return own_store


def test_a_grid_s_events_are_in_mlflow_when_it_closes(store, tmp_path):
    told: list[str] = []
    left: list[int] = []
    writer = OwnHistoryWriter(store, "whole", tmp_path, "one", warn=told.append)
    assert writer.wait_open()
    for number in range(12):
        trial = f"c-r{number}"
        for event in (started(trial), epoch(trial, 1), epoch(trial, 2), ended(trial)):
            writer.put(event)
    writer.put({"event": "trial_skipped", "t": events.now(), "trial": "d-r0", "cell_id": "d", "reason": "no TPU"})
    writer.put({"event": "grid_ended", "t": events.now()})
    writer.put_summary(Summary("one", {"plan.json": "[]"}, {"completed": 12}))
    assert writer.close(progress=left.append) == 0
    found = runs(store, "whole")
    assert set(found) == {*(f"c-r{number}" for number in range(12)), "grid whole"}
    assert {run.info.status for run in found.values()} == {"FINISHED"}
    assert found["c-r3"].data.metrics["summary/best_val_accuracy"] == 0.2
    assert told == [] and left[-1] == 0


def test_epochs_of_a_running_trial_appear_while_it_runs(store, tmp_path):
    writer = OwnHistoryWriter(store, "live", tmp_path, "one", interval=0.2)
    assert writer.wait_open()
    writer.put(started("c-r0"))
    writer.put(epoch("c-r0", 1))
    eventually(lambda: any("time/epoch_s" in run.data.metrics for run in runs(store, "live").values()))
    assert runs(store, "live")["c-r0"].info.status == "RUNNING"
    writer.put(epoch("c-r0", 2))
    writer.put(ended("c-r0"))
    assert writer.close() == 0
    run = runs(store, "live")["c-r0"]
    assert run.info.status == "FINISHED"
    history = MlflowClient(store.uri).get_metric_history(run.info.run_id, "time/epoch_s")
    assert sorted(point.step for point in history) == [1, 2]


@pytest.mark.slow
def test_an_attempt_that_was_killed_before_it_had_started_has_one_run(store, tmp_path):
    """What was audited of it may come before its end, which alone tells it apart from others."""
    writer = OwnHistoryWriter(store, "early", tmp_path, "one", interval=0.1)
    assert writer.wait_open()
    writer.put({"event": "trial_audited", "t": events.now(), "trial": "c-r0", "attempt": 2})
    time.sleep(1.0)
    assert runs(store, "early") == {}
    end = ended("c-r0", 2, "lost")
    writer.put(end)
    assert writer.close() == 0
    OwnHistoryWriter(store, "early", tmp_path, "one", [end]).close()
    assert len(runs(store, "early", all_of_them=True)) == 1


@pytest.mark.slow
def test_nothing_is_written_while_a_trial_is_timed_here(store, tmp_path):
    writer = OwnHistoryWriter(store, "quiet", tmp_path, "one", interval=3600.0)
    assert writer.wait_open()
    for number in range(3):
        # The next trial begins as soon as one has ended.
        writer.put(started(f"c-r{number}"))
        writer.put(ended(f"c-r{number}"))
        time.sleep(0.1)
    writer.put(started("c-r3"))
    time.sleep(1.0)
    assert runs(store, "quiet") == {}
    writer.put(ended("c-r3"))
    eventually(lambda: len(runs(store, "quiet")) == 4)
    assert writer.close() == 0


@pytest.mark.slow
def test_a_trial_on_another_host_is_no_reason_to_wait(store, tmp_path):
    writer = OwnHistoryWriter(store, "elsewhere", tmp_path, "one", interval=3600.0)
    assert writer.wait_open()
    writer.put(started("c-r0", host="another"))
    eventually(lambda: "c-r0" in runs(store, "elsewhere"))
    writer.put(ended("c-r0", status="lost"))
    assert writer.close() == 0
    assert runs(store, "elsewhere")["c-r0"].info.status == "FAILED"


def test_events_after_an_end_make_no_second_run(store, tmp_path):
    writer = OwnHistoryWriter(store, "late", tmp_path, "one", interval=0.05)
    writer.put(started("c-r0"))
    writer.put(ended("c-r0"))
    eventually(lambda: "c-r0" in runs(store, "late") and runs(store, "late")["c-r0"].info.status == "FINISHED")
    writer.put(epoch("c-r0", 1))
    writer.put(ended("c-r0", status="lost"))
    writer.put(started("c-r0", attempt=2))
    writer.put(ended("c-r0", attempt=2))
    assert writer.close() == 0
    assert {name: run.info.status for name, run in runs(store, "late").items()} == {
        "c-r0": "FINISHED",
        "c-r0 a2": "FINISHED",
    }


def test_an_end_that_is_in_the_history_before_the_writer_hears_of_it(store, tmp_path):
    writer = OwnHistoryWriter(store, "ahead", tmp_path, "one", interval=0.2)
    assert writer.wait_open()
    writer.put(started("c-r0"))
    end = ended("c-r0")
    writer.history.take(end)
    eventually(lambda: "c-r0" in runs(store, "ahead") and runs(store, "ahead")["c-r0"].info.status == "FINISHED")
    super(OwnHistoryWriter, writer).put(end)
    writer.put_summary(Summary("one", {}, {"completed": 1}))
    eventually(lambda: runs(store, "ahead").keys() == {"c-r0", "grid ahead"})
    assert writer.close() == 0
    assert len(runs(store, "ahead", all_of_them=True)) == 2


def test_what_an_earlier_execution_could_not_write_is_made_up_for(store, tmp_path):
    before = [started("c-r0"), epoch("c-r0", 1)]
    first = OwnHistoryWriter(store, "again", tmp_path, "one")
    for event in before:
        first.put(event)
    assert first.close() == 0, "its driver dies here"
    told = [
        *before,
        epoch("c-r0", 2),
        ended("c-r0", status="lost"),
        started("c-r1"),
        ended("c-r1"),
    ]
    second = OwnHistoryWriter(store, "again", tmp_path, "one", told)
    assert second.close() == 0
    found = runs(store, "again")
    assert {name: run.info.status for name, run in found.items()} == {"c-r0": "FAILED", "c-r1": "FINISHED"}
    history = MlflowClient(store.uri).get_metric_history(found["c-r0"].info.run_id, "time/epoch_s")
    assert sorted(point.step for point in history) == [1, 2]


DRIVER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[4])
from support.tracked import OwnHistoryWriter, ended, epoch, started
from raybench.results.journal import JOURNAL, Journal
from raybench.tracking.store import store_from_uri

uri, grid, folder = sys.argv[1:4]
folder = Path(folder)
writer = OwnHistoryWriter(store_from_uri(uri), grid, folder, folder.name, interval=0.05)
journal = Journal(folder / JOURNAL)
for event in (started("c-r0"), epoch("c-r0", 1)):
    journal.append(event)
    writer.put(event)
sys.stdin.readline()
writer.put(ended("c-r0"))
print(writer.close())
"""


@pytest.fixture
def drive(store):
    """Starts drivers in processes of their own, each in the middle of the same trial."""
    processes = []

    def start(grid, folder):
        folder.mkdir()
        command = [sys.executable, "-c", DRIVER, store.uri, grid, str(folder), str(TESTS)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_the_next_writer_ends_the_runs_of_its_own_folder_and_no_others(store, drive, tmp_path):
    def statuses():
        """Of the trials, and of the grids."""
        found = runs(store, "owners", all_of_them=True)
        return tuple(
            sorted(run.info.status for run in found if (SUMMARY in run.data.tags) == is_grid)
            for is_grid in (False, True)
        )

    OwnHistoryWriter(store, "first", tmp_path, "one").close()  # only one process may create a store
    killed, living = drive("owners", tmp_path / "killed"), drive("owners", tmp_path / "living")
    eventually(lambda: statuses() == (["RUNNING"] * 2, ["RUNNING"] * 2), 120)
    killed.kill()
    killed.wait()
    history = GridHistory.recover(tmp_path / "killed" / JOURNAL)
    next_writer = MlflowWriter(store, "owners", history, "next")
    next_writer.put_summary(Summary("next", {}, {"lost": 1}))
    assert next_writer.close() == 0
    # One search, on a loaded machine, missed runs while the other process was writing; the cause is not known.
    eventually(lambda: statuses() == (["FAILED", "RUNNING"], ["FAILED", "FINISHED", "RUNNING"]), 30)
    assert living.communicate("go on\n", timeout=120)[0].split() == ["0"]
    assert statuses() == (["FAILED", "FINISHED"], ["FAILED", "FAILED", "FINISHED"]), "the living one left no summary"
    tags = {run.data.tags.get("raybench.status"): run.info.status for run in runs(store, "owners", all_of_them=True)}
    assert {**tags, None: None} == {"lost": "FAILED", "completed": "FINISHED", None: None}


@pytest.mark.slow
def test_a_sync_ends_the_run_of_a_grid_that_was_killed(store, drive, tmp_path):
    OwnHistoryWriter(store, "first", tmp_path, "one").close()
    killed = drive("killed_grid", tmp_path / "killed")
    eventually(lambda: "grid killed_grid" in runs(store, "killed_grid"), 120)
    killed.kill()
    killed.wait()
    sync(GridHistory.recover(tmp_path / "killed" / JOURNAL), store, "killed_grid")
    assert {run.info.status for run in runs(store, "killed_grid", all_of_them=True)} == {"FAILED"}
    assert loaded(store, "killed_grid") == (tmp_path / "killed" / JOURNAL).read_bytes()


def loaded(store, grid):
    """The journal of a grid as the store has it."""
    with journals_of(store, grid) as (journal,):
        assert journal.problems == ()
        return journal.path.read_bytes()


def parts_of(store, grid):
    """The parts of a journal in a store, by the status of the run that has them."""
    client = MlflowClient(store.uri)
    return [
        (run.info.status, file.path)
        for run in runs(store, grid, all_of_them=True)
        for file in client.list_artifacts(run.info.run_id, FOLDER)
    ]


def test_the_journal_is_attached_while_a_grid_runs_and_at_its_end(store, tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "JOURNAL_INTERVAL", 0.0)
    writer = OwnHistoryWriter(store, "attached", tmp_path, "one", interval=0.1)
    with Journal(tmp_path / JOURNAL) as journal:

        def sink(event):
            journal.append(event)
            writer.put(event)

        sink(started("c-r0"))
        eventually(lambda: len(parts_of(store, "attached")) == 1)
        assert loaded(store, "attached") == (tmp_path / JOURNAL).read_bytes()
        sink(epoch("c-r0", 1))
        eventually(lambda: len(parts_of(store, "attached")) == 2)
        assert {status for status, _ in parts_of(store, "attached")} == {"RUNNING"}
        sink(ended("c-r0"))
        writer.put_summary(Summary("one", {}, {"completed": 1}))
    assert writer.close() == 0
    assert {run.info.status for run in runs(store, "attached", all_of_them=True)} == {"FINISHED"}
    assert loaded(store, "attached") == (tmp_path / JOURNAL).read_bytes()


def test_new_lines_wait_for_the_interval_and_for_no_trial(store, tmp_path):
    writer = OwnHistoryWriter(store, "interval", tmp_path, "one", interval=0.05)
    with Journal(tmp_path / JOURNAL) as journal:
        for number in range(1, 4):
            event = epoch("c-r0", number)
            journal.append(event)
            writer.put(event)
            eventually(lambda: parts_of(store, "interval"))
            time.sleep(0.3)
        assert len(parts_of(store, "interval")) == 1, "the next comes after five minutes"
    assert writer.close() == 0
    assert len(parts_of(store, "interval")) == 2
    assert loaded(store, "interval") == (tmp_path / JOURNAL).read_bytes()


@pytest.mark.slow
def test_a_store_that_keeps_a_grid_waiting_is_named(tmp_path, monkeypatch):
    told: list[str] = []
    monkeypatch.setattr(writing, "QUIET", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        store = resolve(tmp_path, f"http://127.0.0.1:{silent.getsockname()[1]}")
        writer = OwnHistoryWriter(store, "silent", tmp_path, "one", warn=told.append)
        assert not writer.wait_open(timeout=0.02)
        writer.close(timeout=0)
    assert told[0] == f"MLflow store {store}: no answer for 0 s; waiting for at most 0 s more"


@pytest.mark.slow
def test_a_dead_server_stops_nothing_and_is_told_once_without_secrets(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "QUIET", writing.PATIENCE)  # loading MLflow may take long
    told: list[str] = []
    store = resolve(tmp_path, "http://bob:s3cret@127.0.0.1:9/?token=hush")
    writer = OwnHistoryWriter(store, "dead", tmp_path, "one", warn=told.append)
    for number in range(50):
        writer.put(started(f"c-r{number}"))
        writer.put(ended(f"c-r{number}"))
    assert not writer.wait_open()
    assert writer.close() == 50
    assert len(told) == 2
    assert "The grid continues" in told[0] and "50 runs are not up to date" in told[1] and "raybench sync" in told[1]
    assert not any(secret in line for line in told for secret in ("bob", "s3cret", "hush"))


@pytest.mark.slow
def test_a_server_that_never_answers_cannot_hold_the_close(tmp_path):
    told: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as silent:
        store = resolve(tmp_path, f"http://127.0.0.1:{silent.getsockname()[1]}")
        writer = OwnHistoryWriter(store, "silent", tmp_path, "one", warn=told.append)
        writer.put(ended("c-r0"))
        began = time.monotonic()
        assert writer.close(timeout=1.0) == 1
        assert time.monotonic() - began < 5.0, "bounded by its own timeout, not by the connection's"
    assert "1 run is not up to date" in told[-1]


def test_a_store_that_comes_back_gets_everything(tmp_path, migrated_database, monkeypatch):
    monkeypatch.setattr(writing, "QUIET", writing.PATIENCE)
    told: list[str] = []
    (tmp_path / "blocked").write_text("a file where the store's folder is to be")
    store = resolve(tmp_path, f"sqlite:///{tmp_path}/blocked/mlflow.db")
    writer = OwnHistoryWriter(store, "back", tmp_path, "one", warn=told.append)
    writer.put(started("c-r0"))
    writer.put(ended("c-r0"))
    assert not writer.wait_open()
    (tmp_path / "blocked").unlink()
    (tmp_path / "blocked").mkdir()
    shutil.copy(migrated_database, tmp_path / "blocked" / "mlflow.db")
    assert writer.close() == 0
    assert runs(store, "back")["c-r0"].info.status == "FINISHED"
    assert told == [], "one failure is not worth a word"


def test_an_mlflow_that_cannot_be_loaded_is_told_and_keeps_nobody_waiting(store, tmp_path, monkeypatch):
    """A broken installation, for one: the grid goes on, and the runs are left to `raybench sync`."""
    monkeypatch.setitem(sys.modules, "raybench.tracking.mlflow", None)
    monkeypatch.setattr(writing, "PAUSE", 0.01)
    told: list[str] = []
    writer = OwnHistoryWriter(store, "g", tmp_path, "one", warn=told.append)
    assert not writer.wait_open()
    writer.put(started("c-r0"))
    writer.put(ended("c-r0"))
    assert writer.close() == 1
    assert "raybench.tracking.mlflow" in told[0] and "The grid continues" in told[0]
    assert "run `raybench sync" in told[-1]
