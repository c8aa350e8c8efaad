"""The background writer on a real sqlite store, and on stores that are not there."""

import socket
import time

import pytest
from tracked import ended, epoch, eventually, runs, started

from raybench.analysis.results import attempts
from raybench.tracking.mlflow import MlflowClient
from raybench.tracking.projection import Summary
from raybench.tracking.store import resolve
from raybench.tracking.writer import MlflowWriter
from raybench.trial import events


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    return resolve(folder, f"sqlite:///{folder}/mlflow.db")


def test_a_grid_s_events_are_in_mlflow_when_it_closes(store, tmp_path):
    told: list[str] = []
    left: list[int] = []
    writer = MlflowWriter(store, "whole", tmp_path, warn=told.append)
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
    writer = MlflowWriter(store, "live", tmp_path, interval=0.2)
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


def test_an_attempt_that_was_killed_before_it_had_started_has_one_run(store, tmp_path):
    """What was audited of it may come before its end, which alone tells it apart from others."""
    writer = MlflowWriter(store, "early", tmp_path, interval=0.1)
    assert writer.wait_open()
    writer.put({"event": "trial_audited", "t": events.now(), "trial": "c-r0", "attempt": 2})
    time.sleep(2.0)
    assert runs(store, "early") == {}
    end = ended("c-r0", 2, "lost")
    writer.put(end)
    assert writer.close() == 0
    MlflowWriter(store, "early", tmp_path, attempts([end]).values()).close()
    assert len(runs(store, "early", all_of_them=True)) == 1


def test_nothing_is_written_while_a_trial_is_timed_here(store, tmp_path):
    writer = MlflowWriter(store, "quiet", tmp_path, interval=3600.0)
    assert writer.wait_open()
    for number in range(3):
        # The next trial begins as soon as one has ended.
        writer.put(started(f"c-r{number}"))
        writer.put(ended(f"c-r{number}"))
        time.sleep(0.1)
    writer.put(started("c-r3"))
    time.sleep(1.5)
    assert runs(store, "quiet") == {}
    writer.put(ended("c-r3"))
    eventually(lambda: len(runs(store, "quiet")) == 4)
    assert writer.close() == 0


def test_a_trial_on_another_host_is_no_reason_to_wait(store, tmp_path):
    writer = MlflowWriter(store, "elsewhere", tmp_path, interval=3600.0)
    assert writer.wait_open()
    writer.put(started("c-r0", host="another"))
    eventually(lambda: "c-r0" in runs(store, "elsewhere"))
    writer.put(ended("c-r0", status="lost"))
    assert writer.close() == 0
    assert runs(store, "elsewhere")["c-r0"].info.status == "FAILED"


def test_events_after_an_end_make_no_second_run(store, tmp_path):
    writer = MlflowWriter(store, "late", tmp_path, interval=0.05)
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


def test_what_an_earlier_execution_could_not_write_is_made_up_for(store, tmp_path):
    before = [started("c-r0"), epoch("c-r0", 1)]
    first = MlflowWriter(store, "again", tmp_path)
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
    second = MlflowWriter(store, "again", tmp_path, earlier=attempts(told).values())
    assert second.close() == 0
    found = runs(store, "again")
    assert {name: run.info.status for name, run in found.items()} == {"c-r0": "FAILED", "c-r1": "FINISHED"}
    history = MlflowClient(store.uri).get_metric_history(found["c-r0"].info.run_id, "time/epoch_s")
    assert sorted(point.step for point in history) == [1, 2]


def test_a_dead_server_stops_nothing_and_is_told_once_without_secrets(tmp_path):
    told: list[str] = []
    store = resolve(tmp_path, "http://bob:s3cret@127.0.0.1:9/?token=hush")
    writer = MlflowWriter(store, "dead", tmp_path, warn=told.append)
    for number in range(50):
        writer.put(started(f"c-r{number}"))
        writer.put(ended(f"c-r{number}"))
    assert not writer.wait_open()
    assert writer.close() == 50
    assert len(told) == 2
    assert "The grid goes on" in told[0] and "50 runs are not up to date" in told[1] and "raybench sync" in told[1]
    assert not any(secret in line for line in told for secret in ("bob", "s3cret", "hush"))


def test_a_server_that_never_answers_cannot_hold_the_close(tmp_path):
    told: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as silent:
        store = resolve(tmp_path, f"http://127.0.0.1:{silent.getsockname()[1]}")
        writer = MlflowWriter(store, "silent", tmp_path, warn=told.append)
        writer.put(ended("c-r0"))
        began = time.monotonic()
        assert writer.close(timeout=1.0) == 1
        assert time.monotonic() - began < 5.0, "bounded by its own timeout, not by the connection's"
    assert "1 run is not up to date" in told[-1]


def test_a_store_that_comes_back_gets_everything(tmp_path):
    told: list[str] = []
    (tmp_path / "blocked").write_text("a file where the store's folder is to be")
    store = resolve(tmp_path, f"sqlite:///{tmp_path}/blocked/mlflow.db")
    writer = MlflowWriter(store, "back", tmp_path, warn=told.append)
    writer.put(started("c-r0"))
    writer.put(ended("c-r0"))
    assert not writer.wait_open()
    (tmp_path / "blocked").unlink()
    assert writer.close() == 0
    assert runs(store, "back")["c-r0"].info.status == "FINISHED"
    assert told == [], "one failure is not worth a word"
