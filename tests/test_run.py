"""A grid from its file to its comparison, in this process: what is run, what is not run again, how it ends."""

import json
import os
import platform
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest

from raybench.analysis import rules
from raybench.analysis.sentences import plain
from raybench.cli.summary import show
from raybench.devices.host import usable_cores
from raybench.errors import ResultsLockedError, UsageError
from raybench.execution.inline import InlineExecutor
from raybench.run import Options, run_grid
from raybench.spec import load_grid
from raybench.tracking.lock import locked
from raybench.tracking.store import resolve
from raybench.tracking.sync import sync
from raybench.trial import events
from raybench.view import Silent

TROUBLES = Path(__file__).parent / "execution" / "troubles.py"


@pytest.fixture
def grid(tmp_path, monkeypatch):
    """Runs a grid text in a folder of its own and returns the outcome and what the view was told."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)

    def run(text, **options):
        path = tmp_path / "grid.yaml"
        path.write_text(text)
        view = Silent()
        outcome = run_grid(load_grid(path), InlineExecutor(), view, Options(results=tmp_path / "results", **options))
        run.notes = view.notes
        return outcome, [event["trial"] for event in view.events if event["event"] == "trial_started"]

    return run


DIGITS = """
name: digits
workload: digits_cnn
epochs: 1
steps_per_epoch: 3
axes:
  device: [cpu]
  batch_size: [32, 64]
"""


def runs_in(store):
    with sqlite3.connect(store.path) as database:
        return database.execute("select name, status from runs order by name").fetchall()


def test_a_grid_leaves_a_journal_folders_runs_and_a_row_for_each_cell(grid):
    outcome, started = grid(DIGITS)
    assert outcome.exit_status == 0
    assert [row.status for row in outcome.rows] == ["1/1 completed"] * 2
    assert all(row.steady.value > 0 and 0 <= row.metric.value <= 1 for row in outcome.rows)
    told = [json.loads(line) for line in outcome.journal.read_text().splitlines()]
    ended = told.pop()
    assert (ended["event"], ended["counts"]) == ("grid_ended", {"completed": 2})
    kept = {path.name for path in (outcome.folder / "executions" / ended["folder"]).iterdir()}
    figures = {name for name in kept if name.startswith("figure_")}
    assert {"figure_times.svg", "figure_accuracy_map.svg"} <= figures
    always = {"grid.yaml", "grid.json", "plan.json", "comparison.json", "comparison.txt", "decay_proofs.json"}
    assert kept - figures == always | {"report.html", "report.json"}
    assert (outcome.folder / "report.html").read_text().startswith("<!DOCTYPE html>")
    proof, probed, before, after = told.pop(0), told.pop(0), told.pop(0), told.pop()
    assert (proof["event"], proof["check"], proof["passed"]) == ("check_ended", "decay", True)
    assert (probed["event"], probed["check"], probed["error"]) == ("check_ended", "roofline", None)
    assert [(canary["check"], canary["error"]) for canary in (before, after)] == [("canary", None)] * 2
    assert [event["event"] for event in told] == ["trial_started", "epoch_ended", "trial_ended"] * 2
    for trial in started:
        kept = outcome.folder / "trials" / trial / "attempt-1" / "events.jsonl"
        assert [json.loads(line) for line in kept.read_text().splitlines()] == [e for e in told if e["trial"] == trial]
    assert [status for _, status in runs_in(outcome.store)] == ["FINISHED"] * 3
    assert {name for name, _ in runs_in(outcome.store)} == {
        "digits_cnn cpu torch b32 wd0.005 r0",
        "digits_cnn cpu torch b64 wd0.005 r0",
        "grid digits",
    }


@pytest.mark.skipif(len(usable_cores()) < 2, reason="one core is no fewer than one thread")
def test_one_thread_on_several_cores_is_said_in_the_table_and_on_the_run(grid):
    outcome, _ = grid(DIGITS + "threads: 1\n")
    says = f"1 thread on {len(usable_cores())} cores"
    for row in outcome.rows:
        (found,) = (finding for told in row.findings.values() for finding in told if finding.code == "few_threads")
        assert found.says == says
    (execution,) = (outcome.folder / "executions").iterdir()
    table = " ".join((execution / "comparison.txt").read_text().split())
    assert f": few threads (2 of 2 runs): {says}. Leave `threads`" in table
    for row in json.loads((execution / "comparison.json").read_text()):
        ((finding, *_),) = row["findings"].values()
        assert (finding["code"], finding["evidence"]["threads"]) == ("few_threads", 1.0)
    with sqlite3.connect(outcome.store.path) as database:
        tags = database.execute("select value from tags where key = 'raybench.findings'").fetchall()
    assert [tag.split(",")[0] for (tag,) in tags] == ["few_threads"] * 2


def test_mlflow_can_be_made_anew_from_the_journal(grid, tmp_path):
    outcome, _ = grid(DIGITS)
    anew = resolve(tmp_path, f"sqlite:///{tmp_path}/anew.db")
    first, second = (str(sync(outcome.journal, anew, "digits")) for _ in range(2))
    assert (first, second) == (
        "2 runs created, 0 brought up to date, 0 unchanged",
        "0 runs created, 0 brought up to date, 2 unchanged",
    )
    assert runs_in(anew) == runs_in(outcome.store)


KILLED_AT_ITS_END = """
import os, signal, sys
from pathlib import Path
from raybench.execution.inline import InlineExecutor
from raybench.run import Options, run_grid
from raybench.spec import load_grid
from raybench.tracking.writer import MlflowWriter

MlflowWriter.close = lambda self, **_: os.kill(os.getpid(), signal.SIGKILL)
run_grid(load_grid(Path("grid.yaml")), InlineExecutor(), options=Options(results=Path("results")))
"""


def test_what_a_driver_that_was_killed_at_its_end_has_not_written_is_written_by_the_next(grid, tmp_path, monkeypatch):
    """Everything has run and is in the journal: the same command runs nothing, and leaves no run RUNNING."""
    (tmp_path / "grid.yaml").write_text(DIGITS)
    environ = {name: value for name, value in os.environ.items() if name != "MLFLOW_TRACKING_URI"}
    environ["PYTHONPATH"] = str(Path(__file__).parent.parent)
    killed = subprocess.run([sys.executable, "-c", KILLED_AT_ITS_END], cwd=tmp_path, env=environ, check=False)
    assert killed.returncode == -signal.SIGKILL
    store = resolve(tmp_path / "results")
    assert "RUNNING" in {status for _, status in runs_in(store)}
    outcome, started = grid(DIGITS)
    assert (outcome.exit_status, started, outcome.warnings) == (0, [], ())
    assert Counter(status for _, status in runs_in(store)) == {"FINISHED": 3}
    monkeypatch.setattr("raybench.tracking.sync.sync", None)  # the third has nothing to mend
    assert grid(DIGITS)[0].warnings == ()


def test_only_what_is_missing_is_run(grid):
    first, started = grid(DIGITS)
    again, nothing = grid(DIGITS)
    assert (len(started), nothing, again.ran) == (2, [], 0)
    assert again.rows == first.rows
    more, added = grid(DIGITS.replace("[32, 64]", "[32, 128, 64]") + "repeats: 2\n")
    assert len(added) == 4
    assert [row.status for row in more.rows] == ["2/2 completed"] * 3
    _, fresh = grid(DIGITS, fresh=True)
    assert len(fresh) == 2
    _, one = grid(DIGITS, where=[("batch_size", "64")], fresh=True)
    assert len(one) == 1


def test_a_second_try_that_is_stopped_hides_no_result(grid, monkeypatch):
    first, _ = grid(DIGITS)
    with monkeypatch.context() as patch:
        patch.setattr(InlineExecutor, "run", run_and_be_stopped)
        stopped, _ = grid(DIGITS, fresh=True)
    assert stopped.exit_status == 130
    assert [row.status for row in stopped.rows] == ["1/1 completed"] * 2
    again, nothing = grid(DIGITS)
    assert (nothing, again.exit_status) == ([], 0)
    assert again.rows == first.rows
    fresh, started = grid(DIGITS, fresh=True)
    assert len(started) == 2
    assert sorted(attempt.attempt for attempt in fresh.latest.values()) == [2, 3], "no number is given twice"


def run_and_be_stopped(self, dispatcher, make_job, sink):
    """Starts the first trial, and then a person has had enough."""
    while (placement := dispatcher.next()).work.check:
        dispatcher.release(placement.work.name, placement.work.attempt)
    work = placement.work
    sink(events.trial_started(work.name, work.attempt, cell=work.trial.cell.content))
    sink(events.trial_ended(work.name, work.attempt, events.KILLED))
    raise KeyboardInterrupt


def test_damage_in_the_journal_is_told_once_and_what_is_whole_counts(grid):
    first, _ = grid(DIGITS)
    text = first.journal.read_bytes()
    lines = text.splitlines(keepends=True)
    middle, end = len(lines) // 2, lines[-1][:40]
    first.journal.write_bytes(b"".join([*lines[:middle], b"\0" * 700 + b"\n", *lines[middle:-1], end]))
    again, started = grid(DIGITS)
    assert started == []
    assert list(again.warnings)[:1] == [f"{first.journal}: left out 2 damaged lines ({middle + 1}, {len(lines) + 1})"]
    assert [row.status for row in again.rows] == ["1/1 completed"] * 2
    quiet, _ = grid(DIGITS)
    assert quiet.warnings == ()


def test_a_journal_that_is_gone_is_made_from_what_each_trial_has_kept(grid):
    first, started = grid(DIGITS)
    first.journal.unlink()
    again, nothing = grid(DIGITS)
    assert (len(started), nothing) == (2, [])
    assert [row.status for row in again.rows] == ["1/1 completed"] * 2


def test_the_page_beside_the_journal_is_of_what_is_there(grid):
    outcome, _ = grid(DIGITS)
    page = outcome.folder / "report.html"
    made = page.read_text()
    page.unlink()
    grid(DIGITS)
    assert page.is_file(), "it was missing"
    page.write_text("mine")
    grid(DIGITS)
    assert page.read_text() == "mine", "it is no older than the journal"
    before = outcome.journal.stat().st_mtime_ns - 1
    os.utime(page, ns=(before, before))
    grid(DIGITS)
    assert page.read_text().count("<tr>") == made.count("<tr>") > 2
    grid(DIGITS, where=[("batch_size", "64")], fresh=True)
    part = page.read_text()
    assert "This is a part of the grid: <code>--where batch_size=64</code> leaves out 1 of its 2 cells." in part
    _, nothing = grid(DIGITS)
    assert nothing == [] and "This is a part" not in page.read_text(), "another selection is another page"


def test_a_page_that_cannot_be_written_is_a_warning(grid):
    outcome, _ = grid(DIGITS)
    page = outcome.folder / "report.html"
    page.unlink()
    page.mkdir()
    again, _ = grid(DIGITS)
    assert again.exit_status == 0
    assert [words for words in again.warnings if words.startswith("no page was written: ")]


def test_the_report_reaches_the_store_and_can_be_read_there(grid):
    from mlflow import MlflowClient

    outcome, _ = grid(DIGITS)
    client = MlflowClient(outcome.store.uri)
    experiment = client.get_experiment_by_name("digits")
    (run,) = client.search_runs([experiment.experiment_id], "attributes.run_name = 'grid digits'")
    there = {file.path for file in client.list_artifacts(run.info.run_id)}
    (execution,) = (outcome.folder / "executions").iterdir()
    kept = {path.name: path.read_bytes() for path in execution.iterdir()}
    assert there == set(kept)
    fetched = {name: Path(client.download_artifacts(run.info.run_id, name)).read_bytes() for name in there}
    assert fetched == kept
    assert fetched["report.html"] == (outcome.folder / "report.html").read_bytes()
    data = json.loads(fetched["report.json"])
    assert data["verdict"] == [plain(each) for paragraph in outcome.report.verdict for each in paragraph]
    figures = [name for name in there if name.startswith("figure_")]
    assert len(figures) >= 4
    for name in figures:
        assert ElementTree.fromstring(fetched[name]).tag.endswith("svg")
        assert fetched[name].decode().split("<svg")[1] in fetched["report.html"].decode()


@pytest.mark.parametrize("artifacts", [True, False])
def test_what_another_machine_ran_into_the_same_store_is_not_run_again(grid, tmp_path, artifacts):
    uri = f"sqlite:///{tmp_path}/shared.db"
    first, _ = grid(DIGITS, tracking_uri=uri)
    (tmp_path / "results").rename(tmp_path / "of the other machine")
    if not artifacts:
        shutil.rmtree(tmp_path / "mlartifacts")
    second, started = grid(DIGITS + "repeats: 2\n", tracking_uri=uri)
    assert len(started) == 2, "the second repeat"
    (note,) = grid.notes
    assert note == f"2 attempts were made elsewhere on {platform.node()}: taken over from {uri}"
    for ours, theirs in zip(second.rows, first.rows, strict=True):
        assert ours.status == "2/2 completed"
        numbers = {attempt.repeat: attempt for attempt in second.latest.values() if attempt.cell_id == ours.cell_id}
        (other,) = (attempt for attempt in first.latest.values() if attempt.cell_id == theirs.cell_id)
        mine = numbers[0]
        assert (rules.steady(mine), mine.epochs[-1].metrics) == (rules.steady(other), other.epochs[-1].metrics)
        assert rules.total(mine) == pytest.approx(rules.total(other), abs=1e-6)
        assert mine.cell == other.cell and mine.label == other.label
    assert dict(Counter(status for _, status in runs_in(second.store))) == {"FINISHED": 6}
    _, nothing = grid(DIGITS + "repeats: 2\n", tracking_uri=uri)
    assert (nothing, grid.notes) == ([], []), "the journal has it now"
    again, one = grid(DIGITS, tracking_uri=uri, fresh=True, where=[("batch_size", "64")])
    assert len(one) == 1
    assert [attempt.attempt for attempt in again.latest.values()] == [2]


def test_a_rule_of_decay_that_is_not_what_it_says(grid, monkeypatch, capsys):
    from raybench.engines.torch import engine

    build = engine.build_optimizer
    with monkeypatch.context() as patch:
        patch.setattr(engine, "build_optimizer", lambda w, settings, decay, *more: build(w, settings, 8 * decay, *more))
        outcome, started = grid(DIGITS)
    words = "weight decay: torch on cpu, sgd: failed: acts as 8 × λ"
    assert outcome.exit_status == 0, "the numbers are what they are"
    assert outcome.warnings == (words,)
    assert len(started) == 2
    for attempt in outcome.latest.values():
        assert (attempt.status, attempt.warnings) == ("completed", [words])
        assert attempt.decay_proof["factor"] == pytest.approx(8.0, rel=1e-3)
    capsys.readouterr()
    again, nothing = grid(DIGITS)
    show(again)
    assert nothing == []
    assert f"warning: {words}" in capsys.readouterr().out, "it stands under the table as long as its runs do"
    mended, _ = grid(DIGITS, fresh=True)
    assert mended.warnings == ()
    assert {attempt.decay_proof["says"] for attempt in mended.latest.values()} == {"passed"}


def test_a_check_that_a_driver_lived_to_write_is_not_made_again(grid):
    first, _ = grid(DIGITS)
    proof, probed, *_ = first.journal.read_text().splitlines(keepends=True)
    first.journal.write_text(proof + probed)
    shutil.rmtree(first.folder / "trials")
    first.store.path.unlink()
    resumed, started = grid(DIGITS)
    assert len(started) == 2
    assert resumed.journal.read_text().count('"check":"canary"') == 2
    assert resumed.journal.read_text().count('"check_ended"') == 4


def test_an_edited_workload_is_another_cell(grid, tmp_path):
    source = TROUBLES.read_text()
    text = "name: mine\nworkload: mine.py:fine\nepochs: 1\nbatch_size: 16\n"
    (tmp_path / "mine.py").write_text(source)
    _, first = grid(text)
    (tmp_path / "mine.py").write_text(source + "\n# another\n")
    _, second = grid(text)
    assert len(first) == len(second) == 1
    assert first != second


def test_ends_and_what_is_tried_again(grid, tmp_path):
    (tmp_path / "mine.py").write_text(TROUBLES.read_text())
    bad = "name: bad\nworkload: mine.py:{}\nepochs: 1\nbatch_size: 16\n"
    failed, _ = grid(bad.format("raising"))
    assert (failed.exit_status, failed.rows[0].status) == (1, "0/1 completed, 1 failed")
    _, again = grid(bad.format("raising"))
    assert again == [], "what failed is not tried again by itself"
    retried, one = grid(bad.format("raising"), retry={"failed"})
    assert len(one) == 1
    assert [attempt.attempt for attempt in retried.latest.values()] == [2]
    diverged, _ = grid(bad.format("infinite"))
    assert (diverged.exit_status, diverged.rows[0].status) == (0, "0/1 completed, 1 diverged")
    greedy, _ = grid(bad.format("greedy"))
    assert (greedy.exit_status, greedy.rows[0].status) == (0, "0/1 completed, 1 oom in train, asked 4.0 EiB")
    statuses = dict(runs_in(greedy.store))
    assert [statuses[f"{name} cpu torch b16 wd0 r0"] for name in ("raising", "infinite", "greedy")] == [
        "FAILED",
        "FINISHED",
        "FINISHED",
    ]


def test_what_cannot_run_here_is_skipped_and_said_so(grid):
    text = DIGITS.replace("[cpu]", "[cpu, tpu]")
    outcome, started = grid(text)
    assert len(started) == 2
    assert outcome.exit_status == 3
    assert [row.status for row in outcome.rows][2:] == ["skipped: no TPU on any node"] * 2
    outcome, _ = grid(text, skip_missing=True)
    assert outcome.exit_status == 0
    skips = [line for line in outcome.journal.read_text().splitlines() if "trial_skipped" in line]
    assert len(skips) == 2, "said once, not at every run"


def test_where_nothing_at_all_can_run_nothing_is_started(grid):
    outcome, started = grid(DIGITS.replace("[cpu]", "[tpu]"))
    assert (outcome.exit_status, started) == (3, [])
    assert not outcome.store.path.exists()


def test_stopping_at_the_target(grid):
    target = "stop_at_target: true\ntarget: {metric: val/accuracy, at_least: 0.5}\n"
    outcome, _ = grid(f"name: t\nworkload: digits_cnn\nepochs: 30\n{target}")
    (attempt,) = outcome.latest.values()
    assert attempt.status == "completed"
    assert len(attempt.epochs) < 30
    assert attempt.epochs[-1].metrics["val/accuracy"] >= 0.5


def test_a_person_stops_it(grid, tmp_path, monkeypatch):
    def stopped(self, dispatcher, make_job, sink):
        raise KeyboardInterrupt

    monkeypatch.setattr(InlineExecutor, "run", stopped)
    outcome, _ = grid(DIGITS)
    assert outcome.exit_status == 130
    assert [row.status for row in outcome.rows] == ["0/1 completed, 1 not run"] * 2


def test_two_grids_do_not_share_a_results_folder(grid, tmp_path):
    with locked(tmp_path / "results"), pytest.raises(ResultsLockedError, match="is running here"):
        grid(DIGITS)


def test_a_store_that_is_no_store(grid):
    with pytest.raises(UsageError, match="no MLflow store"):
        grid(DIGITS, tracking_uri="./mlruns")


def test_a_store_that_does_not_answer_loses_nothing_and_tells_no_secret(grid):
    outcome, started = grid(DIGITS, tracking_uri="http://me:s3cret@127.0.0.1:9")
    assert len(started) == 2
    assert outcome.exit_status == 0
    assert outcome.warnings
    assert "s3cret" not in " ".join(outcome.warnings)
    assert [row.status for row in outcome.rows] == ["1/1 completed"] * 2
