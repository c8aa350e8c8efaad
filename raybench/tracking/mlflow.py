"""MLflow runs of a grid: the only module that imports MLflow and the only place where runs are written.

Import it lazily: it takes seconds and sets how MLflow behaves in this process. MLflow then sends no telemetry, prints
no URLs, and gives up after seconds on a server that does not answer. The user's own environment variables take
precedence.
"""

from __future__ import annotations

import getpass
import json
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

from filelock import FileLock

from raybench.core.events import ERROR, EVENTS, OUTPUT
from raybench.monitoring import SAMPLES
from raybench.results import executions
from raybench.results.attempt import Attempt
from raybench.results.executions import PLAN, Summary, read_execution
from raybench.results.journal import is_own
from raybench.tracking import journal_parts
from raybench.tracking import mapping as p
from raybench.tracking.call_timeout import Bounded
from raybench.tracking.journal_parts import JoinedJournal, Part
from raybench.tracking.store import Store, StoreError, is_server, redacted_errors
from raybench.tracking.system_metrics import points

ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    # The URLs it would print carry the credentials of the tracking URI.
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    # By default one call to a dead server takes four minutes. The callers retry themselves, after `list_runs`: if only
    # the answer was lost, the request has been carried out, and repeating it would create a second run.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    # A bar for each file, of which a journal may have hundreds.
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
}
for _variable, _value in ENVIRONMENT.items():
    os.environ.setdefault(_variable, _value)

import mlflow.entities as entities  # noqa: E402 — the environment comes first
import mlflow.store.db.utils  # noqa: E402
from mlflow.exceptions import MlflowException  # noqa: E402
from mlflow.tracking import MlflowClient  # noqa: E402

# These report migrations, quote URIs with their credentials, and log a traceback of every error before raising it.
for _logger in ("alembic", "mlflow.store.db.utils", "urllib3.connectionpool"):
    logging.getLogger(_logger).setLevel(logging.CRITICAL)

# By default MLflow tries ten times, for 102 seconds, to open a database that cannot be opened.
mlflow.store.db.utils.MAX_RETRY_COUNT = 3

# MLflow's limits: 1,000 items in a batch, of which at most 100 are parameters and 100 are tags.
METRICS_A_BATCH = 800
PARAMETERS_A_BATCH = 100
PAGE = 1000

GONE = "FAILED"
"""MLflow's status of a grid whose driver died, as of a lost trial."""

FETCHES = 8
"""Number of artifacts fetched in parallel."""

WRITERS = 4
"""Number of runs written to a server in parallel, as many as `mlflow server` has processes by default."""

CREATION = 60.0
"""Maximum seconds to wait for another command that creates the same database."""


@dataclass
class StoredRun:
    """State in MLflow of the run of one attempt.

    Attributes:
        epochs: the epochs whose metrics are stored.
        described: whether parameters and data set are stored.
        ended: whether it has its final status, which is written last.
        duplicates: ids of further runs of the same attempt, created by repeated requests.
    """

    run_id: str
    epochs: set[int] = field(default_factory=set)
    described: bool = False
    ended: bool = False
    duplicates: list[str] = field(default_factory=list)


@dataclass
class Listing:
    """State in MLflow of one grid.

    Attributes:
        runs: runs of attempts by `raybench.tracking.mapping.attempt_id`.
        executions: the executions whose run has ended.
    """

    runs: dict[str, StoredRun] = field(default_factory=dict)
    executions: set[str] = field(default_factory=set)


@dataclass
class _JournalRun:
    """MLflow's state of a journal, and the run for its next parts.

    Attributes:
        parts: the stored parts, in this and other runs.
        end: the end of the last part uploaded to this run.
        position: the position in the journal up to which it is stored.
    """

    run_id: str
    parts: list[Part]
    end: int
    position: int = 0


class Runs:
    """The runs of one grid in an experiment, created if missing.

    Args:
        store: the MLflow store.
        grid: the grid's name.
        journal: the grid's journal, which is attached to the runs of its executions.

    Use it from one thread at a time; `write_all` has threads of its own.

    Raises:
        StoreError: the store cannot be reached or used; every method raises it too.
    """

    def __init__(self, store: Store, grid: str, journal: Path | None = None) -> None:
        self._store, self._grid, self._journal = store, grid, journal
        self._journal_run: _JournalRun | None = None
        self._data_sets: set[tuple[str, str]] = set()
        self._new_data_set = Lock()
        with redacted_errors(self._store):
            if store.path and not store.path.exists():
                _create(store.path)
            self._client = client_of(store)
            self._experiment = self._open(store)

    def _open(self, store: Store) -> str:
        stored = self._client.get_experiment_by_name(self._grid)
        if stored is None:
            location = f"{store.artifacts}/{self._grid}" if store.artifacts else None
            try:
                tags = p.experiment_tags(self._grid, _now_ms())
                return str(self._client.create_experiment(self._grid, artifact_location=location, tags=tags))
            except MlflowException:
                # Another driver, on another results folder, may have created it in the meantime.
                stored = self._client.get_experiment_by_name(self._grid)
                if stored is None:
                    raise
        if stored.lifecycle_stage != entities.LifecycleStage.ACTIVE:
            raise StoreError(
                f"the experiment {self._grid} was deleted in MLflow; restore it with "
                f"`mlflow experiments restore --experiment-id {stored.experiment_id}`, or rename the grid"
            )
        return str(stored.experiment_id)

    def list_runs(self) -> Listing:
        """List the experiment's runs, a thousand in one search."""
        listing = Listing()
        with redacted_errors(self._store):
            for run in _pages(lambda token: _search(self._client, [self._experiment], "", token)):
                self._add(run, listing)
        return listing

    def _add(self, stored: Any, listing: Listing) -> None:
        tags = stored.data.tags
        if p.SUMMARY in tags and _is_ended(stored):
            listing.executions.add(tags[p.SUMMARY])
        if p.ATTEMPT_ID in tags:
            run, existing = self._state(stored), listing.runs.get(tags[p.ATTEMPT_ID])
            if existing and run.run_id in (existing.run_id, *existing.duplicates):
                return  # it is on two pages, because a run was created before it in the meantime
            if existing:
                # The more complete one is kept.
                if (run.ended, len(run.epochs)) > (existing.ended, len(existing.epochs)):
                    run, existing = existing, run
                existing.duplicates += [run.run_id, *run.duplicates]
                run = existing
            listing.runs[tags[p.ATTEMPT_ID]] = run

    def _state(self, stored: Any) -> StoredRun:
        run_id, data = stored.info.run_id, stored.data
        if _is_ended(stored):
            return StoredRun(run_id, ended=True)
        history = self._client.get_metric_history(run_id, p.EPOCH_TIME) if p.EPOCH_TIME in data.metrics else []
        described = "repeat" in data.params and bool(stored.inputs and stored.inputs.dataset_inputs)
        return StoredRun(run_id, {metric.step for metric in history}, described)

    def write(self, attempt: Attempt, run: StoredRun | None = None, folder: Path | None = None) -> StoredRun:
        """Bring an attempt's run up to date.

        Only what is missing is written; a run with a final status is left as it is.

        Args:
            attempt: the attempt.
            run: its state in MLflow; without one the run is created.
            folder: the attempt's folder, with its events, samples, output and traceback.

        Returns:
            The state in MLflow now. It is unknown after an error: call `list_runs`.
        """
        with redacted_errors(self._store):
            tags = p.tags(attempt, self._grid)
            if run is None:
                run = StoredRun(self._create(p.run_name(attempt), _started(attempt), tags))
                tags = {}
            while run.duplicates:
                self._client.delete_run(run.duplicates[-1])  # it remains in MLflow's trash
                run.duplicates.pop()
            if run.ended:
                return run
            new = [epoch for epoch in attempt.epochs if epoch.epoch not in run.epochs]
            metrics = [
                entities.Metric(name, value, p.milliseconds(epoch.t, attempt.started) or 0, epoch.epoch)
                for epoch in new
                for name, value in p.epoch_metrics(epoch).items()
            ]
            if attempt.status is not None:
                ended = p.milliseconds(attempt.ended, attempt.started) or 0
                metrics += [
                    entities.Metric(name, value, ended, 0) for name, value in p.summary_metrics(attempt).items()
                ]
                samples = points(folder) if folder and is_own(folder / SAMPLES, folder.parents[2]) else ()
                metrics += [entities.Metric(*point) for point in samples]
            self._batch(run.run_id, metrics, {} if run.described else p.parameters(attempt), tags)
            run.epochs |= {epoch.epoch for epoch in new}
            if not run.described:
                self._data_set(attempt, run.run_id)
                run.described = bool(attempt.cell)
            if attempt.status is not None:
                self._artifacts(attempt, run.run_id, folder)
                ended_ms = _later(_started(attempt), p.milliseconds(attempt.ended))
                self._client.set_terminated(run.run_id, p.state(attempt.status), ended_ms)
                run.ended = True
            return run

    def write_all(self, attempts: Iterable[tuple[Attempt, StoredRun | None, Path | None]]) -> Iterator[StoredRun]:
        """Write several attempts as `write` does, to a server in parallel; yield their states in the same order.

        A write to a server mostly waits for answers. A write to a database is mostly work of this process, which
        threads do not speed up.
        """
        if not is_server(self._store.uri):
            yield from (self.write(*each) for each in attempts)
            return
        with ThreadPoolExecutor(WRITERS) as pool:
            yield from pool.map(lambda each: self.write(*each), attempts)

    def open_journal(self, execution: str | None = None, ending: Collection[str] = ()) -> None:
        """Look up the stored parts of the journal and the next parts' run.

        Known values are not looked up again. Open runs of this journal's executions are ended if their driver is gone.

        Args:
            execution: the current execution, whose run is created if missing; without one, the last run of the journal
                gets the parts.
            ending: executions whose summary will be written.
        """
        name = journal_parts.journal_id(self._journal) if self._journal else None
        if name is not None and self._journal_run is None:
            with redacted_errors(self._store):
                self._journal_run = self._find_journal(name, execution, ending)

    def add_journal(self, execution: str | None = None, ending: Collection[str] = ()) -> Iterator[Part]:
        """Attach missing parts of the journal, and yield all stored parts (`open_journal`)."""
        self.open_journal(execution, ending)
        run = self._journal_run
        if run is None or self._journal is None:
            return
        with redacted_errors(self._store):
            end = journal_parts.end_of_lines(self._journal)
            for part, text in journal_parts.missing_parts(self._journal, run.parts, run.position, end):
                self._journal_run = None  # unknown after a failure
                with TemporaryDirectory() as folder:
                    file = Path(folder) / part.name
                    file.write_bytes(text)
                    self._client.log_artifact(run.run_id, str(file), journal_parts.FOLDER)
                run.end = max(run.end, part.end)
                self._client.set_tag(run.run_id, p.JOURNAL_BYTES, str(run.end))
                run.parts.append(part)
                if part.start == run.position:
                    run.position = part.end
                self._journal_run = run
                yield part
            run.position = end

    def _find_journal(self, name: str, execution: str | None, ending: Collection[str]) -> _JournalRun:
        own_run = self._run_of(execution) if execution else None
        clause = f"tags.`{p.JOURNAL}` = '{name}'"
        stored = list(_pages(lambda token: _search(self._client, [self._experiment], clause, token)))
        for run in stored:
            if not _is_ended(run) and run.data.tags.get(p.SUMMARY) not in {execution, *ending}:
                self._client.set_terminated(run.info.run_id, GONE)
        if own_run is not None and own_run.data.tags.get(p.JOURNAL, name) != name:
            own_run = execution = None  # the journal's first line has been lost
        if execution is None:
            own_run = stored[-1] if stored else None
        if own_run is not None:
            run_id = own_run.info.run_id
            if p.JOURNAL not in own_run.data.tags:
                self._client.set_tag(run_id, p.JOURNAL, name)
        elif execution is not None:
            started = p.milliseconds(executions.start_of(execution))
            run_id = self._create(f"grid {self._grid}", started, {p.SUMMARY: execution, **self._grid_tags()})
        else:  # its driver died before it had created a run
            run_id = self._create(f"grid {self._grid}", None, self._grid_tags())
            self._client.set_terminated(run_id, GONE)
        parts = [part_entry for run in stored for part_entry in _parts(self._client, run.info.run_id)]
        # An incomplete upload is repeated.
        complete = [part for part, size in parts if size in (None, part.end - part.start)]
        return _JournalRun(run_id, complete, _journal_bytes(own_run) if own_run else 0)

    def end_execution(self, execution: str) -> None:
        """End the run of an execution that has no summary."""
        with redacted_errors(self._store):
            run = self._run_of(execution)
            if run is not None and not _is_ended(run):
                self._client.set_terminated(run.info.run_id, GONE)

    def write_summary(self, summary: Summary, is_latest: bool = True) -> None:
        """Write the run of an execution that has ended; a second call changes nothing.

        Args:
            summary: its summary.
            is_latest: whether its plan says which trials are requested.
        """
        with redacted_errors(self._store):
            run = self._run_of(summary.execution)
            if run is not None and _is_ended(run):
                return
            started, ended = p.milliseconds(summary.started), p.milliseconds(summary.ended)
            tags = {p.SUMMARY: summary.execution, **self._grid_tags()}
            run_id = run.info.run_id if run else self._create(f"grid {self._grid}", started, tags)
            moment = ended or started or _now_ms()
            for name, count in summary.counts.items():
                self._client.log_metric(run_id, f"trials/{name}", count, moment, 0)
            with TemporaryDirectory() as folder:
                for name, text in summary.files.items():
                    (Path(folder) / name).write_text(text, encoding="utf-8")
                self._client.log_artifacts(run_id, folder)
            if is_latest:
                self._mark_requested(p.requested_repeats(p.read_json(summary.files.get(PLAN))))
            self._client.set_terminated(run_id, "KILLED" if summary.interrupted else "FINISHED", _later(started, ended))

    def _run_of(self, execution: str) -> Any:
        """The run of an execution, if any; duplicates created by repeated requests are deleted."""
        stored = self._client.search_runs([self._experiment], f"tags.`{p.SUMMARY}` = '{execution}'")
        ordered = sorted(stored, key=lambda run: (_is_ended(run), _journal_bytes(run)), reverse=True)
        for duplicate in ordered[1:]:
            self._client.delete_run(duplicate.info.run_id)
        return ordered[0] if ordered else None

    def _grid_tags(self) -> dict[str, str]:
        name = journal_parts.journal_id(self._journal) if self._journal else None
        return {p.GRID: self._grid, **({p.JOURNAL: name} if name else {})}

    def _mark_requested(self, repeats: Mapping[str, int] | None) -> None:
        """Update the tag of each run whose trial is newly requested or unrequested."""
        if repeats is None:
            return
        for run in _pages(lambda token: _search(self._client, [self._experiment], "", token)):
            cell_id, _, repeat = run.data.tags.get(p.TRIAL, "").rpartition("-r")
            value = str(repeat.isdecimal() and int(repeat) < repeats.get(cell_id, 0)).lower()
            if cell_id and run.data.tags.get(p.REQUESTED) != value:
                self._client.set_tag(run.info.run_id, p.REQUESTED, value)

    def _create(self, name: str, started: int | None, tags: Mapping[str, str]) -> str:
        all_tags = {**tags, **p.smoke_tags(self._grid), **_origin()}
        return str(self._client.create_run(self._experiment, started, all_tags, name).info.run_id)

    def _batch(
        self, run_id: str, metrics: Sequence[Any], parameters: Mapping[str, str], tags: Mapping[str, str]
    ) -> None:
        params = [entities.Param(name, text) for name, text in parameters.items()]
        run_tags = [entities.RunTag(name, text) for name, text in tags.items()]
        while metrics or params or run_tags:
            self._client.log_batch(run_id, metrics[:METRICS_A_BATCH], params[:PARAMETERS_A_BATCH], run_tags)
            metrics, params, run_tags = metrics[METRICS_A_BATCH:], params[PARAMETERS_A_BATCH:], []

    def _data_set(self, attempt: Attempt, run_id: str) -> None:
        data = p.data_set(attempt)
        if data:
            name, digest = data
            dataset = entities.Dataset(name, digest, source_type="raybench", source=name)
            context = [entities.InputTag("mlflow.data.context", "training")]
            # A server fails if two requests add the same data set at once.
            with nullcontext() if data in self._data_sets else self._new_data_set:
                self._client.log_inputs(run_id, [entities.DatasetInput(dataset, context)])
            self._data_sets.add(data)

    def _artifacts(self, attempt: Attempt, run_id: str, folder: Path | None) -> None:
        names = (EVENTS, SAMPLES, OUTPUT, ERROR)
        files = [folder / name for name in names if is_own(folder / name, folder.parents[2])] if folder else []
        for path in files:
            self._client.log_artifact(run_id, str(path))
        # The files of a trial on another machine may not be here; its traceback was part of its events.
        trace = (attempt.error or {}).get("traceback")
        if isinstance(trace, str) and ERROR not in {path.name for path in files}:
            self._client.log_text(run_id, trace, ERROR)


def _create(database: Path) -> None:
    """Create a new sqlite database, moved into place when it is complete.

    Creating one takes seconds. MLflow permanently refuses an incomplete database, whether its creator was killed or is
    still working.
    """
    lock, new = (database.with_name(f"{database.name}.{end}") for end in ("lock", "new"))
    database.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(lock, timeout=CREATION):
        if not database.exists():
            new.unlink(missing_ok=True)
            MlflowClient(f"sqlite:///{new.as_posix()}").search_experiments(max_results=1)
            new.rename(database)
        lock.unlink(missing_ok=True)


def client_of(store: Store) -> Any:
    """MLflow's own client of a store; for a server, with a timeout per request."""
    client = MlflowClient(store.uri)
    return Bounded(client) if is_server(store.uri) else client


@dataclass(frozen=True)
class StoredGrid:
    """A grid of a store.

    Attributes:
        name: the experiment's name.
        journals: by id, the journals of its results folders, without missing parts.
        files: by execution, the requested files: of the last one that stored any, and of the last of each other results
            folder from which results were imported.
    """

    name: str
    journals: Mapping[str, JoinedJournal]
    files: Mapping[str, Mapping[str, bytes]]


def grids_of(store: Store) -> dict[str, list[Any]]:
    """The runs that have parts of a journal, by experiment and start.

    Raises:
        StoreError: the store cannot be reached, or is not an MLflow store.
    """
    _check_database(store)
    with redacted_errors(store):
        client = client_of(store)
        names = {
            experiment.experiment_id: experiment.name
            for experiment in _pages(lambda token: client.search_experiments(max_results=PAGE, page_token=token))
        }
        clause = f"tags.`{p.JOURNAL}` LIKE '%'"
        runs_by_name: dict[str, list[Any]] = {}
        if names:
            for run in _pages(lambda token: _search(client, list(names), clause, token)):
                runs_by_name.setdefault(names[run.info.experiment_id], []).append(run)
        return runs_by_name


def read_grid(
    store: Store, name: str, runs: Sequence[Any], files: Collection[str], progress: Callable[[int, int], None] | None
) -> StoredGrid:
    """Fetch the journals of a grid, and files of its last execution.

    Args:
        store: the MLflow store.
        name: the grid's name.
        runs: its runs that have parts (`grids_of`).
        files: names of the files.
        progress: gets the number of bytes fetched and the total.

    Raises:
        StoreError: the store cannot be reached, or a part in it cannot be read.
    """
    if not is_server(store.uri) and any(run.info.artifact_uri.startswith("mlflow-artifacts:") for run in runs):
        raise StoreError(f"MLflow store {store}: the journal of {name} is on a server; use the server's URL")
    with redacted_errors(store), TemporaryDirectory() as folder, ThreadPoolExecutor(FETCHES) as pool:
        client = client_of(store)
        part_lists = pool.map(lambda run: _parts(client, run.info.run_id), runs)
        parts = [(run, part) for run, run_parts in zip(runs, part_lists, strict=True) for part, _ in run_parts]

        def fetch(run: Any, path: str) -> bytes:
            target = Path(folder) / run.info.run_id
            target.mkdir(exist_ok=True)
            return Path(client.download_artifacts(run.info.run_id, path, str(target))).read_bytes()

        texts = pool.map(lambda each: fetch(each[0], f"{journal_parts.FOLDER}/{each[1].name}"), parts)
        total, done = sum(part.end - part.start for _, part in parts), 0
        by_journal: dict[str, list[tuple[Part, bytes]]] = {run.data.tags[p.JOURNAL]: [] for run in runs}
        for (run, part), text in zip(parts, texts, strict=True):
            by_journal[run.data.tags[p.JOURNAL]].append((part, text))
            done += part.end - part.start
            if progress:
                progress(done, total)
        sizes = {
            journal: max(_journal_bytes(run) for run in runs if run.data.tags[p.JOURNAL] == journal)
            for journal in by_journal
        }
        last_files: dict[str, Mapping[str, bytes]] = {}
        for run in reversed(runs):
            available = {each.path for each in client.list_artifacts(run.info.run_id)} & set(files)
            if p.SUMMARY in run.data.tags and available:
                last_files[run.data.tags[p.SUMMARY]] = {file: fetch(run, file) for file in available}
                break
        journals = {journal: journal_parts.join(pieces, sizes[journal]) for journal, pieces in by_journal.items()}
        for execution in _imported_executions(journal.text for journal in journals.values()):
            clause = f"tags.`{p.SUMMARY}` = '{execution}'"
            for run in [] if execution in last_files else _search(client, [runs[0].info.experiment_id], clause, None):
                available = {each.path for each in client.list_artifacts(run.info.run_id)} & set(files)
                last_files[execution] = {file: fetch(run, file) for file in available}
        return StoredGrid(name, journals, last_files)


def _imported_executions(journals: Iterable[bytes]) -> set[str]:
    """The last execution of each other results folder from which results were imported."""
    last: dict[str, str] = {}
    for line in (line for text in journals for line in text.splitlines() if b'"grid_ended"' in line):
        with suppress(ValueError, RecursionError):  # damaged lines are reported when the journal is read
            event = json.loads(line)
            summary = read_execution(Path(), event) if isinstance(event, dict) else None
            if summary and summary.origin:
                last[summary.origin] = summary.execution
    return set(last.values())


def _parts(client: Any, run_id: str) -> list[tuple[Part, int | None]]:
    """The parts among a run's artifacts, each with its stored size."""
    artifacts = client.list_artifacts(run_id, journal_parts.FOLDER)
    sized_parts = [(journal_parts.part_named(artifact.path), artifact.file_size) for artifact in artifacts]
    return [(part, size) for part, size in sized_parts if part]


def _journal_bytes(stored: Any) -> int:
    text = stored.data.tags.get(p.JOURNAL_BYTES, "")
    return int(text) if text.isdecimal() else 0


def _search(client: Any, experiments: Sequence[str], clause: str, token: str | None) -> Any:
    order = ["attributes.start_time ASC"]
    return client.search_runs(experiments, clause, order_by=order, max_results=PAGE, page_token=token)


def _pages(query: Callable[[str | None], Any]) -> Iterator[Any]:
    token: str | None = None
    while True:
        page = query(token)
        yield from page
        token = page.token
        if not token:
            return


def _check_database(store: Store) -> None:
    """Check that a sqlite file is MLflow's; otherwise MLflow would create its tables in it.

    Raises:
        StoreError: it is missing, or not a database of MLflow.
    """
    if store.path is None:
        return
    if not store.path.is_file():
        raise StoreError(f"MLflow store {store}: no such file")
    with redacted_errors(store), closing(sqlite3.connect(f"{store.path.as_uri()}?mode=ro", uri=True)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'experiments'").fetchone():
            raise StoreError(f"MLflow store {store}: the database belongs to another program; choose another file")


def _is_ended(stored: Any) -> bool:
    return bool(entities.RunStatus.is_terminated(entities.RunStatus.from_string(stored.info.status)))


def _started(attempt: Attempt) -> int | None:
    """When an attempt started, or else the time of its first event."""
    return p.milliseconds(attempt.started, attempt.epochs[0].t if attempt.epochs else None, attempt.ended)


def _later(*times: int | None) -> int | None:
    """The later of start and end: with a clock that was set back in between, a run would end before it starts."""
    return max((time for time in times if time is not None), default=None)


def _now_ms() -> int:
    return round(time.time() * 1000)


def _origin() -> dict[str, str]:
    """Tags that MLflow's pages show as a run's source and user."""
    tags = {"mlflow.source.name": "raybench", "mlflow.source.type": "LOCAL"}
    # The user of a container may not have a name.
    with suppress(KeyError, OSError, ImportError):
        tags["mlflow.user"] = getpass.getuser()
    return tags
