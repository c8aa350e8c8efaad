"""Weight decay is proven once for all trials of one rule, and the proof stands on their runs."""

import json
import shutil
import sqlite3
from contextlib import closing

import pytest
from raybench.analysis.run_counts import RunCounts
from raybench.tracking.sync import sync
from support.executors import ForkingExecutor

from raybench.config import load_grid
from raybench.execution.process import ForkServer
from raybench.execution.progress import RecordingListener
from raybench.results.history import GridHistory
from raybench.run import DEFAULT_STORE, Options, run_grid
from raybench.tracking.store import resolve
from raybench.tracking.tracker import MemoryTracker

GRID = """
name: proven
workload: digits_cnn
epochs: 1
steps_per_epoch: 3
examples: {train: 256, val: 64}
threads: 1
axes:
  device: [cpu]
  weight_decay: [0.0, 5.0e-4]
"""

DIES = """
import os
import signal

import raybench.checks.weight_decay

raybench.checks.weight_decay.measure = lambda job: os.kill(os.getpid(), signal.SIGKILL)
"""

pytestmark = pytest.mark.slow


def run(folder, executor, text=GRID, tracking=DEFAULT_STORE):
    (folder / "grid.yaml").write_text(text)
    watch = RecordingListener()
    options = Options(folder / "results", tracking=tracking, report=False)
    return run_grid(load_grid(folder / "grid.yaml"), executor, watch, options), watch


def journal(outcome):
    return [json.loads(line) for line in outcome.journal.read_text().splitlines()]


def of_runs(store, table):
    """What each training run of a store has in a table: by the run's name, {key: value}."""
    found = {}
    with sqlite3.connect(store.path) as database:
        query = f"select name, key, value from {table} join runs using (run_uuid)"
        for name, key, value in database.execute(query):
            found.setdefault(name, {})[key] = value
    return {name: values for name, values in found.items() if not name.startswith("grid ")}


@pytest.fixture(scope="module")
def executor(fork_server):
    return ForkingExecutor(fork_server)


@pytest.fixture(scope="module")
def proven(tmp_path_factory, executor, migrated_database):
    """A grid of two cells with one rule of decay, and the folder it was run in."""
    folder = tmp_path_factory.mktemp("proven")
    (folder / "results").mkdir()
    shutil.copy(migrated_database, folder / "results" / "mlflow.db")
    outcome, watch = run(folder, executor)
    return folder, outcome, watch


def test_two_cells_with_one_rule_make_one_check_before_both(proven):
    _, outcome, watch = proven
    told = journal(outcome)
    assert [event["event"] for event in told] == [
        *["check_ended"] * 3,
        *["trial_started", "epoch_ended", "trial_audited", "trial_ended"] * 2,
        "check_ended",
        "grid_ended",
    ]
    proof, *trials = told[:-1]
    assert (proof["check"], proof["passed"], proof["error"]) == ("weight_decay", True, None)
    assert proof["factor"] == pytest.approx(1.0, abs=1e-3)
    assert proof["subject"]["optimizer"]["name"] == "sgd"
    for started in (event for event in trials if event["event"] == "trial_started"):
        assert started["decay_check"] == {
            "key": proof["trial"],
            "passed": True,
            "factor": proof["factor"],
            "says": "passed",
        }
    assert told[:-1] == watch.events
    assert len(watch.todo) == 2, "a check is no trial"
    assert outcome.ran == 2
    kept = outcome.folder / "checks" / proof["trial"] / "events.jsonl"
    assert json.loads(kept.read_text()) == proof


@pytest.mark.mlflow
def test_the_proof_stands_on_every_run_in_mlflow(proven, tmp_path, migrated_database):
    _, outcome, _ = proven
    tags, metrics = (of_runs(outcome.store, table) for table in ("tags", "latest_metrics"))
    assert len(tags) == 2
    assert {values["raybench.decay_check"] for values in tags.values()} == {"passed"}
    assert all(values["summary/decay_factor"] == pytest.approx(1.0, abs=1e-3) for values in metrics.values())
    (execution,) = (outcome.folder / "executions").iterdir()
    assert [proof["passed"] for proof in json.loads((execution / "decay_proofs.json").read_text())] == [True]
    anew = resolve(tmp_path, f"sqlite:///{shutil.copy(migrated_database, tmp_path / 'anew.db')}")
    assert sync(GridHistory.read(outcome.journal), anew, "proven").created == 2
    assert {values["raybench.decay_check"] for values in of_runs(anew, "tags").values()} == {"passed"}


def test_what_was_proven_is_not_proven_again(proven, executor, tmp_path):
    folder, *_ = proven
    shutil.copytree(folder / "results", tmp_path / "results")
    _, watch = run(tmp_path, executor, GRID.replace("[0.0, 5.0e-4]", "[0.0, 5.0e-4, 1.0e-3]"), tracking=None)
    started = watch.events[0]
    assert started["event"] == "trial_started"
    assert started["decay_check"]["passed"] is True
    _, watch = run(tmp_path, executor, GRID + "optimizer: adam\n", tracking=None)
    assert [event.get("check") for event in watch.events][:2] == ["weight_decay", None], "another rule"


def test_a_check_that_dies_stops_no_trial_and_proves_nothing(executor, tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text(DIES)
    tracker = MemoryTracker()
    with monkeypatch.context() as patch:
        patch.setenv("PYTHONPATH", str(tmp_path))
        dying = ForkServer("torch")
    with closing(dying):
        outcome, watch = run(tmp_path, ForkingExecutor(lambda _: dying), tracking=tracker)
    assert [row.counts for row in outcome.rows] == [RunCounts(1, 1)] * 2
    assert outcome.exit_status == 0
    proof = watch.events[0]
    assert (proof["event"], proof.get("passed"), proof["error"]["type"]) == ("check_ended", None, "Killed")
    says = "not proven: Killed: killed by SIGKILL"
    assert outcome.warnings == (f"weight decay: torch on cpu, sgd: {says}",)
    for attempt in outcome.latest.values():
        assert attempt.decay_check["says"] == says
        assert attempt.warnings == []
    assert {recorded.tags["raybench.decay_check"] for recorded in tracker.runs} == {says}
    again, watch = run(tmp_path, executor, GRID.replace("[0.0, 5.0e-4]", "[0.0, 5.0e-4, 1.0e-3]"), tracking=None)
    assert watch.events[0]["passed"] is True, "what was not proven is tried again with the next trial"
    assert again.warnings == ()
