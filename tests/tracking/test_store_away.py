"""A real MLflow server that is away, comes back, is slow, refuses and loses its answers: no point lost, none twice."""

import itertools
import random
import shlex
import shutil
import threading
import time

import pytest
from support.servers import Server, proxy
from support.tracked import OwnHistoryWriter, ended, epoch, exactly_once, started

from raybench.config import load_grid
from raybench.execution.inline import InlineExecutor
from raybench.execution.progress import RecordingListener
from raybench.results import executions
from raybench.results.executions import Summary
from raybench.results.history import GridHistory
from raybench.results.journal import JOURNAL, Journal
from raybench.run import Options, run_grid
from raybench.tracking import writer as writing
from raybench.tracking.mlflow import MlflowClient
from raybench.tracking.store import UNAUTHORIZED, StoreError, resolve
from raybench.tracking.sync import sync

pytestmark = [pytest.mark.slow, pytest.mark.mlflow]

GRID = """
name: {name}
workload: digits_cnn
epochs: 2
steps_per_epoch: 3
examples: {{train: 256, val: 64}}
threads: 1
repeats: 3
axes:
  device: [cpu]
  batch_size: [32, 64]
"""


@pytest.fixture
def before(server, tmp_path, monkeypatch):
    """A proxy before the server, and the store that it is."""
    # The second failure in a row is followed by the first try that counts: a test has no seconds for pauses.
    monkeypatch.setattr(writing, "PAUSE", 1.01)
    with proxy(server.uri) as between:
        yield between, resolve(tmp_path, between.url)


def drive(folder, store, grid, trials, epochs=3, between=lambda: None, timeout=60.0):
    """Write a small grid's events to its journal and to the store, and close; what the writer said, and left."""
    told = []
    writer = OwnHistoryWriter(store, grid, folder, f"of {grid}", interval=0.05, warn=told.append)
    with Journal(folder / JOURNAL) as journal:

        def sink(event):
            journal.append(event)
            writer.put(event)

        for trial in trials:
            sink(started(trial))
            for number in range(1, epochs + 1):
                sink(epoch(trial, number))
                between()
            sink(ended(trial))
        summary = Summary(f"of {grid}", {}, {"completed": len(trials)})
        executions.write_execution(journal, summary)
        writer.put_summary(summary)
    return told, writer.close(timeout)


def names(count):
    return [f"c{number}-r0" for number in range(count)]


def test_a_server_that_fails_at_random_gets_everything_once(before, server, tmp_path, monkeypatch):
    between, store = before
    monkeypatch.setattr(writing, "LAST_TRIES", 20)
    grid = "random"
    draw = random.Random(2)
    between.mode = lambda request: draw.choices(["pass", "refuse", "swallow", "error"], [6, 1, 2, 1])[0]
    drive(tmp_path, store, grid, names(4), between=lambda: time.sleep(0.1))
    assert len(between.asked) > 10, "it was tried"
    between.mode = "pass"
    sync(GridHistory.read(tmp_path / JOURNAL), store, grid)
    exactly_once(server, grid, names(4), 3)
    assert str(sync(GridHistory.read(tmp_path / JOURNAL), store, grid)).startswith(
        "0 runs created, 0 updated, 4 unchanged"
    )


def test_a_run_whose_making_was_not_heard_of_is_not_made_again(before, server, tmp_path):
    between, store = before
    turns = itertools.cycle(["swallow", "pass"])
    between.mode = lambda request: next(turns) if request.endswith("/runs/create") else "pass"
    _, left = drive(tmp_path, store, "unheard", names(3))
    assert left == 0
    exactly_once(server, "unheard", names(3), 3)
    created = [request for request in between.asked if request.endswith("/runs/create")]
    assert len(created) == 4, "three trials and the grid"


def test_duplicate_runs_from_requests_that_mlflow_repeats_are_deleted(before, server, tmp_path, monkeypatch):
    """If the user lets MLflow repeat requests, it also repeats those that create a run."""
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR", "0")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_BACKOFF_JITTER", "0")
    between, store = before
    lost = iter(["swallow", "pass", "swallow"])
    between.mode = lambda request: next(lost, "pass") if request.endswith("/runs/create") else "pass"
    client = MlflowClient(server.uri)
    _, left = drive(tmp_path, store, "doubled", names(1))
    experiment = client.get_experiment_by_name("doubled").experiment_id
    assert left == 0 and len(client.search_runs([experiment])) == 3, "the trial has two"
    sync(GridHistory.read(tmp_path / JOURNAL), store, "doubled")
    exactly_once(server, "doubled", names(1), 3)


@pytest.mark.exhaustive
def test_a_slow_server_holds_up_neither_a_trial_nor_the_end(before, server, tmp_path, monkeypatch):
    between, store = before
    between.mode, between.delay = "slow", 0.7
    began = time.monotonic()
    told, left = drive(tmp_path, store, "slow", names(30), timeout=3.0)
    assert time.monotonic() - began < 30, "60 requests and more of 0.7 s each were not waited for"
    assert 1 <= left <= 31
    says = told[-1]
    command = f"raybench sync --results {shlex.quote(str(tmp_path.parent))} --tracking-uri {between.url} slow"
    runs = "1 run is" if left == 1 else f"{left} runs are"
    assert says == f"{runs} not up to date in {between.url}; run `{command}`"
    between.mode = "pass"
    # In a command the process ends here; in this one its last call does.
    for thread in threading.enumerate():
        if thread.name == "raybench-mlflow":
            thread.join(60)
    sync(GridHistory.read(tmp_path / JOURNAL), store, "slow")
    exactly_once(server, "slow", names(30), 3)


def test_a_server_that_refuses_the_password_is_named_and_stops_nothing(before, tmp_path):
    between, store = before
    between.mode = "unauthorized"
    told, left = drive(tmp_path, store, "refused", names(2))
    refused = f"MLflow store {between.url}: {UNAUTHORIZED}"
    assert left == 3, "two trials and the grid"
    assert [line for line in told if "(401)" in line] == [f"{refused}. The grid continues; the journal is complete."]
    with pytest.raises(StoreError) as caught:
        sync(GridHistory.read(tmp_path / JOURNAL), store, "refused")
    assert str(caught.value) == refused


class Watched(RecordingListener):
    """Does something when so many trials have ended."""

    def __init__(self, **then):
        super().__init__()
        self._then, self._ended = {int(name[2:]): do for name, do in then.items()}, 0

    def event(self, event):
        super().event(event)
        if event["event"] == "trial_ended":
            self._ended += 1
            self._then.get(self._ended, lambda: None)()


def test_a_server_that_is_stopped_for_a_whole_grid_and_in_the_middle_of_one(tmp_path, migrated_database, monkeypatch):
    shutil.copy(migrated_database, tmp_path / "mlflow.db")
    server = Server(tmp_path)
    monkeypatch.setattr(writing, "BREATH", 0.0)

    def run(name, view):
        file = tmp_path / f"{name}.yaml"
        file.write_text(GRID.format(name=name))
        options = Options(tmp_path / "results", tracking=server.url, checks=False, report=False)
        return run_grid(load_grid(file), InlineExecutor(), view, options)

    def check(outcome, name):
        for _ in range(2):
            report = sync(GridHistory.read(outcome.journal), store, name)
        assert (report.created, report.updated, report.unchanged) == (0, 0, 6)
        labels = [attempt.label for attempt in outcome.latest.values()]
        exactly_once(store, name, labels, 2)

    try:
        away = run("away", watched := RecordingListener())
        assert away.exit_status == 0 and len(away.latest) == 6
        (says,) = watched.warnings
        assert says.startswith(f"MLflow store {server.url}: ") and says.endswith("the journal is complete.")
        command = f"raybench sync --results {tmp_path}/results --tracking-uri {server.url} away"
        assert away.warnings == (f"7 runs are not up to date in {server.url}; run `{command}`",)
        server.start()
        store = resolve(tmp_path, server.url)
        check(away, "away")
        starting = threading.Thread(target=server.start)
        middle = run("middle", Watched(at1=server.stop, at4=starting.start))
        starting.join()
        assert middle.exit_status == 0 and len(middle.latest) == 6
        check(middle, "middle")
    finally:
        server.stop()
