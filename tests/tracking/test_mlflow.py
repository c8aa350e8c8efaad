"""Runs in MLflow: their content, what is written when, and stores that are away."""

import platform
import shutil
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event as Flag
from threading import Thread
from threading import enumerate as enumerate_threads
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from filelock import FileLock
from support.answers import three_axes
from support.processes import eventually

from raybench.core import events
from raybench.core.events import events_file
from raybench.core.ports import free_port
from raybench.errors import UsageError
from raybench.results.executions import Execution
from raybench.results.folder import add_event, attempt_folder
from raybench.results.grid_request import GridRequest, PlannedCell
from raybench.results.history import GridHistory
from raybench.tracking import writer as writing
from raybench.tracking.mapping import Result
from raybench.tracking.mlflow import MlflowClient, Runs
from raybench.tracking.store import StoreError, downloaded, resolve
from raybench.tracking.writer import INCOMPLETE, MlflowWriter, catch_up, fill


class FileWriter(MlflowWriter):
    """A writer that writes each event to its file and the history first, as a grid does."""

    def __init__(self, store, folder, request=GridRequest("it"), **options):  # noqa: B008 — it is immutable
        self.history = GridHistory.read(folder)
        execution = Execution.begin("here", "name: it\n", request.to_json())
        execution.write(folder)
        self.history.executions.append(execution)
        super().__init__(store, self.history, **options)

    def put(self, event):
        run = f"{event['trial']}-{event['attempt']}"
        folder = attempt_folder(self.history.folder, event["trial"], run)
        add_event(folder, event)
        assert events_file(folder).is_file()
        self.history.take(event, run)
        super().put(event)


def write_all(store, folder, *told, request=GridRequest("it")):  # noqa: B008
    """Write events, and close the store."""
    writer = FileWriter(store, folder, request)
    for event in told:
        writer.put(event)
    assert writer.close() == 0


def started(trial):
    cell = {"device": {"kind": "cpu"}, "settings": {"batch_size": 8, "compile": False}}
    return events.trial_started(trial, 1, host={"name": platform.node()}, cell=cell, label=trial, seed=3)


def epoch(trial, number, **fields):
    metrics = {"val/accuracy": number / 10}
    fields = {"epoch": number, "examples": 8, "ledger": {"train": 1.0}, "metrics": metrics} | fields
    return events.epoch_ended(trial, 1, **fields)


def ended(trial, status="completed", **fields):
    return events.trial_ended(trial, 1, status, wall=2.0, template_import=0.5, **fields)


def runs(store, grid):
    """The runs by their names."""
    client = MlflowClient(store.uri)
    experiment = client.get_experiment_by_name(grid)
    found = client.search_runs([experiment.experiment_id]) if experiment else []
    assert len({run.info.run_name for run in found}) == len(found), "no run is doubled"
    return {run.info.run_name: run for run in found}


@pytest.fixture
def grid(tmp_path, request, monkeypatch):
    """The folder of a grid whose name no other test has."""
    monkeypatch.setattr(writing, "LAST_PAUSE_S", 0.01)
    folder = tmp_path / request.node.name.replace("[", "-").replace("]", "")
    folder.mkdir()
    return folder


def points(store, run, name):
    return [(each.step, each.value) for each in MlflowClient(store.uri).get_metric_history(run.info.run_id, name)]


def test_run_has_what_people_look_for(own_store, grid):
    writer = FileWriter(own_store, grid)
    for event in (started("t-r0"), *(epoch("t-r0", n, units={"tokens": 40.0}) for n in (1, 2)), ended("t-r0")):
        writer.put(event)
    answer = three_axes()
    assert writer.close(Result(answer, "**Faster**\n" * 600, "<html>")) == 0 and not (grid / INCOMPLETE).exists()
    run, request = (runs(own_store, grid.name)[name] for name in ("t-r0", f"grid {grid.name}"))
    assert {run.info.status, request.info.status} == {"FINISHED"}
    assert points(own_store, run, "val/accuracy") == [(1, 0.1), (2, 0.2)]
    assert points(own_store, run, "throughput/examples_per_s") == [(1, 8.0), (2, 8.0)]
    assert run.data.metrics == {
        "val/accuracy": 0.2,
        "throughput/examples_per_s": 8.0,
        "throughput/tokens_per_s": 40.0,
        "units/tokens": 40.0,
        "time/epoch_s": 1.0,
        "summary/steady_epoch_s": 1.0,
        "summary/total_s": 2.5,
        "summary/best_val_accuracy": 0.2,
        "summary/examples_per_s": 8.0,
        "summary/tokens_per_s": 40.0,
    }
    assert run.data.params == {"settings.batch_size": "8", "device": "cpu", "repeat": "1", "seed": "3"}
    own_tags = {name: value for name, value in run.data.tags.items() if not name.startswith("mlflow.")}
    assert own_tags.pop("raybench.host") and own_tags == {
        "configuration": "t-r0",
        "raybench.grid": grid.name,
        "raybench.trial": "t-r0",
        "raybench.attempt": "1",
        "raybench.run": "t-r0-1",
        "raybench.status": "completed",
    }
    client = MlflowClient(own_store.uri)
    assert [each.path for each in client.list_artifacts(run.info.run_id)] == ["t-r0-1.jsonl"]
    assert [each.path for each in client.list_artifacts(request.info.run_id)][1:] == ["report.html"]
    note = request.data.tags["mlflow.note.content"]
    assert note.startswith("**Faster**\n") and note.endswith("The rest is in report.html, under Artifacts.")
    compared = next(each for each in answer.configurations if each.ratio)
    name = compared.label.replace(", ", " ")
    assert request.data.metrics[f"speed/{name}"] == compared.ratio.value
    assert request.data.metrics[f"speed/{name} low"] == compared.ratio.low


def test_repeats_share_a_configuration_and_what_varies_is_marked(own_store, grid):
    axes = {"params.x": "relu", "device": "cpu"}
    cells = [PlannedCell(name, {**axes, "batch_size": size}, 2) for name, size in (("a", 8), ("b", 8), ("c", 16))]
    for trial, model in (("a-r0", "N1"), ("a-r1", "N1"), ("b-r0", "N2")):  # a command each
        start = started(trial)
        start["label"], start["cell"]["device"]["model"] = f"cpu, batch 8, repeat {int(trial[-1]) + 1}", model
        write_all(own_store, grid, start, ended(trial), request=GridRequest("it", cells))
    client = MlflowClient(own_store.uri)
    written = client.search_runs([client.get_experiment_by_name(grid.name).experiment_id])
    tagged = [(run.info.run_name, run.data.tags.get("configuration")) for run in written if run.data.params]
    assert sorted(tagged) == [
        ("batch 8, repeat 1", "batch 8"),
        ("batch 8, repeat 1", "batch 8 (N2)"),
        ("batch 8, repeat 2", "batch 8"),
    ]
    marked = [{name for name in run.data.params if name.startswith("axes.")} for run in written if run.data.params]
    assert marked == 3 * [{"axes.batch_size"}]


@pytest.mark.parametrize(
    ("status", "state"),
    {"completed": "FINISHED", "oom": "FINISHED", "failed": "FAILED", "lost": "FAILED", "killed": "KILLED"}.items(),
)
def test_every_end_has_its_status(own_store, grid, status, state):
    end = ended("t-r0", status, error={"type": "E", "message": "m"})
    write_all(own_store, grid, end)  # killed before it started, too
    run = runs(own_store, grid.name)["t-r0"]
    assert (run.info.status, run.data.tags["raybench.error"]) == (state, "E: m")


def test_epochs_appear_while_a_trial_runs(own_store, grid, monkeypatch):
    monkeypatch.setattr(writing, "INTERVAL_S", 0.2)
    writer = FileWriter(own_store, grid)
    assert writer.wait_open()
    writer.put(started("t-r0"))
    writer.put(epoch("t-r0", 1))
    eventually(lambda: any("time/epoch_s" in run.data.metrics for run in runs(own_store, grid.name).values()))
    assert runs(own_store, grid.name)["t-r0"].info.status == "RUNNING"
    writer.put(epoch("t-r0", 2))
    writer.put(ended("t-r0"))
    assert writer.close() == 0
    assert points(own_store, runs(own_store, grid.name)["t-r0"], "time/epoch_s") == [(1, 1.0), (2, 1.0)]


def test_next_command_completes_the_store(own_store, grid):
    write_all(own_store, grid, started("t-r0"), epoch("t-r0", 1))
    assert runs(own_store, grid.name)["t-r0"].info.status == "RUNNING"
    history = GridHistory.read(grid)
    history.close_lost()
    (grid / INCOMPLETE).touch()
    warnings: list[str] = []
    for _ in range(2):
        catch_up(own_store, history, warnings.append)
        run = runs(own_store, grid.name)["t-r0"]
        assert (run.info.status, points(own_store, run, "time/epoch_s")) == ("FAILED", [(1, 1.0)])
    assert warnings == [] and fill(own_store, history) == 0


def test_many_metrics_and_parameters_go_in_batches(own_store, grid):
    start = started("t-r0")
    start["cell"]["params"] = {f"option_{n}": n for n in range(150)}
    many = epoch("t-r0", 1, metrics={f"val/m{n}": 1.0 for n in range(900)})
    write_all(own_store, grid, start, many, ended("t-r0"))
    data = runs(own_store, grid.name)["t-r0"].data
    assert sum(name.startswith("val/") for name in data.metrics) == 900 and len(data.params) > 150


def test_names_that_mlflow_refuses_are_changed(own_store, grid):
    odd = epoch("t-r0", 1, metrics={"val/../é%": 1.0, "val/a:b": 2.0})
    write_all(own_store, grid, started("t-r0"), odd, ended("t-r0"))
    assert {"val/é_", "val/a_b"} <= runs(own_store, grid.name)["t-r0"].data.metrics.keys()


def test_store_gives_back_the_files(own_store, grid):
    both = [event for trial in ("t-r0", "u-r0") for event in (started(trial), ended(trial))]
    write_all(own_store, grid, *both, started("v-r0"))
    with downloaded(own_store, grid.name) as ((folder,), left_out):
        files = sorted(path.relative_to(folder) for path in folder.rglob("*.json*"))
        assert files == sorted(path.relative_to(grid) for path in grid.rglob("*.json*") if path.parent.name != "v-r0")
        assert all((folder / path).read_text() == (grid / path).read_text() for path in files)
        assert left_out == 1, "the run that has not ended"
    with pytest.raises(UsageError, match="no results of a grid nothing"), downloaded(own_store, "nothing"):
        pass


def test_deleted_experiment_is_one_message(own_store, grid):
    Runs(own_store, GridHistory(grid))
    client = MlflowClient(own_store.uri)
    client.delete_experiment(client.get_experiment_by_name(grid.name).experiment_id)
    with pytest.raises(StoreError, match="was deleted in MLflow; restore it with"):
        Runs(own_store, GridHistory(grid))


def test_command_waits_while_another_creates_the_database(tmp_path, migrated_database):
    store = resolve(tmp_path, f"sqlite:///{tmp_path}/mlflow.db")
    with ThreadPoolExecutor() as pool:
        with FileLock(tmp_path / "mlflow.db.lock"):
            opened = pool.submit(Runs, store, GridHistory(tmp_path / "shared"))
            with pytest.raises(TimeoutError):
                opened.result(timeout=1)
            shutil.copy(migrated_database, tmp_path / "mlflow.db")
        opened.result(timeout=60)
    assert [path.name for path in tmp_path.iterdir()] == ["mlflow.db"]


@pytest.mark.parametrize("content", ["text", "other program"])
def test_other_files_stay_unchanged(tmp_path, content):
    import sqlite3

    path = tmp_path / "x.db"
    if content == "text":
        path.write_text("not a database, but long enough to be looked at as one")
    else:
        with sqlite3.connect(path) as database:
            database.execute("CREATE TABLE own (x)")
    before = path.read_bytes()
    with pytest.raises(StoreError), downloaded(resolve(tmp_path, f"sqlite:///{path}")):
        pass
    assert path.read_bytes() == before


@pytest.mark.slow
def test_dead_server_stops_nothing_and_tells_no_secret(tmp_path, grid):
    told: list[str] = []
    store = resolve(tmp_path, "http://bob:s3cret@127.0.0.1:9/?token=hush")
    writer = FileWriter(store, grid, warn=told.append)
    for number in range(50):
        writer.put(ended(f"c-r{number}"))
    assert not writer.wait_open()
    assert writer.close() == 51 and (grid / INCOMPLETE).exists()
    assert len(told) == 2 and "The grid continues" in told[0] and "51 runs are not up to date" in told[1]
    assert not any(secret in line for line in told for secret in ("bob", "s3cret", "hush"))


@pytest.mark.slow
def test_silent_server_delays_are_bounded(tmp_path, grid, monkeypatch):
    monkeypatch.setattr(writing, "PATIENCE_S", 0.02)
    told: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as silent:
        store = resolve(tmp_path, f"http://127.0.0.1:{silent.getsockname()[1]}")
        writer = FileWriter(store, grid, warn=told.append)
        assert not writer.wait_open()
        writer.put(ended("c-r0"))
        began = time.monotonic()
        assert writer.close(timeout=1.0)
        assert time.monotonic() - began < 60
    assert "not up to date" in told[-1]


@pytest.fixture
def slow_server(tmp_path, migrated_database):
    """A real MLflow server; the first request for a run sets `is_here`, waits for `may_go`, and sets `is_done`."""
    database, real, waits = shutil.copy(migrated_database, tmp_path / "runs.db"), free_port(), iter([True])
    is_here, may_go, is_done = Flag(), Flag(), Flag()

    class Proxy(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            is_first_run = self.path.endswith("/runs/create") and next(waits, False)
            if is_first_run:
                is_here.set()
                assert may_go.wait(300)
            request = Request(f"http://127.0.0.1:{real}{self.path}", body, self.headers, method=self.command)
            try:
                with urlopen(request, timeout=60) as answer:
                    status, content = answer.status, answer.read()
            except HTTPError as error:
                status, content = error.code, error.read()
            if is_first_run:
                is_done.set()
            with suppress(OSError):  # its client has given up
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        do_GET = do_PUT = do_POST  # noqa: N815 — names of http.server

        def log_message(self, *_):
            pass

    command = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", f"sqlite:///{database}"]
    command += ["--artifacts-destination", tmp_path / "artifacts", "--workers", "1", "--port", str(real)]
    with (tmp_path / "server.log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as server:
        try:
            eventually(lambda: socket.socket().connect_ex(("127.0.0.1", real)) == 0, 180)
            with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as proxy:
                Thread(target=proxy.serve_forever, args=(0.01,), daemon=True).start()
                yield resolve(tmp_path, f"http://127.0.0.1:{proxy.server_port}"), is_here, may_go, is_done
                proxy.shutdown()
        finally:
            server.terminate()


@pytest.mark.slow
def test_request_that_was_given_up_and_is_carried_out_later_doubles_no_run(slow_server, grid, monkeypatch):
    store, is_here, may_go, is_done = slow_server
    monkeypatch.setattr(writing, "INTERVAL_S", 0.05)
    writer = FileWriter(store, grid, warn=(told := []).append)
    assert writer.wait_open()
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "2")
    writer.put(ended("c-r0"))
    assert is_here.wait(60)
    assert writer.close(timeout=0.1) and "not up to date" in told[-1]
    eventually(lambda: "raybench-mlflow" not in [thread.name for thread in enumerate_threads()])
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "60")

    class History(GridHistory):
        def snapshot(self, key):  # after the runs were listed, and before one is created
            may_go.set()
            assert is_done.wait(60)
            return super().snapshot(key)

    assert fill(store, History.read(grid)) == 1
    assert {run.info.status for run in runs(store, grid.name).values()} == {"FINISHED"}


def test_store_that_comes_back_gets_everything(tmp_path, grid, migrated_database):
    told: list[str] = []
    (tmp_path / "blocked").write_text("a file where the store's folder is to be")
    store = resolve(tmp_path, f"sqlite:///{tmp_path}/blocked/mlflow.db")
    writer = FileWriter(store, grid, warn=told.append)
    writer.put(ended("c-r0"))
    assert not writer.wait_open()
    (tmp_path / "blocked").unlink()
    (tmp_path / "blocked").mkdir()
    shutil.copy(migrated_database, tmp_path / "blocked" / "mlflow.db")
    assert writer.close() == 0
    assert runs(store, grid.name)["c-r0"].info.status == "FINISHED"
    assert told == [], "one failure is not worth a message"


def test_broken_installation_of_mlflow_stops_nothing(own_store, grid, monkeypatch):
    monkeypatch.setitem(sys.modules, "raybench.tracking.mlflow", None)
    told: list[str] = []
    writer = FileWriter(own_store, grid, warn=told.append)
    assert not writer.wait_open()
    writer.put(ended("c-r0"))
    assert writer.close() == 2
    assert "The grid continues" in told[0] and "raybench export" in told[-1]
