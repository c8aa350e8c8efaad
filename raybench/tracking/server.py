"""Every run of an MLflow server: a search for each thousand of them, and a request for each metric of a hundred."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from raybench.tracking import projection as p
from raybench.tracking.mlflow import PAGE, client_of, page_of
from raybench.tracking.store import Store, telling
from raybench.tracking.stored import NOT_OF_EPOCHS, ListedRun, StoredRun, listed_run

BULK = "/ajax-api/2.0/mlflow/metrics/get-history-bulk"
"""Where the pages of MLflow's UI get their curves from; a server that has no such page is asked run by run."""

RUNS_A_REQUEST, POINTS_A_REQUEST = 100, 25_000
"""What a server gives at most in one answer."""

AT_ONCE = 8

Point = tuple[str, float, int, int]
"""Run, value, step, milliseconds since 1970."""


def read(store: Store, grid: str | None) -> tuple[list[StoredRun], dict[str, Any]]:
    """Every run of a grid, or of all grids, in the order in which they began; deleted ones are left out.

    Returns:
        The runs, and by grid what its last execution says of its settings.

    Raises:
        StoreError: the server cannot be reached or used.
    """
    with telling(store):
        client = client_of(store)
        experiments = {one.experiment_id: one.name for one in _experiments(client, grid)}
        found = list(_runs(client, list(experiments))) if experiments else []
        runs = {}
        wanted: dict[str, list[str]] = {}
        for run in found:
            if p.TRIAL in run.data.tags:
                made = StoredRun(experiments[run.info.experiment_id], run.info.run_name or "")
                made.started, made.ended = run.info.start_time, run.info.end_time
                made.params, made.tags = dict(run.data.params), dict(run.data.tags)
                runs[run.info.run_id] = made
                for name, value in run.data.metrics.items():
                    if name.startswith(NOT_OF_EPOCHS):
                        made.summary[name] = value
                    else:
                        wanted.setdefault(name, []).append(run.info.run_id)
        jobs = [
            (name, ids[first : first + RUNS_A_REQUEST])
            for name, ids in wanted.items()
            for first in range(0, len(ids), RUNS_A_REQUEST)
        ]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for (name, _), points in zip(jobs, pool.map(lambda job: _history(client, *job), jobs), strict=True):
                for run_id, value, step, t in points:
                    runs[run_id].add(name, value, step, t)
        last = {experiments[run.info.experiment_id]: run for run in found if p.SUMMARY in run.data.tags}
        return list(runs.values()), {grid: _effective(client, run.info.run_id) for grid, run in last.items()}


def listed(store: Store, grid: str) -> list[ListedRun]:
    """The runs of a grid's trials, in a search for each thousand of them.

    Raises:
        StoreError: the server cannot be reached or used.
    """
    with telling(store):
        client = client_of(store)
        experiments = [one.experiment_id for one in _experiments(client, grid)]
        runs = list(_runs(client, experiments)) if experiments else []
    # A server's own folder is not this machine's, even where it has the same name.
    found = (listed_run(run.info.run_id, run.info.status, run.data.tags, None) for run in runs)
    return [run for run in found if run is not None]


def fetch(store: Store, run: str, name: str, folder: Path) -> Path | None:
    """An artifact of a run, brought into a new folder; None where it is not to be had."""
    folder.mkdir()
    # MLflow's errors and those of whatever keeps the artifacts: what is missing can be made of the run.
    try:
        return Path(client_of(store).download_artifacts(run, name, str(folder)))
    except Exception:
        return None


def _experiments(client: Any, grid: str | None) -> list[Any]:
    if grid is not None:
        found = client.get_experiment_by_name(grid)
        return [found] if found is not None and found.lifecycle_stage == "active" else []
    return list(_pages(lambda token: client.search_experiments(max_results=PAGE, page_token=token)))


def _runs(client: Any, experiments: Sequence[str]) -> Iterator[Any]:
    order = ["attributes.start_time ASC"]
    return _pages(lambda token: client.search_runs(experiments, order_by=order, max_results=PAGE, page_token=token))


def _pages(ask: Any) -> Iterator[Any]:
    token = None
    while True:
        page = ask(token)
        yield from page
        token = page.token
        if not token:
            return


def _history(client: Any, name: str, runs: Sequence[str]) -> list[Point]:
    """Every point of a metric of some runs; where they are too many for one answer, of each half of the runs."""
    asked = [*(("run_id", run) for run in runs), ("metric_key", name), ("max_results", str(POINTS_A_REQUEST))]
    page = page_of(client, BULK, asked)
    told = page.get("metrics") if isinstance(page, dict) else None
    if told is None or (len(runs) == 1 and len(told) >= POINTS_A_REQUEST):
        return [
            (run, point.value, point.step, point.timestamp)
            for run in runs
            for point in client.get_metric_history(run, name)
        ]
    if len(told) >= POINTS_A_REQUEST:
        half = len(runs) // 2
        return _history(client, name, runs[:half]) + _history(client, name, runs[half:])
    return [(one["run_id"], float(one["value"]), int(one["step"]), int(one["timestamp"])) for one in told]


def _effective(client: Any, run: str) -> Any:
    """What an execution says of its grid; None where its file is not to be had."""
    with TemporaryDirectory() as folder:
        try:
            return json.loads(Path(client.download_artifacts(run, p.EFFECTIVE, folder)).read_text(encoding="utf-8"))
        # MLflow's and those of whatever keeps the artifacts; a price is no reason to give up all results.
        except Exception:
            return None
