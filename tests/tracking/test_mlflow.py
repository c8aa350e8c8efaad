"""The projection on a real sqlite store and on a real server."""

import json
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
import sqlalchemy
from filelock import FileLock
from support.servers import proxy

from raybench.core import events
from raybench.core.status import TrialStatus
from raybench.results import executions
from raybench.results.attempt import attempts
from raybench.results.executions import PLAN, Summary
from raybench.results.history import GridHistory
from raybench.results.journal import JOURNAL, Journal, read
from raybench.tracking import mapping
from raybench.tracking import mlflow as tracking
from raybench.tracking.mapping import milliseconds
from raybench.tracking.mlflow import Listing, MlflowClient, Runs
from raybench.tracking.store import StoreError, resolve
from raybench.tracking.sync import sync

TRIAL = "e5728b716bd9-r0"
TIMES = {1: 1795251605450, 2: 1795251609780}


@pytest.fixture
def journal(tmp_path, golden_journal):
    """The golden journal, with the trial's files beside it."""
    folder = tmp_path / "trials" / TRIAL / "attempt-1"
    folder.mkdir(parents=True)
    (folder / "events.jsonl").write_bytes(golden_journal.read_bytes())
    (folder / "output.log").write_text("epoch 1\nepoch 2\n")
    path = tmp_path / "journal.jsonl"
    path.write_bytes(golden_journal.read_bytes())
    return path


def all_runs(store, grid):
    client = MlflowClient(store.uri)
    return client, client.search_runs([client.get_experiment_by_name(grid).experiment_id])


def only_run(store, grid, name=mapping.ATTEMPT_ID):
    """The only run of a trial or, by another tag, of a grid."""
    client, found = all_runs(store, grid)
    (run,) = [run for run in found if name in run.data.tags]
    return client, run


def everything(store, grid):
    """All that MLflow has of a grid, as plain values."""
    client, runs = all_runs(store, grid)
    points = {
        (run.info.run_id, name): [
            (m.step, m.value, m.timestamp) for m in client.get_metric_history(run.info.run_id, name)
        ]
        for run in runs
        for name in run.data.metrics
    }
    return {run.info.run_id: run.to_dictionary() for run in runs}, points


def test_the_contract_s_journal_becomes_the_contract_s_run(store, journal, golden_events):
    grid = "golden"
    assert str(sync(GridHistory.read(journal), store, grid)).startswith("1 run created")
    client, run = only_run(store, grid)
    assert run.info.run_name == "katnoria_cnn cpu torch b256 wd5e-4 r0"
    assert (run.info.status, run.info.start_time, run.info.end_time) == ("FINISHED", 1795251600000, 1795251609800)
    assert run.data.params == {
        "data.digest": "sha256:5d3f0a1c",
        "data.examples.train": "40000",
        "data.examples.val": "10000",
        "data.name": "cifar10",
        "device.count": "2",
        "device.kind": "cpu",
        "device.model": "AMD EPYC",
        "device.name": "cpu",
        "device.replicas": "1",
        "device.threads": "2",
        "engine.framework_version": "2.13",
        "engine.name": "torch",
        "engine.version": "1",
        "framework": "torch",
        "schema": "1",
        "settings.augmentation": "[]",
        "settings.batch_size": "256",
        "settings.compile": "false",
        "settings.decay": "coupled",
        "settings.epochs": "2",
        "settings.input": "device",
        "settings.optimizer.learning_rate": "0.1",
        "settings.optimizer.momentum": "0.9",
        "settings.optimizer.name": "sgd",
        "settings.optimizer.nesterov": "true",
        "settings.precision": "fp32",
        "settings.schedule": "constant",
        "settings.steps_per_epoch": "null",
        "settings.weight_decay": "0.0005",
        "warmup_epochs": "1",
        "workload.name": "katnoria_cnn",
        "workload.version": "1",
        "repeat": "0",
        "seed": "0",
    }
    tags = {name: text for name, text in run.data.tags.items() if name.startswith("raybench.")}
    assert tags == {
        "raybench.grid": grid,
        "raybench.cell_id": "e5728b716bd9",
        "raybench.trial_id": TRIAL,
        "raybench.attempt": "1",
        "raybench.attempt_id": "58cd7708342c8e58",
        "raybench.status": "completed",
        "raybench.requested": "true",
        "raybench.device_kind": "cpu",
        "raybench.device_name": "AMD EPYC",
        "raybench.host": "node-1",
    }
    by_epoch = {
        "time/epoch_s": [4.621, 3.921],
        "time/train_s": [3.992, 3.912],
        "time/evaluate_s": [0.405, 0.401],
        "time/compile_s": [0.618, 0.0],
        "time/compile_evaluate_s": [0.0, 0.0],
        "train/loss": [1.602, 1.318],
        "train/accuracy": [0.421, 0.527],
        "val/loss": [1.391, 1.244],
        "val/accuracy": [0.502, 0.561],
        "memory/peak_bytes": [612368384.0, 612368384.0],
    }
    summary = {"summary/steady_epoch_s": 3.921, "summary/total_s": 12.212, "summary/best_val_accuracy": 0.561}
    assert set(run.data.metrics) == {*by_epoch, *summary, "throughput/examples_per_s"}
    for name, values in by_epoch.items():
        points = sorted((m.step, m.value, m.timestamp) for m in client.get_metric_history(run.info.run_id, name))
        assert points == [(step, value, TIMES[step]) for step, value in enumerate(values, 1)], name
    throughput = client.get_metric_history(run.info.run_id, "throughput/examples_per_s")
    assert [round(point.value) for point in sorted(throughput, key=lambda point: point.step)] == [8642, 10185]
    assert {name: run.data.metrics[name] for name in summary} == summary
    ((dataset,),) = [[one.dataset for one in run.inputs.dataset_inputs]]
    assert (dataset.name, dataset.digest) == ("cifar10", "sha256:5d3f0a1c")
    assert sorted(file.path for file in client.list_artifacts(run.info.run_id)) == ["events.jsonl", "output.log"]
    text = client.download_artifacts(run.info.run_id, "events.jsonl", str(journal.parent))
    assert [json.loads(line) for line in Path(text).read_text().splitlines()] == golden_events


def test_a_second_sync_changes_nothing(store, journal):
    sync(GridHistory.read(journal), store, "twice")
    before = everything(store, "twice")
    report = sync(GridHistory.read(journal), store, "twice")
    assert (report.created, report.updated, report.unchanged) == (0, 0, 1)
    assert everything(store, "twice") == before


def test_a_run_left_running_gets_what_it_lacks_and_its_end(store, journal, golden_events):
    grid = "left_running"
    Runs(store, grid).write(attempts(golden_events[:2])[TRIAL, 1])
    client, run = only_run(store, grid)
    assert (run.info.status, run.data.tags["raybench.status"]) == ("RUNNING", "running")
    assert run.data.metrics["time/epoch_s"] == 4.621 and run.data.params["settings.batch_size"] == "256"
    report = sync(GridHistory.read(journal), store, grid)
    assert (report.created, report.updated, report.unchanged) == (0, 1, 0)
    client, run = only_run(store, grid)
    assert (run.info.status, run.data.tags["raybench.status"]) == ("FINISHED", "completed")
    history = client.get_metric_history(run.info.run_id, "time/epoch_s")
    assert sorted((point.step, point.value) for point in history) == [(1, 4.621), (2, 3.921)]


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_a_trial_that_still_runs_is_written_as_far_as_it_is(own_store, tmp_path, journal, cut):
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(lines[:cut]))
    grid = f"cut_{cut}"
    history = GridHistory(journal, read(journal))
    sync(history, own_store, grid)
    before = everything(own_store, grid)
    assert sync(history, own_store, grid).unchanged == 1
    assert everything(own_store, grid)[1] == before[1]
    assert only_run(own_store, grid)[1].info.status == "RUNNING"
    assert sum(len(points) for (_, name), points in before[1].items() if name == "time/epoch_s") == cut - 1


def test_every_end_has_its_state(own_store):
    runs = Runs(own_store, "ends")
    told = [status for status in TrialStatus if status != TrialStatus.SKIPPED]
    for repeat, status in enumerate(told):
        error = {"type": "X", "message": "m", "traceback": "Traceback: m"} if status == TrialStatus.FAILED else None
        (attempt,) = attempts([events.trial_ended(f"c-r{repeat}", 1, status, error=error)]).values()
        runs.write(attempt)
    client, found = all_runs(own_store, "ends")
    states = {run.data.tags["raybench.status"]: run.info.status for run in found}
    assert states == {
        **dict.fromkeys(["completed", "oom", "diverged", "timeout"], "FINISHED"),
        **dict.fromkeys(["failed", "lost"], "FAILED"),
        "killed": "KILLED",
    }
    (failed,) = [run for run in found if run.data.tags["raybench.status"] == "failed"]
    assert [file.path for file in client.list_artifacts(failed.info.run_id)] == ["error.txt"]


def test_a_run_does_not_end_before_it_starts_if_the_clock_was_set_back(own_store):
    begun, ended = "2026-11-21T09:00:00.000Z", "2026-11-21T08:00:00.000Z"
    made = [events.trial_started("a-r0", 1) | {"t": begun}, events.trial_ended("a-r0", 1, "completed") | {"t": ended}]
    runs = Runs(own_store, "set_back")
    runs.write(attempts(made)["a-r0", 1])
    runs.write_summary(Summary("set back", {}, {}, begun, ended))
    _, found = all_runs(own_store, "set_back")
    assert len(found) == 2
    assert {(run.info.start_time, run.info.end_time) for run in found} == {(milliseconds(begun), milliseconds(begun))}


@pytest.mark.parametrize("link", ["output.log", "attempt-1", "trials"])
def test_links_in_a_results_folder_are_not_followed(own_store, journal, tmp_path, link):
    private = tmp_path / "private"
    folder = journal.parent / "trials" / TRIAL / "attempt-1"
    linked = {"output.log": folder / link, "attempt-1": folder, "trials": journal.parent / link}[link]
    linked.rename(private)
    linked.symlink_to(private)
    sync(GridHistory.read(journal), own_store, f"linked {link}")
    client, run = only_run(own_store, f"linked {link}")
    found = {artifact.path for artifact in client.list_artifacts(run.info.run_id)}
    assert found == ({"events.jsonl"} if link == "output.log" else set())


def test_many_epochs_and_settings_go_in_batches(own_store):
    cell = {"settings": {f"s{number}": number for number in range(250)} | {"long": "x" * 9000}}
    told = [events.trial_started("c-r0", 1, cell=cell, seed=3)]
    for number in range(1, 401):
        metrics = {"val/accuracy": number / 400, "val/top-5 (%)": 1.0, "val//odd/../é": 2.0}
        told.append(
            events.epoch_ended("c-r0", 1, epoch=number, steps=1, examples=8, ledger={"train": 1.0}, metrics=metrics)
        )
    attempt = attempts(told)["c-r0", 1]
    Runs(own_store, "many").write(attempt)
    client, run = only_run(own_store, "many")
    assert len(run.data.params) == 253 and len(run.data.params["settings.long"]) == 6000
    assert {"val/top-5 ___", "val/odd/é"} <= set(run.data.metrics)
    assert len(client.get_metric_history(run.info.run_id, "time/epoch_s")) == 400
    assert Runs(own_store, "many").list_runs().runs[mapping.attempt_id(attempt)].epochs == set(range(1, 401))


def repeats_of(golden_events, repeats):
    """The contract's trial in several repeats."""
    for repeat in repeats:
        trial = f"e5728b716bd9-r{repeat}"
        yield attempts([{**event, "trial": trial} for event in golden_events])[trial, 1]


def test_every_run_takes_the_same_four_calls_and_statements(own_store, golden_events, monkeypatch):
    client = MlflowClient(own_store.uri)
    calls, statements, batch_tags = [], [], []

    class Recorder:
        def __getattr__(self, name):
            calls.append(name)
            return log_batch if name == "log_batch" else getattr(client, name)

    def log_batch(run_id, metrics, params, tags):
        batch_tags.extend(tags)
        client.log_batch(run_id, metrics, params, tags)

    def record(connection, cursor, statement, *_):
        statements.append(statement.partition("(")[0])

    monkeypatch.setattr(tracking, "client_of", lambda _: Recorder())
    runs = Runs(own_store, "constant")
    first, *further = repeats_of(golden_events, range(30))
    runs.write(first)  # which also adds the data set
    costs = []
    sqlalchemy.event.listen(sqlalchemy.Engine, "before_cursor_execute", record)
    try:
        for attempt in further:
            calls.clear()
            statements.clear()
            runs.write(attempt)
            costs.append((calls.copy(), statements.copy()))
    finally:
        sqlalchemy.event.remove(sqlalchemy.Engine, "before_cursor_execute", record)
    assert costs[0][0] == ["create_run", "log_batch", "log_inputs", "set_terminated"]
    assert all(cost == costs[0] for cost in costs)
    assert not batch_tags, "those of a new run are written by create_run"


def test_a_run_on_two_pages_is_no_duplicate(own_store, golden_events, monkeypatch):
    """While a page is fetched, a run with an earlier start may be created, which shifts the next page."""
    (attempt,) = repeats_of(golden_events, [0])
    runs = Runs(own_store, "shifted")
    run = runs.write(attempt)
    pages = tracking._pages
    monkeypatch.setattr(tracking, "_pages", lambda query: [*pages(query), *pages(query)])
    listed = runs.list_runs().runs[mapping.attempt_id(attempt)]
    assert (listed.run_id, listed.duplicates) == (run.run_id, [])


@pytest.fixture
def proxied(server, tmp_path):
    with proxy(server.uri) as between:
        yield between, resolve(tmp_path, between.url)


@pytest.mark.slow
def test_a_server_gets_several_runs_at_a_time(proxied, golden_events):
    between, store = proxied
    both = Barrier(2)

    def mode(request):
        if "runs/create" in request:
            both.wait(60)  # fails if the second run waits for the first
        return "pass"

    runs = Runs(store, "parallel")
    between.mode = mode
    trials = list(repeats_of(golden_events, range(6)))
    states = list(runs.write_all((attempt, None, None) for attempt in trials))
    between.mode = "pass"
    stored = runs.list_runs().runs
    assert [stored[mapping.attempt_id(attempt)].run_id for attempt in trials] == [state.run_id for state in states]
    assert all(run.ended and not run.duplicates for run in stored.values()) and len(stored) == 6


@pytest.mark.slow
def test_a_data_set_is_added_to_a_server_by_one_request(proxied, golden_events):
    between, store = proxied
    requests, requests_at_first_answer = [], []

    def mode(request):
        if "log-inputs" in request:
            requests.append(request)
            if len(requests) == 1:
                time.sleep(1)
                requests_at_first_answer.append(len(requests))
        return "pass"

    runs = Runs(store, "data set")
    between.mode = mode
    list(runs.write_all((attempt, None, None) for attempt in repeats_of(golden_events, range(6))))
    assert requests_at_first_answer == [1] and len(requests) == 6


@pytest.mark.slow
def test_no_further_run_is_written_to_a_server_that_fails(proxied, golden_events):
    between, store = proxied
    runs = Runs(store, "failing")
    between.mode = lambda request: "error" if "runs/create" in request else "pass"
    with pytest.raises(StoreError):
        list(runs.write_all((attempt, None, None) for attempt in repeats_of(golden_events, range(50))))
    assert sum("runs/create" in request for request in between.asked) < 50


def test_the_summary_is_one_run_an_execution(store):
    runs = Runs(store, "summed")
    summary = Summary(
        "execution 1",
        {"grid.yaml": "name: summed\n", "comparison.json": "[]"},
        {"completed": 3, "oom": 1},
        "2026-11-21T09:00:00.000Z",
        "2026-11-21T09:10:00.000Z",
    )
    runs.write_summary(summary)
    runs.write_summary(summary)
    client, run = only_run(store, "summed", mapping.SUMMARY)
    assert (run.info.run_name, run.info.status) == ("grid summed", "FINISHED")
    assert run.info.end_time - run.info.start_time == 600_000
    assert run.data.metrics == {"trials/completed": 3, "trials/oom": 1}
    assert sorted(file.path for file in client.list_artifacts(run.info.run_id)) == ["comparison.json", "grid.yaml"]
    assert runs.list_runs() == Listing(executions={"execution 1"}), "it is no trial's"


def test_a_grid_that_the_user_stopped_is_killed(store, tmp_path):
    with Journal(tmp_path / JOURNAL) as journal:
        executions.write_execution(journal, Summary("execution 1", {}, {"killed": 1}, interrupted=True))
    sync(GridHistory.read(tmp_path / JOURNAL), store, "stopped")
    assert only_run(store, "stopped", mapping.SUMMARY)[1].info.status == "KILLED"


def test_the_name_of_the_device_is_a_parameter_and_no_part_of_the_cell(golden_events):
    attempt = attempts([golden_events[0] | {"profile": "epyc"}])[TRIAL, 1]
    params = mapping.parameters(attempt)
    assert params["device.name"] == "epyc"
    assert "name" not in attempt.cell.to_json()["device"]


def test_an_execution_marks_the_runs_that_it_no_longer_asks_for(own_store, golden_events):
    runs = Runs(own_store, "narrowed")
    for attempt in repeats_of(golden_events, (0, 1)):
        runs.write(attempt)

    def marks(number, cells, is_latest=True):
        plan = {PLAN: json.dumps({"wanted": {"cells": cells}})}
        summary = Summary(f"execution {number}", plan, {}, f"2026-11-21T1{number}:00:00.000Z")
        runs.write_summary(summary, is_latest)
        _, stored = all_runs(own_store, "narrowed")
        found = {run.data.tags.get(mapping.TRIAL): run.data.tags for run in stored}
        return [found[f"e5728b716bd9-r{repeat}"]["raybench.requested"] for repeat in (0, 1)]

    assert marks(1, [{"cell_id": "e5728b716bd9", "repeats": 2}]) == ["true", "true"]
    assert marks(2, [{"cell_id": "e5728b716bd9", "repeats": 1}]) == ["true", "false"]
    assert marks(3, [{"cell_id": "0123456789ab", "repeats": 2}]) == ["false", "false"]
    assert marks(4, [{"cell_id": "e5728b716bd9", "repeats": 3}]) == ["true", "true"]
    assert marks(0, [{"cell_id": "e5728b716bd9", "repeats": 1}], is_latest=False) == ["true", "true"]


def test_the_experiment_is_described_and_opens_on_what_matters(store, journal):
    grid = "described"
    sync(GridHistory.read(journal), store, grid)
    client, run = only_run(store, grid)
    tags = client.get_experiment_by_name(grid).tags
    assert tags["mlflow.experimentKind"] == "custom_model_development"
    note = tags["mlflow.note.content"]
    assert f"grid {grid}" in note.splitlines()[0]
    for name in run.data.metrics:
        assert f"`{name}`" in note or f"`{name.split('/')[0]}/*`" in note, f"{name} is not explained"
    view = json.loads(tags["mlflow.sharedViewState.raybench"])
    state = json.loads(view["state"])
    assert view["name"] and isinstance(view["createdAt"], int)
    assert {*state["selectedColumns"], state["orderByKey"]} <= {
        *(f"params.`{name}`" for name in run.data.params),
        *(f"metrics.`{name}`" for name in run.data.metrics),
    }, "every column of the view is there"


def test_what_a_person_made_of_the_experiment_stays(own_store, journal):
    Runs(own_store, "mine")
    client = MlflowClient(own_store.uri)
    client.set_experiment_tag(client.get_experiment_by_name("mine").experiment_id, "mlflow.note.content", "my words")
    sync(GridHistory.read(journal), own_store, "mine")
    assert client.get_experiment_by_name("mine").tags["mlflow.note.content"] == "my words"


@pytest.mark.parametrize("missing", [None, KeyError, OSError, ImportError])
def test_a_run_says_where_it_comes_from(own_store, golden_events, monkeypatch, missing):
    def user():
        if missing:
            raise missing("no such user")
        return "ada"

    monkeypatch.setattr("getpass.getuser", user)
    grid = f"origin_{missing.__name__ if missing else 'known'}"
    runs = Runs(own_store, grid)
    runs.write(attempts(golden_events)[TRIAL, 1])
    runs.write_summary(Summary("execution 1", {}, {}))
    for run in all_runs(own_store, grid)[1]:
        assert run.data.tags["mlflow.source.name"] == "raybench"
        assert run.data.tags.get("mlflow.user") == (None if missing else "ada")


def test_a_deleted_experiment_is_said_plainly(own_store):
    Runs(own_store, "deleted")
    client = MlflowClient(own_store.uri)
    client.delete_experiment(client.get_experiment_by_name("deleted").experiment_id)
    with pytest.raises(StoreError, match="was deleted in MLflow; restore it with"):
        Runs(own_store, "deleted")


@pytest.mark.slow
def test_a_new_database_has_its_name_only_when_it_is_complete(tmp_path, migrated_database):
    store = resolve(tmp_path, f"sqlite:///{tmp_path}/mlflow.db")
    # A process that was killed while it made the database left this.
    (tmp_path / "mlflow.db.new").write_bytes(migrated_database.read_bytes()[:20_000])
    (tmp_path / "mlflow.db.lock").touch()
    assert Runs(store, "shared").list_runs() == Listing()
    assert [path.name for path in tmp_path.iterdir()] == ["mlflow.db"]


def test_a_command_waits_while_another_creates_the_database(tmp_path, migrated_database):
    store = resolve(tmp_path, f"sqlite:///{tmp_path}/mlflow.db")
    with ThreadPoolExecutor() as pool:
        with FileLock(tmp_path / "mlflow.db.lock"):
            opened = pool.submit(Runs, store, "shared")
            with pytest.raises(TimeoutError):
                opened.result(timeout=1)
            shutil.copy(migrated_database, tmp_path / "mlflow.db")
        assert opened.result(timeout=60).list_runs() == Listing()
    assert [path.name for path in tmp_path.iterdir()] == ["mlflow.db"]


def test_a_dead_server_is_one_line_without_secrets(tmp_path):
    with pytest.raises(StoreError) as caught:
        Runs(resolve(tmp_path, "http://bob:s3cret@127.0.0.1:9/p?token=hush"), "dead")
    assert "127.0.0.1:9" in str(caught.value) and "\n" not in str(caught.value)
    assert not any(secret in str(caught.value) for secret in ("bob", "s3cret", "hush"))


def test_names_of_a_run(golden_events):
    (attempt,) = attempts(golden_events).values()
    attempt.profile = "epyc"
    assert mapping.run_name(attempt) == "katnoria_cnn epyc torch b256 wd5e-4 r0"
    attempt.label = "as the driver says r0"
    attempt.attempt = 2
    assert mapping.run_name(attempt) == "as the driver says r0 a2"
    (bare,) = attempts(golden_events[1:]).values()
    assert mapping.run_name(bare) == TRIAL


@pytest.mark.parametrize("factor", [8.0, None])
def test_the_proof_of_weight_decay_is_on_the_run(golden_events, factor):
    proof = {"key": "decay-1", "passed": False, "factor": factor, "says": "failed: acts as 8 × λ"}
    golden_events[0]["decay_check"] = proof
    attempt = attempts(golden_events)[TRIAL, 1]
    assert mapping.tags(attempt, "g")["raybench.decay_check"] == "failed: acts as 8 × λ"
    assert mapping.summary_metrics(attempt).get("summary/decay_factor") == factor


def test_why_energy_was_not_measured_is_a_tag(golden_events):
    assert "raybench.energy_missing" not in mapping.tags(attempts(golden_events)[TRIAL, 1], "g")
    golden_events.insert(-1, events.trial_audited(TRIAL, 1, energy={"missing": ["no permission", "too short"]}))
    assert mapping.tags(attempts(golden_events)[TRIAL, 1], "g")["raybench.energy_missing"] == "no permission; too short"


def test_findings_are_on_the_run_when_it_has_ended(own_store, golden_events):
    golden_events[0]["runtime_conditions"] |= {"threads": 1, "niceness": 5}
    runs = Runs(own_store, "findings")
    run = runs.write(attempts(golden_events[:-1])[TRIAL, 1])
    assert "raybench.findings" not in only_run(own_store, "findings")[1].data.tags, "it runs still"
    runs.write(attempts(golden_events)[TRIAL, 1], run)
    tags = only_run(own_store, "findings")[1].data.tags
    assert tags["raybench.findings"] == "few_threads,niceness"
    assert tags["mlflow.note.content"].splitlines() == [
        "- possible caution: **few threads**: 1 thread on 2 cores; remove `threads` and `cpus` from the grid file to "
        "use all cores",
        "- note: **niceness**: it ran with niceness 5; start raybench without `nice`",
    ]


def test_the_time_to_a_target_is_in_the_summary(golden_events):
    golden_events[0]["target"] = {"metric": "val/accuracy", "at_least": 0.55, "at_most": None}
    (attempt,) = attempts(golden_events).values()
    assert mapping.summary_metrics(attempt)["summary/time_to_target_s"] == 8.542
