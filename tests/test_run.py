"""A grid from its file to its comparison, in this process: what is run, what is not run again, how it ends."""

import os
import shutil
import sqlite3
from collections import Counter
from dataclasses import replace
from functools import partial

import pytest
from pandas.testing import assert_frame_equal
from support import WORKLOADS
from support.grid_files import events_of
from support.outcomes import RecordingListener
from support.project import run_trials

import raybench
from raybench.checks import pretrial
from raybench.core import events
from raybench.core.options import GridOptions
from raybench.core.status import TrialStatus
from raybench.errors import ResultsLockedError
from raybench.execution.inline import InlineExecutor
from raybench.monitoring.host import HostLoad
from raybench.reporting.build import from_grid, one_grid
from raybench.results.lock import locked
from raybench.run import run_grid

BAD_ENDINGS = (WORKLOADS / "bad_endings.py").read_text()
pytestmark = pytest.mark.usefixtures("small_probes")

DIGITS = """
name: digits
workload: digits_cnn
epochs: 1
steps_per_epoch: 3
examples: {train: 256, val: 64}
threads: 1
axes:
  device: [cpu]
  batch_size: [32, 64]
"""


def run(folder, text, **options):
    """Run a grid text in a folder; return the outcome and the trials that were started."""
    view = RecordingListener()
    outcome = run_trials(folder, text, view=view, **options)
    return outcome, [event["trial"] for event in view.events if event["event"] == "trial_started"]


@pytest.fixture
def grid(tmp_path, monkeypatch):
    """Runs a grid text in a folder of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # with no checks of earlier tests
    return partial(run, tmp_path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory, migrated_database, small_probes):
    """A grid with all that belongs to one: checks, MLflow, a report. It is only read."""
    folder = tmp_path_factory.mktemp("whole")
    pretrial._cache_file().unlink(missing_ok=True)
    (folder / "results").mkdir()
    shutil.copy(migrated_database, folder / "results" / "mlflow.db")
    return run(folder, DIGITS, checks=True, tracking="", report=True)


def runs_in(store):
    with sqlite3.connect(store.path) as database:
        return database.execute("select name, status from runs order by name").fetchall()


def statuses(outcome):
    return [attempt.status for attempt in outcome.latest.values()]


def told_in(outcome):
    return events_of(outcome.folder)


def test_grid_leaves_files_runs_and_rows(whole):
    outcome, started = whole
    assert outcome.exit_status == 0
    assert statuses(outcome) == ["completed"] * 2
    assert all(run.steady_s > 0 and 0 <= run.last_metrics["val/accuracy"] <= 1 for run in outcome.latest.values())
    told = told_in(outcome)
    (execution,) = outcome.history.executions
    assert execution.grid.startswith("\nname: digits") and len(execution.request["cells"]) == 2
    assert (outcome.folder / "report.html").read_text().startswith("<!DOCTYPE html>")
    proof, probed = told.pop(0), told.pop(0)
    assert (proof["event"], proof["check"], proof["passed"]) == ("check_ended", "weight_decay", True)
    assert (probed["event"], probed["check"], probed["error"]) == ("check_ended", "roofline", None)
    assert [event["event"] for event in told] == ["trial_started", "epoch_ended", "trial_ended"] * 2
    files = list((outcome.folder / "attempts").glob("*/*.jsonl"))
    assert sorted(file.parent.name for file in files) == sorted(started)
    assert [status for _, status in runs_in(outcome.store)] == ["FINISHED"] * 3
    assert {name for name, _ in runs_in(outcome.store)} == {
        "batch 32, repeat 1",
        "batch 64, repeat 1",
        "grid digits",
    }


def test_store_gives_the_same_tables_as_files(whole):
    outcome, _ = whole
    stored, kept = raybench.load(outcome.store.uri), raybench.load(outcome.folder.parent)
    assert_frame_equal(stored.trials, kept.trials)
    assert_frame_equal(stored.epochs, kept.epochs)
    reports = [from_grid(one_grid([source], outcome.folder.parent)) for source in (outcome.store.uri, "digits")]
    status = replace(reports[1].answer.status, is_own=False)
    assert reports[0].answer == replace(reports[1].answer, status=status), "no command adds runs to a store"


def test_only_what_is_missing_is_run(grid):
    first, started = grid(DIGITS)
    again, nothing = grid(DIGITS)
    assert (len(started), nothing, again.ran) == (2, [], 0)
    assert again.latest == first.latest
    more, added = grid(DIGITS.replace("[32, 64]", "[32, 128, 64]") + "repeats: 2\n")
    assert len(added) == 4
    assert statuses(more) == ["completed"] * 6
    _, fresh = grid(DIGITS, rerun=True)
    assert len(fresh) == 2
    _, one = grid(DIGITS, where=["batch_size=64"], rerun=True)
    assert len(one) == 1


def test_stopped_rerun_hides_no_result(grid, monkeypatch):
    first, _ = grid(DIGITS)
    with monkeypatch.context() as patch:
        patch.setattr(InlineExecutor, "run", run_and_be_stopped)
        stopped, _ = grid(DIGITS, rerun=True)
    assert stopped.exit_status == 130
    assert statuses(stopped) == ["completed"] * 2
    again, nothing = grid(DIGITS)
    assert (nothing, again.exit_status) == ([], 0)
    assert again.latest == first.latest
    fresh, started = grid(DIGITS, rerun=True)
    assert len(started) == 2
    assert sorted(attempt.attempt for attempt in fresh.latest.values()) == [2, 3], "no number is given twice"


@pytest.mark.parametrize("comes", [False, True])
def test_devices_whose_node_never_comes_are_skipped(grid, monkeypatch, comes):
    def run(self, schedule, *arguments):
        while not schedule.finished:
            whole(self, schedule, *arguments)
            for device in [*schedule.wanted]:
                nodes = [replace(node, name="further", resources={"big": 1.0}) for node in self.nodes() if comes]
                schedule.arrive(device, nodes)

    whole = InlineExecutor.run
    monkeypatch.setattr(InlineExecutor, "run", run)
    monkeypatch.setattr(InlineExecutor, "starts_nodes", lambda self: True)
    text = DIGITS + "devices: {big: {kind: cpu, resources: {big: 1}}}\n"
    outcome, started = grid(text.replace("device: [cpu]", "device: [cpu, big]"))
    assert len(started) == (4 if comes else 2) and statuses(outcome) == ["completed"] * len(started)
    assert ("big: 2 configurations skipped: no node came within 30 min" in outcome.warnings) != comes


def run_and_be_stopped(self, schedule, make_job, sink, tell):
    """Starts the first trial, and then a person has had enough."""
    work = schedule.next().work
    key = work.trial.trial_id, work.attempt
    sink(events.trial_started(*key, cell=work.trial.cell.content.to_json()))
    sink(events.trial_ended(*key, TrialStatus.KILLED))
    raise KeyboardInterrupt


@pytest.mark.slow
def test_page_is_of_what_is_there(grid):
    grid = partial(grid, report=True)
    outcome, _ = grid(DIGITS)
    page = outcome.folder / "report.html"
    made = page.read_text()
    page.unlink()
    grid(DIGITS)
    assert page.is_file(), "it was missing"
    page.write_text("mine")
    grid(DIGITS)
    assert page.read_text() == "mine", "it is no older than the attempts"
    os.utime(page, ns=(0, 0))
    grid(DIGITS)
    assert page.read_text().count("<tr>") == made.count("<tr>") == 2
    grid(DIGITS, where=["batch_size=64"], rerun=True)
    part = page.read_text()
    assert "Part of the grid: " in part
    _, nothing = grid(DIGITS)
    assert nothing == [] and "Part of the grid" not in page.read_text(), "another selection is another page"


def test_unwritable_page_is_a_warning(grid):
    outcome, _ = grid(DIGITS)
    (outcome.folder / "report.html").mkdir()
    again, _ = grid(DIGITS, rerun=True, report=True)
    assert again.exit_status == 0
    assert [words for words in again.warnings if words.startswith("The report could not be made: ")]


@pytest.mark.slow
@pytest.mark.mlflow
def test_second_results_folder_on_one_store(grid, tmp_path, migrated_database):
    uri = f"sqlite:///{shutil.copy(migrated_database, tmp_path / 'shared.db')}"
    grid(DIGITS, tracking=uri)
    (tmp_path / "results").rename(tmp_path / "results of another machine")
    second, started = grid(DIGITS, tracking=uri)
    assert len(started) == 2
    assert [attempt.attempt for attempt in second.latest.values()] == [1, 1]
    assert Counter(status for _, status in runs_in(second.store)) == {"FINISHED": 6}


@pytest.mark.slow
def test_wrong_weight_decay_is_reported(grid, monkeypatch):
    from raybench.engines.torch import engine

    grid = partial(grid, checks=True)
    build = engine.build_optimizer
    with monkeypatch.context() as patch:
        patch.setattr(engine, "build_optimizer", lambda w, settings, decay, *more: build(w, settings, 8 * decay, *more))
        outcome, started = grid(DIGITS)
    words = "failed: acts as 8 × λ"
    assert outcome.exit_status == 0, "the numbers are what they are"
    assert len(started) == 2
    for attempt in outcome.latest.values():
        assert (attempt.status, attempt.warnings) == ("completed", [])
        assert attempt.decay_check["factor"] == pytest.approx(8.0, rel=1e-3)
    again, nothing = grid(DIGITS)
    assert nothing == [] and words in str(again.report.answer.trust), "it is reported as long as its runs are"
    mended, _ = grid(DIGITS, rerun=True)
    assert {attempt.decay_check["says"] for attempt in mended.latest.values()} == {"passed"}


@pytest.mark.slow
def test_recorded_check_is_not_made_again(grid):
    grid = partial(grid, checks=True)
    first, _ = grid(DIGITS)
    shutil.rmtree(first.folder / "attempts")
    _, started = grid(DIGITS)
    assert len(started) == 2 and len(list(first.folder.glob("checks/*/*.jsonl"))) == 2
    other, _ = grid(DIGITS.replace("name: digits", "name: other"))
    assert [file.parent.name[:8] for file in other.folder.glob("checks/*/*.jsonl")] == ["roofline"], "decay is cached"


@pytest.mark.slow
def test_ends_and_what_is_tried_again(grid, tmp_path):
    (tmp_path / "mine.py").write_text(BAD_ENDINGS)
    bad = "name: bad\nworkload: mine.py:{}\nepochs: 1\n"
    failed, _ = grid(bad.format("raising"))
    assert (failed.exit_status, statuses(failed)) == (1, ["failed"])
    _, again = grid(bad.format("raising"))
    assert again == [], "what failed is not tried again by itself"
    retried, one = grid(bad.format("raising"), retry={"failed"})
    assert len(one) == 1
    assert [attempt.attempt for attempt in retried.latest.values()] == [2]
    diverged, _ = grid(bad.format("infinite"))
    assert (diverged.exit_status, statuses(diverged)) == (0, ["diverged"])
    greedy, _ = grid(bad.format("greedy"))
    assert greedy.exit_status == 0
    assert statuses(greedy) == ["oom"]


def test_stopping_at_the_target(grid):
    target = "stop_at_target: true\ntarget: {metric: val/accuracy, at_least: 0.5}\n"
    outcome, _ = grid(f"name: t\nworkload: digits_cnn\nepochs: 30\nthreads: 1\n{target}")
    (attempt,) = outcome.latest.values()
    assert attempt.status == "completed"
    assert len(attempt.epochs) < 30
    assert attempt.epochs[-1].metrics["val/accuracy"] >= 0.5


def test_a_budget_of_time(grid):
    text = "name: b\nworkload: digits_cnn\nepochs: 500\nthreads: 1\nexamples: {train: 640}\n"
    outcome, _ = grid(text + "budget: {time: 1s}\n")
    for attempt in outcome.latest.values():
        assert attempt.status == "completed"
        assert attempt.epochs_s >= 1
        assert len(attempt.epochs) < 500
        assert "val/loss" in attempt.epochs[-1].metrics


class BeforeTrials(RecordingListener):
    """Keeps the warnings that came before the first event of a trial."""

    def __init__(self):
        super().__init__()
        self.early = []

    def event(self, event):
        if not self.events:
            self.early = list(self.warnings)
        super().event(event)


def run_on_a_host(tmp_path, monkeypatch, busy):
    monkeypatch.setattr(InlineExecutor, "host_load", lambda self: HostLoad(busy, 2))
    view = BeforeTrials()
    return run_trials(tmp_path, DIGITS, view=view), view


def test_busy_machine_is_a_warning_before_trials(tmp_path, monkeypatch):
    outcome, view = run_on_a_host(tmp_path, monkeypatch, busy=1.9)
    (words,) = view.early
    assert "Other programs used 1.9 of 2 cores" in words and "\n" not in words
    assert "stop them" in words
    assert run_grid(outcome.plan.spec, InlineExecutor(), view, GridOptions(results=tmp_path / "results")).warnings == ()


def test_a_quiet_machine_is_no_warning(tmp_path, monkeypatch):
    outcome, view = run_on_a_host(tmp_path, monkeypatch, busy=0.04)
    assert (view.warnings, outcome.warnings) == ([], ())


def test_two_grids_do_not_share_a_results_folder(grid, tmp_path):
    with locked(tmp_path / "results"), pytest.raises(ResultsLockedError, match="has been running here"):
        grid(DIGITS)


def test_smaller_request_is_recorded_once(grid):
    one = DIGITS.replace("[32, 64]", "[32]")
    grid(one + "repeats: 2\n")
    for _ in range(2):
        outcome, started = grid(one)
        assert started == []
        assert len(list(outcome.folder.glob("executions/*.json"))) == 2, "the same again leaves nothing behind"


def test_changed_warmup_recounts_epochs_of_the_same_runs(grid):
    text = DIGITS.replace("[32, 64]", "[32]").replace("epochs: 1", "epochs: 3")
    before, started = grid(text)
    assert len(started) == 1
    after, started = grid(text + "warmup_epochs: 2\n")
    assert started == [], "nothing has to be trained again"
    (run,) = after.latest.values()
    steady = [epoch.ledger["train"] + epoch.ledger["input_wait"] for epoch in run.epochs]
    assert next(iter(before.latest.values())).steady_s == pytest.approx(sum(steady[1:]) / 2)
    assert run.steady_s == pytest.approx(steady[2])
