"""The run `grid NAME` of an execution: there from its beginning, it says whose the runs of trials are.

It shows that its driver lives, carries at the end what the execution came to, and where its driver has gone another one
ends it, with the runs that belong to it.
"""

from __future__ import annotations

import getpass
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from raybench.tracking import projection as p
from raybench.tracking.abandoned import abandoned
from raybench.tracking.driver import this_driver
from raybench.tracking.found import Found, Run
from raybench.tracking.projection import Summary
from raybench.tracking.store import Store, telling
from raybench.trial.events import KILLED, LOST, now


def reopen(client: Any, run: Run) -> None:
    """Take back a run that another driver has ended."""
    if run.closed:
        client.update_run(run.run_id, status="RUNNING")
        client.delete_tag(run.run_id, p.CLOSED_BY)
        run.closed = False


def drop_doubles(client: Any, run: Run) -> None:
    """Delete further runs of the same thing; MLflow's trash keeps them."""
    while run.doubles:
        client.delete_run(run.doubles[-1])
        run.doubles.pop()


class ExecutionRuns:
    """The runs of the executions of one grid, and of one of them that is this process's.

    Args:
        client: MLflow's client of the store.
        store: where.
        experiment: the grid's experiment.
        grid: the grid's name.
        own: the name of this process's execution; empty where there is none.

    Raises:
        StoreError: the store cannot be reached or used; so does every method.
    """

    def __init__(self, client: Any, store: Store, experiment: str, grid: str, own: str) -> None:
        self._client, self._store, self._experiment, self._grid, self._name = client, store, experiment, grid, own
        self._own: Run | None = None

    def new(self, name: str, started: int | None, tags: Mapping[str, str]) -> Any:
        """A new run of the experiment."""
        told = {**tags, **p.smoke_tags(self._grid), **_origin()}
        return self._client.create_run(self._experiment, started, told, name)

    def see(self, run: Any) -> None:
        """Take note of a run that was found."""
        if not self._name or run.data.tags.get(p.SUMMARY) != self._name:
            return
        if self._own is None:
            self._own = Run(run.info.run_id)
        if self._own.run_id == run.info.run_id:
            self._own.closed = p.CLOSED_BY in run.data.tags
        elif run.info.run_id not in self._own.doubles:
            self._own.doubles.append(run.info.run_id)

    def begin(self) -> None:
        """Have the run of this process's execution there."""
        if self._name and self._own is None:
            with telling(self._store):
                tags = {p.GRID: self._grid, p.SUMMARY: self._name, p.DRIVER: this_driver().to_json()}
                made = self.new(f"grid {self._grid}", milliseconds_now(), tags | {p.HEARTBEAT: now()})
                self._own = Run(made.info.run_id)

    def beat(self) -> None:
        """Show that this process's execution goes on."""
        if self._own:
            with telling(self._store):
                drop_doubles(self._client, self._own)
                reopen(self._client, self._own)
                self._client.set_tag(self._own.run_id, p.HEARTBEAT, now())

    def give_up(self) -> None:
        """End the run of this process's execution, which did not come to what it would have told."""
        if self._own:
            with telling(self._store):
                self._client.set_terminated(self._own.run_id, p.state(KILLED))

    def close_abandoned(self, found: Found, ours: Collection[str]) -> int:
        """End the runs whose driver has gone, and no others (`raybench.tracking.abandoned`).

        Args:
            found: what there is.
            ours: the attempts of the journal whose folder this process holds; what it tells of them will be written.

        Returns:
            How many were ended.
        """
        gone = abandoned(found.open, ours)
        with telling(self._store):
            for run in gone:
                self._client.set_tag(run.run_id, p.CLOSED_BY, str(this_driver()))
                if p.STATUS in run.tags:
                    self._client.set_tag(run.run_id, p.STATUS, LOST)
                self._client.set_terminated(run.run_id, p.state(LOST))
        return len(gone)

    def write_summary(self, summary: Summary) -> None:
        """Write what an execution came to into its run, made where it is missing; a second time changes nothing."""
        with telling(self._store):
            clause = f"tags.`{p.SUMMARY}` = '{summary.execution}'"
            found = list(self._client.search_runs([self._experiment], clause))
            found.sort(key=lambda run: run.info.status != "FINISHED")
            drop_doubles(self._client, Run("", doubles=[run.info.run_id for run in found[1:]]))
            if found and found[0].info.status == "FINISHED":
                return
            tags = {p.GRID: self._grid, p.SUMMARY: summary.execution}
            started, ended = p.milliseconds(summary.started), p.milliseconds(summary.ended)
            run = found[0] if found else self.new(f"grid {self._grid}", started, tags)
            reopen(self._client, Run(run.info.run_id, closed=p.CLOSED_BY in run.data.tags))
            moment = ended or started or milliseconds_now()
            for name, count in summary.counts.items():
                self._client.log_metric(run.info.run_id, f"trials/{name}", count, moment, 0)
            with TemporaryDirectory() as folder:
                for name, text in summary.files.items():
                    (Path(folder) / name).write_text(text, encoding="utf-8")
                self._client.log_artifacts(run.info.run_id, folder)
            self._client.set_terminated(run.info.run_id, "FINISHED", ended)


def milliseconds_now() -> int:
    """Milliseconds since 1970."""
    return round(time.time() * 1000)


def _origin() -> dict[str, str]:
    """Where a run comes from, as MLflow's pages show it; without it they say `-` and `unknown`."""
    found = {"mlflow.source.name": "raybench", "mlflow.source.type": "LOCAL"}
    # A container's user may have no name.
    with suppress(KeyError, OSError, ImportError):
        found["mlflow.user"] = getpass.getuser()
    return found
