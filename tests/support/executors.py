"""An executor without Ray whose trials are real processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

from raybench.core import events
from raybench.core.events import Event
from raybench.core.job import Job
from raybench.core.status import TrialStatus
from raybench.devices import Hardware
from raybench.execution.base import Executor, MakeJob, Sink, Tell
from raybench.execution.host_resources import HostResources
from raybench.execution.process import ForkServer
from raybench.execution.schedule import Schedule, ScheduledTrial
from raybench.monitoring.host import HostLoad
from raybench.planning.node import Node, probe_node
from raybench.results.folder import add_event


class ForkingExecutor(Executor):
    """Runs one trial after another, each in a process forked from the fork server of its framework and environment.

    Args:
        server: returns the fork server of a framework (the fixture `fork_server`).
        load: a made-up use of this machine by other programs.
    """

    def __init__(self, server: Callable[[str], ForkServer], load: HostLoad | None = None) -> None:
        self._server, self._load = server, load
        self._environments: dict[tuple[str, str], ForkServer] = {}

    def nodes(self, environments: Sequence[str] = ()) -> list[Node]:
        """This machine."""
        return [probe_node(environments=environments)]

    def host_load(self) -> HostLoad | None:
        """The made-up one."""
        return self._load

    def run(self, schedule: Schedule, make_job: MakeJob, sink: Sink, tell: Tell) -> None:
        """Run each trial to its end, a lost one again."""
        while assignment := schedule.next():
            status = None
            for check in (*assignment.work.checks, None):
                job = HostResources(assignment.nodes[0]).take(make_job(assignment, check))
                for event in self._server_of(job).run(job):
                    status = event.get("status", status)
                    sink(event)
                if check:
                    schedule.check_ended(check.key)
            work = assignment.work
            schedule.release(work.trial.trial_id, work.attempt, lost=status == TrialStatus.LOST)

    def _server_of(self, job: Job) -> ForkServer:
        if not job.python:
            return self._server(job.preloaded)
        key = job.preloaded, job.python
        if key not in self._environments:
            self._environments[key] = ForkServer(*key)
        return self._environments[key]

    def close(self) -> None:
        """Keep the fork servers of raybench's own Python."""
        for server in self._environments.values():
            server.close()


_this_node = cache(probe_node)


class DrawnTimes(Executor):
    """Ends each trial at once; the seconds of its epochs are drawn, and the clock goes on by 10 µs for each event.

    Args:
        draw: returns the seconds of an epoch of a job; None if it fails.
        stop_after: press Ctrl-C after so many trials.
        accuracies: returns the accuracy of a job after each of its epochs; without it there are two epochs without one.
        at_once: how many trials run at a time, if they fit.
    """

    def __init__(
        self,
        draw: Callable[[Job], float | None],
        stop_after: int | None = None,
        accuracies: Callable[[Job], Sequence[float]] | None = None,
        at_once: int = 1,
    ) -> None:
        self._draw, self._stop_after, self._accuracies, self._at_once = draw, stop_after, accuracies, at_once
        self.trials: list[str] = []

    def nodes(self, environments: Sequence[str] = ()) -> list[Node]:
        """This machine, with a core for each of several trials at once."""
        cores = Hardware("cpu", "made-up", self._at_once, ids=tuple(map(str, range(self._at_once))))
        return [replace(_this_node(), hardware=(cores,)) if self._at_once > 1 else _this_node()]

    def run(self, schedule: Schedule, make_job: MakeJob, sink: Sink, tell: Tell) -> None:
        """End each trial at once."""
        self._now = datetime.now(UTC)
        running: list[ScheduledTrial] = []
        while True:
            while len(running) < self._at_once and (assignment := schedule.next()):
                running.append(assignment)
            if not running:
                return
            assignment = running.pop(0)
            if len(self.trials) == self._stop_after:
                raise KeyboardInterrupt
            job = make_job(assignment, None)
            self.trials.append(job.trial)
            for event in self._events(job):
                self._now += timedelta(microseconds=10)
                event |= {"t": self._now.isoformat(timespec="microseconds").replace("+00:00", "Z")}
                add_event(Path(job.folder), event)
                sink(event)
            schedule.release(job.trial, job.attempt)

    def _events(self, job: Job) -> Iterator[Event]:
        key = job.trial, job.attempt
        fields = {"cell": job.cell.to_json(), "seed": job.seed, "host": {"name": "drawn"}, **job.labels}
        yield events.trial_started(*key, **fields)
        seconds = self._draw(job)
        if seconds is None:
            yield events.trial_ended(*key, TrialStatus.FAILED, error={"type": "ValueError", "message": "drawn"})
            return
        metrics = [{"val/accuracy": value} for value in self._accuracies(job)] if self._accuracies else [{}, {}]
        for number, logged in enumerate(metrics, 1):
            ledger = {"train": seconds}
            yield events.epoch_ended(*key, epoch=number, steps=1, examples=8, metrics=logged, ledger=ledger)
        whole = len(metrics) * seconds
        yield events.trial_ended(*key, TrialStatus.COMPLETED, ledger={"train": whole}, wall=whole)
