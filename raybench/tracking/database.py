"""Every run of an MLflow database in five queries, whatever their number.

MLflow's own client asks once for each metric of each run. Its tables have had these names and columns since its first
version with databases; they are read here and never written, and MLflow itself is not needed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from textwrap import shorten
from typing import Any

import sqlalchemy as sa

from raybench.tracking import projection as p
from raybench.tracking.store import MESSAGE_LENGTH, Store, StoreError, redact_text, remedy
from raybench.tracking.stored import ListedRun, StoredRun, folder_of, listed_run


def _table(name: str, columns: str) -> Any:
    return sa.table(name, *map(sa.column, columns.split()))


_RUNS = _table("runs", "run_uuid name status start_time end_time lifecycle_stage experiment_id artifact_uri")
_EXPERIMENTS = _table("experiments", "experiment_id name lifecycle_stage")
_TAGS = _table("tags", "run_uuid key value")
_PARAMS = _table("params", "run_uuid key value")
_METRICS = _table("metrics", "run_uuid key value step timestamp is_nan")


def read(store: Store, grid: str | None) -> tuple[list[StoredRun], dict[str, Any]]:
    """Every run of a grid, or of all grids, in the order in which they began; deleted ones are left out.

    Returns:
        The runs, and by grid what its last execution says of its settings, where that can be read.

    Raises:
        StoreError: it cannot be reached, or is no database of MLflow.
    """
    with _connected(store) as connection:
        return _read(connection, grid)


def listed(store: Store, grid: str) -> list[ListedRun]:
    """The runs of a grid's trials, in one query.

    Raises:
        StoreError: it cannot be reached, or is no database of MLflow.
    """
    told: dict[tuple[str, str, str | None], dict[str, str]] = {}
    wanted = (
        sa.select(_RUNS.c.run_uuid, _RUNS.c.status, _RUNS.c.artifact_uri, _TAGS.c.key, _TAGS.c.value)
        .join(_EXPERIMENTS, _RUNS.c.experiment_id == _EXPERIMENTS.c.experiment_id)
        .join(_TAGS, _RUNS.c.run_uuid == _TAGS.c.run_uuid)
        .where(_TAGS.c.key.in_([p.TRIAL, p.ATTEMPT, p.STATUS]), _EXPERIMENTS.c.name == grid)
        .where(_RUNS.c.lifecycle_stage == "active", _EXPERIMENTS.c.lifecycle_stage == "active")
    )
    with _connected(store) as connection:
        for run, state, artifacts, name, value in connection.execute(wanted):
            told.setdefault((run, state or "", artifacts), {})[name] = value or ""
    found = (listed_run(run, state, tags, artifacts) for (run, state, artifacts), tags in told.items())
    return [run for run in found if run is not None]


@contextmanager
def _connected(store: Store) -> Iterator[sa.Connection]:
    if store.path is not None and not store.path.is_file():
        raise StoreError(f"MLflow store {store}: there is no such file")
    try:
        engine = sa.create_engine(store.uri)
        try:
            with engine.connect() as connection:
                yield connection
        finally:
            engine.dispose()
    except (sa.exc.SQLAlchemyError, ImportError) as error:
        words = str(getattr(error, "orig", None) or error).strip().splitlines()[0] + remedy(error)
        text = shorten(redact_text(words, store.uri), MESSAGE_LENGTH, placeholder=" …")
        raise StoreError(f"MLflow store {store}: {text}") from None


def _read(connection: sa.Connection, grid: str | None) -> tuple[list[StoredRun], dict[str, Any]]:
    def of(tag: str) -> Any:
        """The runs that are there, of the grid that is asked for, and have a tag."""
        found = (
            sa.select(_RUNS.c.run_uuid)
            .join(_EXPERIMENTS, _RUNS.c.experiment_id == _EXPERIMENTS.c.experiment_id)
            .join(_TAGS, _RUNS.c.run_uuid == _TAGS.c.run_uuid)
            .where(_TAGS.c.key == tag, _RUNS.c.lifecycle_stage == "active", _EXPERIMENTS.c.lifecycle_stage == "active")
        )
        return found if grid is None else found.where(_EXPERIMENTS.c.name == grid)

    def rows(tag: str, *columns: Any) -> Any:
        return (
            sa.select(_RUNS.c.run_uuid, _EXPERIMENTS.c.name, *columns)
            .join(_EXPERIMENTS, _RUNS.c.experiment_id == _EXPERIMENTS.c.experiment_id)
            .where(_RUNS.c.run_uuid.in_(of(tag)))
            .order_by(_RUNS.c.start_time, _RUNS.c.run_uuid)
        )

    trials = rows(p.TRIAL, _RUNS.c.name.label("run"), _RUNS.c.start_time, _RUNS.c.end_time)
    runs = {
        run: StoredRun(experiment, name or "", started, ended)
        for run, experiment, name, started, ended in connection.execute(trials)
    }
    for table, place in ((_TAGS, "tags"), (_PARAMS, "params")):
        wanted = sa.select(table.c.run_uuid, table.c.key, table.c.value).where(table.c.run_uuid.in_(of(p.TRIAL)))
        for run, key, value in connection.execute(wanted):
            if run in runs:
                getattr(runs[run], place)[key] = value or ""
    m = _METRICS.c
    points = sa.select(m.run_uuid, m.key, m.value, m.step, m.timestamp).where(
        m.run_uuid.in_(of(p.TRIAL)), sa.not_(m.is_nan), sa.not_(m.key.like("system/%"))
    )
    for run, key, value, step, t in connection.execute(points):
        if run in runs:
            runs[run].add(key, value, step, t)
    executions = connection.execute(rows(p.SUMMARY, _RUNS.c.artifact_uri))
    return list(runs.values()), dict(_effective((name, uri) for _, name, uri in executions))


def _effective(executions: Iterator[tuple[str, str | None]]) -> Iterator[tuple[str, Any]]:
    """What executions say of their grids, of those whose artifacts are files that can be read from here."""
    for grid, uri in executions:
        folder = folder_of(uri)
        if folder is None:
            continue
        try:
            told = json.loads((folder / p.EFFECTIVE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(told, Mapping):
            yield grid, told
