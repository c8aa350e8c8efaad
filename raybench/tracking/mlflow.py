"""MLflow runs of a grid: the only module that imports MLflow.

Import it lazily: it takes seconds and sets how MLflow behaves in this process. MLflow then sends no telemetry, prints
no URLs, and gives up after seconds on a server that does not answer. The user's own environment variables take
precedence.
"""

from __future__ import annotations

import getpass
import logging
import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from filelock import FileLock

from raybench.core.events import events_file
from raybench.core.files import write_atomic
from raybench.errors import UsageError, nearest
from raybench.results.executions import Execution
from raybench.results.folder import ATTEMPTS, EXECUTIONS, REPORT, attempt_folder
from raybench.results.history import GridHistory
from raybench.results.run_table import Key
from raybench.tracking import mapping as p
from raybench.tracking.store import Store, StoreError, is_server, redacted_errors

ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    # The URLs it would print carry the credentials of the tracking URI.
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    # By default one call to a dead server takes four minutes. The callers retry themselves, after `list_runs`: if only
    # the answer was lost, the request has been carried out, and repeating it would create a second run.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
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
MAX_BATCH_METRICS = 800
MAX_BATCH_PARAMETERS = 100
PAGE = 1000
MAX_PAGES = 5  # grids whose addresses are shown

PARALLEL = 8  # number of requests to a server at a time, when many files are read
CREATION_TIMEOUT_S = 60.0  # maximum time to wait for another command that creates the same database


@dataclass
class StoredRun:
    """State in MLflow of the run of an attempt, or of an execution.

    Attributes:
        epochs: the epochs whose metrics are stored.
        described: whether parameters are stored.
        ended: whether it has its final status, which is written last.
    """

    run_id: str
    epochs: set[int] = field(default_factory=set)
    described: bool = False
    ended: bool = False


class Runs:
    """The runs of one grid in an experiment, which is created if missing.

    After an error it is not known what they have: make a new object.

    Raises:
        StoreError: the store cannot be reached or used; every method raises it too.
    """

    def __init__(self, store: Store, history: GridHistory) -> None:
        self._store, self._history, self._grid = store, history, history.folder.name
        self._runs: dict[str, StoredRun] = {}  # by the UUID of their attempts
        self._executions: dict[str, StoredRun] = {}  # by their names
        self._cells: dict[str, str] = {}  # the cell of each name of a configuration
        with redacted_errors(self._store):
            if store.path and not store.path.exists():
                _create(store.path)
            self._client = MlflowClient(store.uri)
            self._experiment = self._open()
            self._list()

    def _open(self) -> str:
        stored = self._client.get_experiment_by_name(self._grid)
        if stored is None:
            location = f"{self._store.artifacts}/{self._grid}" if self._store.artifacts else None
            try:
                tags = p.experiment_tags(self._grid)
                return str(self._client.create_experiment(self._grid, artifact_location=location, tags=tags))
            except MlflowException:
                # A different driver, on a different results folder, may have created it in the meantime.
                stored = self._client.get_experiment_by_name(self._grid)
                if stored is None:
                    raise
        if stored.lifecycle_stage != entities.LifecycleStage.ACTIVE:
            raise StoreError(
                f"the experiment {self._grid} was deleted in MLflow; restore it with "
                f"`mlflow experiments restore --experiment-id {stored.experiment_id}`, or rename the grid"
            )
        return str(stored.experiment_id)

    def _list(self) -> None:
        """Read which runs there are, and delete doubled ones.

        A slow server may carry out a request after its client has given up and repeated it.
        """
        self._runs, self._executions = {}, {}
        for stored in list(_pages(lambda token: _search(self._client, [self._experiment], token))):
            tags, run_id = stored.data.tags, stored.info.run_id
            runs, name = (self._runs, tags[p.RUN]) if p.RUN in tags else (self._executions, tags.get(p.EXECUTION, ""))
            if not name:
                continue
            run = StoredRun(run_id, described="repeat" in stored.data.params, ended=_is_ended(stored))
            if not run.ended and p.EPOCH_TIME in stored.data.metrics:
                run.epochs = {metric.step for metric in self._client.get_metric_history(run_id, p.EPOCH_TIME)}
            if earlier := runs.get(name):
                doubled, run = sorted((earlier, run), key=lambda state: (state.ended, len(state.epochs)))
                if not doubled.ended:
                    self._client.delete_run(doubled.run_id)
            runs[name] = run
            if p.CONFIGURATION in tags:
                self._cells.setdefault(tags[p.CONFIGURATION], tags.get(p.TRIAL, "").rpartition("-r")[0])

    def missing(self) -> list[Key]:
        """Return the attempts whose runs are missing or have not ended."""
        ended = {run for run, state in self._runs.items() if state.ended}
        return [key for key, attempt in list(self._history.attempts.items()) if attempt.run not in ended]

    def write(self, key: Key) -> None:
        """Bring an attempt's run up to date, with the file of its events when it has ended.

        Only what is missing is written; a run with a final status is left as it is.
        """
        attempt = self._history.snapshot(key)
        varied = (execution.varied for execution in reversed(self._history.executions))
        axes = next((values[attempt.cell_id] for values in varied if attempt.cell_id in values), {})
        run = self._runs.get(str(attempt.run))
        with redacted_errors(self._store):
            tags = p.tags(attempt, self._grid)
            if attempt.label:
                cell, names = attempt.cell_id, p.configuration_names(attempt, axes)
                tags[p.CONFIGURATION] = next(name for name in names if self._cells.setdefault(name, cell) == cell)
            started = p.milliseconds(attempt.started, attempt.epochs[0].t if attempt.epochs else None, attempt.ended)
            if run is None:
                run, tags = StoredRun(self._create_run(p.run_name(attempt, axes), started, tags)), {}
                self._runs[str(attempt.run)] = run
            if run.ended:
                return
            times = dict(zip(attempt.epochs.column("epoch"), attempt.epochs.column("t"), strict=True))
            metrics = [
                entities.Metric(name, value, p.milliseconds(times[number]) or started or 0, number)
                for number, values in p.epoch_metrics(attempt)
                if number not in run.epochs
                for name, value in values.items()
            ]
            ended = p.milliseconds(attempt.ended) or started or 0
            if attempt.status is not None:
                metrics += [
                    entities.Metric(name, value, ended, 0) for name, value in p.summary_metrics(attempt).items()
                ]
            self._log(run.run_id, metrics, {} if run.described else p.parameters(attempt, axes), tags)
            run.epochs |= times.keys()
            run.described = bool(attempt.cell)
            if attempt.status is not None:
                file = events_file(attempt_folder(self._history.folder, attempt.trial, attempt.run))
                if file.is_file() and not file.is_symlink():
                    self._client.log_artifact(run.run_id, str(file))
                # With a clock that was set back in between, a run would end before it starts.
                self._client.set_terminated(run.run_id, p.mlflow_status(attempt.status), max(ended, started or 0))
                run.ended = True

    def _write_execution(self, execution: Execution, result: p.Result | None) -> None:
        """Write the file of an execution and its result to its run, which is created if missing; it needs no end."""
        with redacted_errors(self._store):
            run = self._executions.get(execution.name)
            if run is None:
                tags = {p.EXECUTION: execution.name, p.GRID: self._grid}
                run = StoredRun(self._create_run(f"grid {self._grid}", None, tags))
                self._executions[execution.name] = run
            if not run.ended:
                self._client.log_artifact(run.run_id, str(execution.path(self._history.folder)))
            if result:
                now = round(time.time() * 1000)
                metrics = [entities.Metric(name, value, now, 0) for name, value in result.metrics.items()]
                self._log(run.run_id, metrics, {}, {p.NOTE: result.note})
                self._client.log_text(run.run_id, result.page, REPORT)
            if not run.ended:
                self._client.set_terminated(run.run_id, "FINISHED")
                run.ended = True

    def write_executions(self, result: p.Result | None) -> None:
        """Write the requests of executions that have no ended run, and the result, if there is one, to the last one's.

        Then all are listed again, which deletes the runs that a request has made since the first listing, after it was
        given up and repeated.
        """
        for execution in self._history.executions:
            of_last = result if execution is self._history.executions[-1] else None
            if of_last or not (run := self._executions.get(execution.name)) or not run.ended:
                self._write_execution(execution, of_last)
        with redacted_errors(self._store):
            self._list()

    def _create_run(self, name: str, started: int | None, tags: Mapping[str, str]) -> str:
        return str(self._client.create_run(self._experiment, started, {**tags, **_origin()}, name).info.run_id)

    def _log(self, run_id: str, metrics: Sequence[Any], parameters: Mapping[str, str], tags: Mapping[str, str]) -> None:
        params = [entities.Param(name, text) for name, text in parameters.items()]
        run_tags = [entities.RunTag(name, text) for name, text in tags.items()]
        while metrics or params or run_tags:
            self._client.log_batch(run_id, metrics[:MAX_BATCH_METRICS], params[:MAX_BATCH_PARAMETERS], run_tags)
            metrics, params, run_tags = metrics[MAX_BATCH_METRICS:], params[MAX_BATCH_PARAMETERS:], []


def pages(store: Store, address: str) -> list[str]:
    """The addresses of the runs of the newest grids under that of MLflow's server, each after the grid's name.

    The parameter is needed because MLflow opens an experiment among its pages for language models, whatever its kind.
    """
    with redacted_errors(store):
        ours, order = f"tags.`{p.KIND}` = '{p.TRAINING}'", ["last_update_time DESC"]
        newest = MlflowClient(store.uri).search_experiments(filter_string=ours, order_by=order, max_results=MAX_PAGES)
    path = f"{address}/#/experiments/{{}}/runs?workflowType=machine_learning"
    return [f"{experiment.name}  {path.format(experiment.experiment_id)}" for experiment in newest]


def download(store: Store, folder: Path, grid: str | None = None) -> tuple[list[Path], int]:
    """Download the files of the grids of a store to a results folder.

    Returns:
        The folder of each grid, and the number of runs that were left out: not ended, or without their file.
    """
    _check_database(store)
    with redacted_errors(store):
        client = MlflowClient(store.uri)
        experiments = _pages(lambda token: client.search_experiments(max_results=PAGE, page_token=token))
        names = {experiment.experiment_id: experiment.name for experiment in experiments}
        stored = list(_pages(lambda token: _search(client, list(names), token))) if names else []
        runs = [run for run in stored if _is_ended(run)]
        if any(run.info.artifact_uri.startswith("mlflow-artifacts:") for run in runs) and not is_server(store.uri):
            raise StoreError(f"MLflow store {store}: its files are on a server; use the server's URL")
        grids = sorted({names[run.info.experiment_id] for run in runs})
        if not runs or (grid is not None and grid not in grids):
            what = f"a grid {grid}; {nearest(str(grid), grids)}" if runs else "raybench in it"
            raise UsageError(f"{store}: no results of {what}")
        chosen = [run for run in runs if grid in (None, names[run.info.experiment_id])]
        left_out = sum(grid in (None, names[run.info.experiment_id]) for run in stored) - len(chosen)

        def fetch(run: Any) -> bool:
            tags = run.data.tags
            names_of_files = (tags.get(p.TRIAL, ""), tags.get(p.RUN, ""), tags.get(p.EXECUTION, ""))
            if not all(re.fullmatch(r"[\w.-]*", name) and ".." not in name for name in names_of_files):
                return False  # a server may have tags from anybody
            trial, name, execution = names_of_files
            path = Path(ATTEMPTS, trial, f"{name}.jsonl") if name else Path(EXECUTIONS, f"{execution}.json")
            target = folder / _folder_name(names[run.info.experiment_id]) / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with suppress(MlflowException, FileNotFoundError):  # its driver was killed before it had attached the file
                file = client.download_artifacts(run.info.run_id, path.name, str(target.parent))
                write_atomic(target, Path(file).read_text(encoding="utf-8", errors="replace"))
                return True
            return False

        with ThreadPoolExecutor(PARALLEL) as pool:
            left_out += [*pool.map(fetch, chosen)].count(False)
        return [folder / _folder_name(name) for name in grids if grid in (None, name)], left_out


def _folder_name(grid: str) -> str:
    return re.sub(r"[^\w.~-]", "_", grid).lstrip(".") or "_"


def _create(database: Path) -> None:
    """Create a new sqlite database, moved into place when it is complete.

    Creating one takes seconds. MLflow permanently refuses an incomplete database, whether its creator was killed or is
    still working.
    """
    # A new name for each try: MLflow keeps its connections to a file that has failed.
    lock, new = (database.with_name(f"{database.name}.{end}") for end in ("lock", f"new-{uuid4().hex}"))
    database.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(lock, timeout=CREATION_TIMEOUT_S):
        if not database.exists():
            for failed in database.parent.glob(f"{database.name}.new-*"):
                failed.unlink()
            MlflowClient(f"sqlite:///{new.as_posix()}").search_experiments(max_results=1)
            new.rename(database)
        lock.unlink(missing_ok=True)


def _search(client: Any, experiments: Sequence[str], token: str | None) -> Any:
    ours, order = f"tags.`{p.GRID}` LIKE '%'", ["attributes.start_time ASC"]  # a server may have other programs' runs
    return client.search_runs(experiments, ours, order_by=order, max_results=PAGE, page_token=token)


def _pages(query: Callable[[str | None], Any]) -> Iterator[Any]:
    token: str | None = None
    while True:
        page = query(token)
        yield from page
        token = page.token
        if not token:
            return


def _check_database(store: Store) -> None:
    """Check that a sqlite file is MLflow's; otherwise MLflow would create its tables in it."""
    if store.path is None:
        return
    if not store.path.is_file():
        raise StoreError(f"MLflow store {store}: no such file")
    with redacted_errors(store), closing(sqlite3.connect(f"{store.path.as_uri()}?mode=ro", uri=True)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'experiments'").fetchone():
            raise StoreError(f"MLflow store {store}: this is a different program's database; choose a new file")


def _is_ended(stored: Any) -> bool:
    return bool(entities.RunStatus.is_terminated(entities.RunStatus.from_string(stored.info.status)))


def _origin() -> dict[str, str]:
    """Tags that MLflow's pages show as a run's source and user."""
    tags = {"mlflow.source.name": "raybench", "mlflow.source.type": "LOCAL"}
    # The user of a container may not have a name.
    with suppress(KeyError, OSError, ImportError):
        tags["mlflow.user"] = getpass.getuser()
    return tags
