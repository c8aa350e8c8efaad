"""Real Ray, real Tune: weight decay is proven once for all trials of one rule, and the proof stands on their runs."""

import json
import sqlite3

import pytest

from raybench.execution.lazy import LazyRay
from raybench.run import Options, run_grid
from raybench.spec import load_grid
from raybench.tracking.store import resolve
from raybench.tracking.sync import sync
from raybench.view import Silent

GRID = """
name: proven
workload: digits_cnn
epochs: 1
steps_per_epoch: 3
examples: {train: 256, val: 64}
axes:
  device: [cpu]
  weight_decay: [0.0, 5.0e-4]
"""

DIES = """
import os
import signal

import raybench.trial.decay

raybench.trial.decay.prove = lambda job: os.kill(os.getpid(), signal.SIGKILL)
"""


def run(folder, text=GRID):
    (folder / "grid.yaml").write_text(text)
    watch = Silent()
    return run_grid(load_grid(folder / "grid.yaml"), LazyRay(), watch, Options(results=folder / "results")), watch


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
def proven(tmp_path_factory):
    """A grid of two cells with one rule of decay, and the folder it was run in."""
    folder = tmp_path_factory.mktemp("proven")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        outcome, watch = run(folder)
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
    assert (proof["check"], proof["passed"], proof["error"]) == ("decay", True, None)
    assert proof["factor"] == pytest.approx(1.0, abs=1e-3)
    assert proof["subject"]["optimizer"]["name"] == "sgd"
    for started in (event for event in trials if event["event"] == "trial_started"):
        assert started["decay_proof"] == {
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


def test_the_proof_stands_on_every_run_in_mlflow(proven):
    folder, outcome, _ = proven
    tags, metrics = (of_runs(outcome.store, table) for table in ("tags", "latest_metrics"))
    assert len(tags) == 2
    assert {values["raybench.decay_proof"] for values in tags.values()} == {"passed"}
    assert all(values["summary/decay_factor"] == pytest.approx(1.0, abs=1e-3) for values in metrics.values())
    (execution,) = (outcome.folder / "executions").iterdir()
    assert [proof["passed"] for proof in json.loads((execution / "decay_proofs.json").read_text())] == [True]
    anew = resolve(folder, f"sqlite:///{folder}/anew.db")
    assert sync(outcome.journal, anew, "proven").created == 2
    assert {values["raybench.decay_proof"] for values in of_runs(anew, "tags").values()} == {"passed"}


def test_what_was_proven_is_not_proven_again(proven, monkeypatch):
    folder, *_ = proven
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    _, watch = run(folder, GRID.replace("[0.0, 5.0e-4]", "[0.0, 5.0e-4, 1.0e-3]"))
    canary, started, *_ = watch.events
    assert (canary["check"], started["event"]) == ("canary", "trial_started")
    assert started["decay_proof"]["passed"] is True
    _, watch = run(folder, GRID + "optimizer: adam\n")
    assert [event.get("check") for event in watch.events][:3] == ["decay", "canary", None], "another rule"


def test_a_check_that_dies_stops_no_trial_and_proves_nothing(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    (tmp_path / "sitecustomize.py").write_text(DIES)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    outcome, watch = run(tmp_path)
    assert [row.status for row in outcome.rows] == ["1/1 completed"] * 2
    assert outcome.exit_status == 0
    proof = watch.events[0]
    assert (proof["event"], proof.get("passed"), proof["error"]["type"]) == ("check_ended", None, "Killed")
    says = "not proven: Killed: killed by SIGKILL"
    assert outcome.warnings == (f"weight decay: torch on cpu, sgd: {says}",)
    for attempt in outcome.latest.values():
        assert attempt.decay_proof["says"] == says
        assert attempt.warnings == list(outcome.warnings)
    assert {values["raybench.decay_proof"] for values in of_runs(outcome.store, "tags").values()} == {says}
    monkeypatch.delenv("PYTHONPATH")
    again, watch = run(tmp_path, GRID.replace("[0.0, 5.0e-4]", "[0.0, 5.0e-4, 1.0e-3]"))
    assert watch.events[0]["passed"] is True, "what was not proven is tried again with the next trial"
    assert again.warnings == ()
