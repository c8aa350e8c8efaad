"""MLflow: the one module that imports it, and the one place where runs are written. Import it only where it is used.

To import it is to decide how MLflow behaves in this process: it sends no telemetry, prints no URLs, and gives up on a
server that does not answer after seconds. What a person's own environment says goes first.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

from raybench.analysis.results import Attempt
from raybench.audit import SAMPLES
from raybench.tracking import projection as p
from raybench.tracking.execution_runs import ExecutionRuns, drop_doubles, milliseconds_now, reopen
from raybench.tracking.found import Found, Open, Run
from raybench.tracking.series import points
from raybench.tracking.store import Store, StoreError, telling
from raybench.trial.record import ERROR, EVENTS, OUTPUT
from raybench.trial.sheet import SHEET

ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    # The URLs it would print carry the credentials of the tracking URI.
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    # By default one call to a dead server takes four minutes. Whoever calls tries again, and looks first at what is
    # there: a request whose answer was lost has been done, and MLflow, which repeats it, would make a second run.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
}
for _variable, _value in ENVIRONMENT.items():
    os.environ.setdefault(_variable, _value)

import mlflow.entities as entities  # noqa: E402 — the environment comes first
from mlflow.exceptions import MlflowException  # noqa: E402
from mlflow.tracking import MlflowClient  # noqa: E402
from mlflow.utils.rest_utils import http_request  # noqa: E402

# These speak of migrations nobody needs to know of, quote URIs with their credentials, and tell every error with a
# traceback before it comes to us.
for _logger in ("alembic", "mlflow.store.db.utils", "urllib3.connectionpool"):
    logging.getLogger(_logger).setLevel(logging.CRITICAL)

# A batch may hold 1,000 things, 100 parameters and 100 tags among them.
METRICS_A_BATCH = 800
PARAMETERS_A_BATCH = 100
PAGE = 1000


class Runs:
    """The runs of one grid: an experiment in a store, both made where they are missing.

    Args:
        store: where.
        grid: the grid's name.
        execution: the execution that writes; its name is in every run that it makes.

    Not for several threads at once, and only one process may make a new store: two would crash each other's migration.

    Raises:
        StoreError: the store cannot be reached or used; so does every method.
    """

    def __init__(self, store: Store, grid: str, execution: str = "") -> None:
        self._store, self._grid, self._execution = store, grid, execution
        with telling(self._store):
            self._client = MlflowClient(store.uri)
            self._experiment = self._open(store)
        self.execution = ExecutionRuns(self._client, store, self._experiment, grid, execution)

    def _open(self, store: Store) -> str:
        found = self._client.get_experiment_by_name(self._grid)
        if found is None:
            where = f"{store.artifacts}/{self._grid}" if store.artifacts else None
            try:
                tags = p.experiment_tags(self._grid, milliseconds_now())
                return str(self._client.create_experiment(self._grid, artifact_location=where, tags=tags))
            except MlflowException:
                # Another driver, on another results folder, may have been quicker.
                found = self._client.get_experiment_by_name(self._grid)
                if found is None:
                    raise
        if found.lifecycle_stage != entities.LifecycleStage.ACTIVE:
            raise StoreError(
                f"the experiment {self._grid} was deleted in MLflow: bring it back with "
                f"`mlflow experiments restore --experiment-id {found.experiment_id}`, or give the grid another name"
            )
        return str(found.experiment_id)

    def find(self) -> Found:
        """All there is; a thousand runs are one search."""
        found = Found()
        token: str | None = None
        with telling(self._store):
            while True:
                page = self._client.search_runs([self._experiment], max_results=PAGE, page_token=token)
                for run in page:
                    self._sort_in(run, found)
                token = page.token
                if not token:
                    return found

    def _sort_in(self, run: Any, found: Found) -> None:
        tags = run.data.tags
        if run.info.status == "RUNNING":
            found.open.append(Open(run.info.run_id, tags, run.info.start_time or 0))
        elif p.SUMMARY in tags and p.CLOSED_BY not in tags:
            found.executions.add(tags[p.SUMMARY])
        if p.ATTEMPT_ID in tags:
            known, before = self._known(run), found.runs.get(tags[p.ATTEMPT_ID])
            if before:
                # The one that has more is kept.
                if (known.ended, len(known.epochs)) > (before.ended, len(before.epochs)):
                    known, before = before, known
                before.doubles += [known.run_id, *known.doubles]
                known = before
            found.runs[tags[p.ATTEMPT_ID]] = known
        self.execution.see(run)

    def _known(self, found: Any) -> Run:
        closed = p.CLOSED_BY in found.data.tags
        if not closed and entities.RunStatus.is_terminated(entities.RunStatus.from_string(found.info.status)):
            return Run(found.info.run_id, ended=True)
        history = (
            self._client.get_metric_history(found.info.run_id, p.EPOCH_TIME)
            if p.EPOCH_TIME in found.data.metrics
            else []
        )
        described = "repeat" in found.data.params and bool(found.inputs and found.inputs.dataset_inputs)
        return Run(found.info.run_id, {metric.step for metric in history}, described, closed=closed)

    def write(self, attempt: Attempt, run: Run | None = None, folder: Path | None = None) -> Run:
        """Bring an attempt's run up to what is known of it.

        What is there already is not written again; a run that has its last status is left as it is.

        Args:
            attempt: what is known.
            run: what is in MLflow of it; None where nothing is, and then it is made.
            folder: the attempt's folder, for its events, its samples, its output and its traceback.

        Returns:
            What is in MLflow now. After an error nobody knows: `find` tells.
        """
        with telling(self._store):
            run = run or self._create(attempt)
            drop_doubles(self._client, run)
            if run.ended:
                return run
            reopen(self._client, run)
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
                metrics += [entities.Metric(*point) for point in (points(folder) if folder else ())]
            self._batch(
                run.run_id, metrics, {} if run.described else p.parameters(attempt), p.tags(attempt, self._grid)
            )
            run.epochs |= {epoch.epoch for epoch in new}
            if not run.described:
                self._data_set(attempt, run.run_id)
                run.described = bool(attempt.cell)
            if attempt.status is not None:
                self._artifacts(attempt, run.run_id, folder)
                ended_ms = p.milliseconds(attempt.ended, attempt.started)
                self._client.set_terminated(run.run_id, p.state(attempt.status), ended_ms)
                run.ended = True
            return run

    def _create(self, attempt: Attempt) -> Run:
        first = attempt.epochs[0].t if attempt.epochs else None
        started = p.milliseconds(attempt.started, first, attempt.ended)
        tags = p.tags(attempt, self._grid) | ({p.EXECUTION: self._execution} if self._execution else {})
        return Run(self.execution.new(p.run_name(attempt), started, tags).info.run_id)

    def _batch(
        self, run_id: str, metrics: Sequence[Any], parameters: Mapping[str, str], tags: Mapping[str, str]
    ) -> None:
        params = [entities.Param(name, text) for name, text in parameters.items()]
        told = [entities.RunTag(name, text) for name, text in tags.items()]
        while metrics or params or told:
            self._client.log_batch(run_id, metrics[:METRICS_A_BATCH], params[:PARAMETERS_A_BATCH], told)
            metrics, params, told = metrics[METRICS_A_BATCH:], params[PARAMETERS_A_BATCH:], []

    def _data_set(self, attempt: Attempt, run_id: str) -> None:
        named = p.data_set(attempt)
        if named:
            name, digest = named
            dataset = entities.Dataset(name, digest, source_type="raybench", source=name)
            context = [entities.InputTag("mlflow.data.context", "training")]
            self._client.log_inputs(run_id, [entities.DatasetInput(dataset, context)])

    def _artifacts(self, attempt: Attempt, run_id: str, folder: Path | None) -> None:
        names = (EVENTS, SAMPLES, OUTPUT, ERROR, SHEET)
        there = [folder / name for name in names if (folder / name).is_file()] if folder else []
        for path in there:
            self._client.log_artifact(run_id, str(path))
        # A trial of another machine may have left its files there; its traceback came with its events.
        trace = (attempt.error or {}).get("traceback")
        if isinstance(trace, str) and ERROR not in {path.name for path in there}:
            self._client.log_text(run_id, trace, ERROR)


def client_of(store: Store) -> Any:
    """MLflow's own client of a store."""
    return MlflowClient(store.uri)


def page_of(client: Any, path: str, params: Sequence[tuple[str, str]]) -> Any:
    """What the server behind a client has under a path of its UI, as JSON; None where it has no such page.

    Raises:
        Exception: MLflow's, or the connection's.
    """
    answer = http_request(client._tracking_client.store.get_host_creds(), path, "GET", params=params)
    return answer.json() if answer.status_code == HTTPStatus.OK else None
