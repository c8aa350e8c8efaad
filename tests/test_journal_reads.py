"""How often a command reads a journal, takes an event into an attempt, and makes a report: once."""

import json
import shutil
import sys
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec import to_builtins

import raybench
from raybench.cli import group
from raybench.cli.live import Display
from raybench.config import load_grid
from raybench.execution.inline import InlineExecutor
from raybench.reporting import build
from raybench.results.attempt import Attempt
from raybench.results.journal import JOURNAL
from raybench.run import Options, run_grid

GRID = """
name: digits
workload: digits_cnn
epochs: 2
steps_per_epoch: 3
examples: {train: 256, val: 64}
threads: 1
axes: {device: [cpu], batch_size: [32, 64]}
"""

PACKAGE = str(Path(raybench.__file__).parent)


class Counts:
    """What was done while a block ran.

    Attributes:
        reads: from a module of raybench to how often it opened a journal to read it.
        folds: from an event to how often it was taken into an attempt.
        reports: how often a report was made.
        files: from the name of an execution's file to how often it was opened to be read.
    """

    def __init__(self):
        self.reads, self.folds, self.reports, self.files = Counter(), Counter(), 0, Counter()

    def opened(self, path, mode):
        if isinstance(mode, str) and mode.startswith("r") and isinstance(path, (str, Path)):
            if str(path).endswith(JOURNAL):
                self.reads[_caller()] += 1
            elif "executions" in Path(path).parts:
                self.files[Path(path).name] += 1


def _caller():
    """The module of raybench that the code which is running belongs to."""
    frame = sys._getframe()
    while frame and not frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    return Path(frame.f_code.co_filename).relative_to(PACKAGE).as_posix() if frame else ""


active: list[Counts] = []


def _audit(name, args):
    if active and name == "open":
        active[-1].opened(*args[:2])


@pytest.fixture(scope="module", autouse=True)
def hook():
    """An audit hook sees every file that is opened, and cannot be taken away."""
    sys.addaudithook(_audit)


def identity(event):
    return tuple(event.get(name) for name in ("event", "trial", "attempt", "epoch", "t"))


@contextmanager
def counting():
    """Counts while the block runs."""
    counts, make_report = Counts(), build.make_report
    take, take_epoch = Attempt.take, Attempt.take_epoch

    def counted_take(attempt, event):
        counts.folds[identity(event)] += 1
        return take(attempt, event)

    def counted_take_epoch(attempt, line):
        counts.folds[identity(to_builtins(line))] += 1
        return take_epoch(attempt, line)

    def counted_report(*args):
        counts.reports += 1
        return make_report(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Attempt, "take", counted_take)
        patch.setattr(Attempt, "take_epoch", counted_take_epoch)
        patch.setattr(build, "make_report", counted_report)
        active.append(counts)
        try:
            yield counts
        finally:
            active.clear()


def check(counts, journal, reads=1, reports=1):
    """Fails unless every event of a trial in the journal was taken once, and nothing else."""
    assert counts.reads.pop("results/journal.py", 0) == reads
    assert counts.reads.keys() <= {"tracking/journal_parts.py"}, "which copies bytes"
    events = [event for event in map(json.loads, journal.read_text().splitlines()) if "attempt" in event]
    in_trials = [event for event in events if event["event"] != "check_ended"]
    assert len(in_trials) >= 8
    assert counts.folds == Counter(map(identity, in_trials))
    assert set(counts.folds.values()) == {1}
    assert counts.reports == reports


@pytest.fixture(scope="module")
def grid(migrated_database):
    """Runs the grid in a folder with all that belongs to it: checks, MLflow, a report, the command line's display."""

    def run(folder, **options):
        path, results = folder / "grid.yaml", folder / "raybench-results"
        if not results.exists():
            path.write_text(GRID)
            results.mkdir()
            shutil.copy(migrated_database, results / "mlflow.db")
        with counting() as counts:
            outcome = run_grid(load_grid(path), InlineExecutor(), Display(), Options(results, **options))
        assert outcome.exit_status == 0 and outcome.warnings == ()
        return outcome, counts

    return run


@pytest.fixture(scope="module")
def first(tmp_path_factory, grid):
    """The outcome of a grid's first execution, and what was counted. It is only read."""
    return grid(tmp_path_factory.mktemp("first"))


def command(*arguments):
    status = group.main(list(map(str, arguments)), standalone_mode=False)
    assert not status


def test_a_new_grid_never_reads_its_journal(first):
    outcome, counts = first
    check(counts, outcome.journal, reads=0)
    assert not counts.files


def test_a_grid_that_goes_on_reads_its_journal_once(grid, tmp_path):
    outcome, _ = grid(tmp_path)
    _, counts = grid(tmp_path)
    check(counts, outcome.journal)
    assert counts.files.keys() == {"plan.json", "grid.yaml"}
    (outcome.folder / build.HTML).unlink()
    _, counts = grid(tmp_path)
    check(counts, outcome.journal)
    # The driver was killed before it had written the end of the last trial.
    lines = outcome.journal.read_bytes().splitlines(keepends=True)
    end = max(number for number, line in enumerate(lines) if b'"event":"trial_ended"' in line)
    outcome.journal.write_bytes(b"".join(lines[:end]))
    _, counts = grid(tmp_path)
    check(counts, outcome.journal)
    assert outcome.journal.read_bytes().splitlines(keepends=True)[end] == lines[end]
    again, counts = grid(tmp_path, rerun=True)
    assert again.ran == 2
    check(counts, outcome.journal)
    plans = list(outcome.folder.glob("executions/*/plan.json"))
    assert len(plans) > 1 and len({plan.stat().st_ino for plan in plans}) == 1, "a large one takes its space once"


def test_a_report_reads_the_journal_once_and_three_files_of_the_last_execution(first, tmp_path):
    outcome, _ = first
    with counting() as counts:
        command("report", outcome.folder, "--html", tmp_path / "page.html", "--json", tmp_path / "report.json")
    check(counts, outcome.journal)
    assert counts.files == {"plan.json": 1, "grid.yaml": 1, "grid.json": 1}


def test_loading_reads_the_journal_once(first):
    outcome, _ = first
    with counting() as counts:
        assert len(raybench.load(outcome.folder).trials) == 2
    check(counts, outcome.journal, reports=0)
    assert counts.files == {"plan.json": 1, "grid.yaml": 1, "grid.json": 1}


def test_sync_and_plan_read_the_journal_once(first):
    outcome, _ = first
    with counting() as counts:
        command("sync", "--results", outcome.folder.parent)
    check(counts, outcome.journal, reports=0)
    assert not counts.files, "MLflow has what the execution left"
    with counting() as counts:
        command("plan", outcome.folder.parent.parent / "grid.yaml", "--results", outcome.folder.parent)
    check(counts, outcome.journal, reports=0)
