"""MLflow: the one module that imports it, and the one place where runs are written. Import it only where it is used.

To import it is to decide how MLflow behaves in this process: it sends no telemetry, prints no URLs, and gives up on a
server that does not answer after seconds. What a person's own environment says goes first.
"""

from __future__ import annotations

import getpass
import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import shorten
from typing import Any

from raybench.analysis.results import Attempt, Key
from raybench.audit import SAMPLES
from raybench.tracking import projection as p
from raybench.tracking.projection import Summary
from raybench.tracking.series import points
from raybench.tracking.store import MESSAGE_LENGTH, Store, StoreError, redact_text
from raybench.trial.record import ERROR, EVENTS, OUTPUT
from raybench.trial.sheet import SHEET

ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    # The URLs it would print carry the credentials of the tracking URI.
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    # By default one call to a dead server takes four minutes.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
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


@dataclass
class Run:
    """What is in MLflow of one attempt.

    Attributes:
        epochs: the epochs whose metrics are there.
        described: parameters and data set are there.
        ended: its status is a last one, which is written when all else is there.
    """

    run_id: str
    epochs: set[int] = field(default_factory=set)
    described: bool = False
    ended: bool = False


class Runs:
    """The runs of one grid: an experiment in a store, both made where they are missing.

    Not for several threads at once, and only one process may make a new store: two would crash each other's migration.

    Raises:
        StoreError: the store cannot be reached or used; so does every method.
    """

    def __init__(self, store: Store, grid: str) -> None:
        self._store, self._grid = store, grid
        with telling(self._store):
            self._client = MlflowClient(store.uri)
            self._experiment = self._open(store)

    def _open(self, store: Store) -> str:
        found = self._client.get_experiment_by_name(self._grid)
        if found is None:
            where = f"{store.artifacts}/{self._grid}" if store.artifacts else None
            try:
                tags = p.experiment_tags(self._grid, _now())
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

    def find(self) -> dict[Key, Run]:
        """What there is of every attempt, by the runs' tags; a thousand runs are one search."""
        found: dict[Key, Run] = {}
        token: str | None = None
        with telling(self._store):
            while True:
                page = self._client.search_runs([self._experiment], max_results=PAGE, page_token=token)
                for run in page:
                    trial, number = run.data.tags.get(p.TRIAL), run.data.tags.get(p.ATTEMPT, "")
                    if trial and number.isdecimal():
                        found.setdefault((trial, int(number)), self._known(run))
                token = page.token
                if not token:
                    return found

    def _known(self, found: Any) -> Run:
        if entities.RunStatus.is_terminated(entities.RunStatus.from_string(found.info.status)):
            return Run(found.info.run_id, ended=True)
        history = (
            self._client.get_metric_history(found.info.run_id, p.EPOCH_TIME)
            if p.EPOCH_TIME in found.data.metrics
            else []
        )
        described = "repeat" in found.data.params and bool(found.inputs and found.inputs.dataset_inputs)
        return Run(found.info.run_id, {metric.step for metric in history}, described)

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
        return Run(self._new(p.run_name(attempt), started, p.tags(attempt, self._grid)).info.run_id)

    def _new(self, name: str, started: int | None, tags: Mapping[str, str]) -> Any:
        return self._client.create_run(self._experiment, started, {**tags, **_origin()}, name)

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

    def write_summary(self, summary: Summary) -> None:
        """Write the run `grid NAME` of one execution; a second time changes nothing."""
        with telling(self._store):
            clause = f"tags.`{p.SUMMARY}` = '{summary.execution}'"
            found = self._client.search_runs([self._experiment], clause, max_results=1)
            if found and found[0].info.status == "FINISHED":
                return
            tags = {p.GRID: self._grid, p.SUMMARY: summary.execution, **p.smoke_tags(self._grid)}
            started, ended = p.milliseconds(summary.started), p.milliseconds(summary.ended)
            run = found[0] if found else self._new(f"grid {self._grid}", started, tags)
            moment = ended or started or _now()
            counts = [entities.Metric(f"trials/{name}", n, moment, 0) for name, n in summary.counts.items()]
            self._batch(run.info.run_id, counts, {}, {})
            with TemporaryDirectory() as folder:
                for name, text in summary.files.items():
                    (Path(folder) / name).write_text(text, encoding="utf-8")
                self._client.log_artifacts(run.info.run_id, folder)
            self._client.set_terminated(run.info.run_id, "FINISHED", ended)


@contextmanager
def telling(store: Store) -> Iterator[None]:
    """Whatever MLflow, a database or a connection raises, as one line without a credential."""
    try:
        yield
    except StoreError:
        raise
    except Exception as error:
        words = (str(error).strip() or type(error).__name__).splitlines()[0]
        # Shortened last: a secret cut in two would not be found.
        text = shorten(redact_text(words, store.uri), MESSAGE_LENGTH, placeholder=" …")
        raise StoreError(f"MLflow store {store}: {text}") from None


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


def _now() -> int:
    return round(time.time() * 1000)


def _origin() -> dict[str, str]:
    """Where a run comes from, as MLflow's pages show it; without it they say `-` and `unknown`."""
    found = {"mlflow.source.name": "raybench", "mlflow.source.type": "LOCAL"}
    # A container's user may have no name.
    with suppress(KeyError, OSError, ImportError):
        found["mlflow.user"] = getpass.getuser()
    return found
