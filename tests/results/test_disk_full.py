"""A disk that is full or read-only: under the results, under a trial's own files, under sqlite."""

import shutil
import sqlite3
import subprocess
from contextlib import contextmanager, suppress
from functools import partial

import pytest
from support.grid_files import events_of
from support.outcomes import RecordingListener
from support.project import run_trials

from raybench.core.files import append_to, write_atomic
from raybench.errors import ResultsError, UsageError
from raybench.results.history import GridHistory
from raybench.tracking.store import resolve
from raybench.tracking.writer import fill

GRID = """
name: full
workload: digits_cnn
epochs: 2
steps_per_epoch: 3
examples: {train: 256, val: 64}
threads: 1
repeats: 3
axes:
  device: [cpu]
  batch_size: [32, 64]
"""


class Disk:
    """A file system in memory, mounted on a folder, which can be filled and made larger."""

    def __init__(self, folder):
        self.folder = folder

    def mount(self, options):
        """Mount it, or mount it anew with other options; return what the system says if it refuses."""
        command = ["mount", "-t", "tmpfs", "-o", options, "raybench-test", self.folder]
        done = subprocess.run(command, capture_output=True, text=True)
        return done.stderr.strip() if done.returncode else ""

    def fill(self, leave):
        """Fill it up to so many bytes (whole pages of 4 KiB); the file that does is removed to make room."""
        filler = self.folder / "filler"
        with filler.open("wb", buffering=0) as file, suppress(OSError):
            while file.write(bytes(4096)):
                pass
        with filler.open("r+b") as file:
            file.truncate(max(0, filler.stat().st_size - leave))
        return filler


@contextmanager
def small_disk(folder, size):
    """A disk of a size such as 256k; skips the test if nothing can be mounted."""
    folder.mkdir(parents=True)
    disk = Disk(folder)
    try:
        refused = disk.mount(f"size={size}")
    except OSError as error:
        refused = str(error)
    if refused:
        pytest.skip(f"a small disk cannot be had: {refused}")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


@pytest.fixture
def disk(tmp_path):
    with small_disk(tmp_path / "disk", "256k") as disk:
        yield disk


class Watched(RecordingListener):
    """Does something as soon as the first trial has ended."""

    def __init__(self, then):
        super().__init__()
        self._then = then

    def event(self, event):
        super().event(event)
        if event["event"] == "trial_ended" and self._then:
            then, self._then = self._then, None
            then()


@pytest.fixture
def grid(tmp_path):
    return partial(run_trials, tmp_path, GRID)


def ended(folder):
    return [event["trial"] for event in events_of(folder) if event.get("status") == "completed"]


def test_file_is_replaced_as_a_whole(disk):
    page, record = disk.folder / "page.html", disk.folder / "events.jsonl"
    write_atomic(page, "before")
    disk.fill(leave=4096)
    with pytest.raises(OSError, match="No space left"):
        write_atomic(page, "after" * 10_000)
    with pytest.raises(OSError, match="No space left"):
        append_to(record, b"x" * 10_000)
    assert page.read_text() == "before" and record.read_bytes() == b""
    assert {path.name for path in disk.folder.iterdir()} == {"page.html", "events.jsonl", "filler"}


@pytest.mark.slow
def test_grid_on_a_full_disk_continues_later(disk, grid, ray_executor):
    fillers = []
    view = Watched(lambda: fillers.append(disk.fill(leave=4096)))
    with pytest.raises(ResultsError) as caught:
        grid(ray_executor, view, results=disk.folder / "results")
    assert caught.value.exit_status == 1
    says = str(caught.value)
    assert "No space left on device" in says
    assert "finished trials are kept" in says and "run the same command again" in says
    folder = disk.folder / "results" / "full"
    kept = ended(folder)
    assert 1 <= len(kept) < 6
    disk.mount("remount,size=20m")
    fillers[0].unlink()
    after = RecordingListener()
    outcome = grid(ray_executor, after, results=disk.folder / "results")
    assert outcome.exit_status == 0
    begun = {event["trial"] for event in after.events if event["event"] == "trial_started"}
    assert begun.isdisjoint(kept), "what had ended is not run again"
    assert sorted(ended(folder)) == sorted({*kept, *begun}) and len(outcome.latest) == 6


@pytest.mark.slow
@pytest.mark.mlflow
@pytest.mark.parametrize("is_new", [False, True])
def test_a_full_disk_under_sqlite_stops_nothing(disk, grid, tmp_path, monkeypatch, migrated_database, is_new):
    monkeypatch.setattr("raybench.tracking.writer.LAST_PAUSE_S", 0.01)
    disk.mount("remount,size=4m")
    path = disk.folder / "runs.db"
    disk.fill(leave=800_000) if is_new else shutil.copy(migrated_database, path)
    uri, view = f"sqlite:///{path}", Watched(lambda: disk.fill(leave=0))
    outcome = grid(view=view, tracking=uri)
    assert outcome.exit_status == 0 and len(ended(outcome.folder)) == 6
    (says,) = outcome.warnings
    assert "not up to date" in says and "raybench export" in says
    assert "its disk is full" in view.warnings[0] and view.warnings[1:] == [says]
    disk.mount("remount,size=20m")
    store = resolve(tmp_path / "results", uri)
    fill(store, outcome.history)
    assert fill(store, GridHistory.read(outcome.folder)) == 0
    with sqlite3.connect(store.path) as database:
        assert database.execute("select status, count(*) from runs group by status").fetchall() == [("FINISHED", 7)]
        points = "select count(*), count(distinct run_uuid || step) from metrics where key = 'time/epoch_s'"
        assert database.execute(points).fetchone() == (12, 12)


WRITES = """
import pathlib
import numpy as np
import torch
from raybench import Data, Split, Workload

def data(root):
    pathlib.Path({path!r}).write_text("cache")
    inputs = np.zeros((64, 1), dtype=np.float32)
    return Data(Split(inputs, np.zeros(64, dtype=int)), Split(inputs, np.zeros(64, dtype=int)))

workload = Workload(model=lambda: torch.nn.Linear(1, 2), data=data)
"""


@pytest.mark.slow
def test_trial_on_a_full_disk_runs_again_later(tmp_path):
    """A disk with room but without inodes."""
    view = RecordingListener()
    text = "name: full\nworkload: own.py:workload\nepochs: 1\nbatch_size: 16\nrepeats: 3\n"
    with small_disk(tmp_path / "disk", "1m,nr_inodes=2") as disk:
        (disk.folder / "filler").touch()
        (tmp_path / "own.py").write_text(WRITES.format(path=str(disk.folder / "cache")))
        with pytest.raises(ResultsError, match=r"No space left on device.*cache.*run the same command again") as caught:
            run_trials(tmp_path, text, view=view)
        assert caught.value.exit_status == 1
        assert [event["status"] for event in view.events if event["event"] == "trial_ended"] == ["lost"]
        (disk.folder / "filler").unlink()
        assert run_trials(tmp_path, text).exit_status == 0


def test_read_only_results_folder_is_refused_at_start(disk, grid):
    disk.mount("remount,ro")
    with pytest.raises(UsageError, match=f"Cannot write to {disk.folder}/results: Read-only") as caught:
        grid(results=disk.folder / "results")
    assert caught.value.exit_status == 2


def test_results_that_are_removed_meanwhile_are_not_complete(grid, tmp_path):
    for damage in (shutil.rmtree, lambda folder: folder.rename(tmp_path / "moved")):
        folder = tmp_path / "results" / "full"
        with pytest.raises(ResultsError, match="removed, moved or replaced while the grid ran"):
            grid(view=Watched(lambda: damage(folder)))  # noqa: B023
    assert len(grid().latest) == 6
