"""What a store has of a grid and this journal has not: attempts of another machine, or of another results folder."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from raybench.analysis.results import Attempt, Key, attempts
from raybench.tracking.journal import read
from raybench.tracking.store import Store, is_server
from raybench.tracking.stored import ListedRun, StoredRun, attempt_of
from raybench.trial import events
from raybench.trial.events import Event
from raybench.trial.record import EVENTS


@dataclass(frozen=True)
class Elsewhere:
    """What a store says of the trials that were asked for.

    Attributes:
        taken: the highest number of an attempt at each trial.
        events: of the attempts that came to an end of their own and that the journal lacks; each says the store it is
            `from`.
        hosts: where those ran.
    """

    taken: Mapping[str, int]
    events: Sequence[Event] = ()
    hosts: Sequence[str] = ()


def look(store: Store, grid: str, trials: Collection[str], known: Collection[Key]) -> Elsewhere:
    """Ask a store for attempts at some trials: one query, and where there is something new, those that fetch it.

    An attempt's own events come from its artifacts, where these can be read from here; or else they are made of its
    parameters, metrics and tags, which have its times, its metrics and its end, and no more.

    Raises:
        StoreError: it cannot be reached or used.
    """
    if store.path is not None and not store.path.is_file():
        return Elsewhere({})
    if is_server(store.uri):
        from raybench.tracking import server as there
    else:
        from raybench.tracking import database as there  # type: ignore[no-redef]
    taken: dict[str, int] = {}
    new: list[ListedRun] = []
    for run in there.listed(store, grid):
        if run.trial in trials:
            taken[run.trial] = max(run.attempt, taken.get(run.trial, 0))
            if run.ended and (run.trial, run.attempt) not in known:
                new.append(run)
    if not new:
        return Elsewhere(taken)
    told = dict(_own_events(store, new))
    lacking = [run for run in new if run.key not in told]
    if lacking:
        runs, _ = there.read(store, grid)
        told |= dict(_made_events(runs, {run.key for run in lacking}))
    source = {"from": str(store)}
    found = {key: [event | source for event in of_one] for key, of_one in told.items()}
    every = [event for of_one in found.values() for event in of_one]
    hosts = {str(one.host.get("name")) for one in attempts(every).values() if one.host.get("name")}
    return Elsewhere(taken, every, sorted(hosts))


def _own_events(store: Store, runs: Sequence[ListedRun]) -> Iterator[tuple[Key, list[Event]]]:
    """The events that attempts have kept themselves, of those whose artifacts can be had and have an end."""
    with TemporaryDirectory() as folder:
        for run in runs:
            path = run.artifacts / EVENTS if run.artifacts else None
            if path is None and is_server(store.uri):
                from raybench.tracking.server import fetch

                path = fetch(store, run.run_id, EVENTS, Path(folder) / run.run_id)
            if path is None or not path.is_file():
                continue
            own = [event for event in read(path, []) if (event.get("trial"), event.get("attempt")) == run.key]
            told = attempts(own).get(run.key)
            if told and told.started and told.status == run.status:
                yield run.key, own


def _made_events(runs: Sequence[StoredRun], wanted: Collection[Key]) -> Iterator[tuple[Key, list[Event]]]:
    for run in runs:
        attempt = attempt_of(run)
        if attempt and attempt.key in wanted and attempt.status:
            yield attempt.key, _as_events(attempt, run.summary.get("summary/total_s"))


def _as_events(attempt: Attempt, total: float | None) -> list[Event]:
    key = attempt.key
    opening: dict[str, Any] = {
        name: getattr(attempt, name) for name in ("cell", "seed", "label", "grid", "profile", "host", "known_as")
    }
    opening |= {"target": asdict(attempt.target)} if attempt.target else {}
    made = [events.trial_started(*key, **opening, decay_proof=dict(attempt.decay_proof))]
    if attempt.gaps:
        made.append(events.trial_resumed(*key, gaps=list(attempt.gaps)))
    for epoch in attempt.epochs:
        told = {name: value for name, value in asdict(epoch).items() if value not in (None, {}, ())}
        made.append(events.epoch_ended(*key, **told))
    # MLflow has the whole time, with the loading of the framework, and not its parts.
    made.append(events.trial_ended(*key, str(attempt.status), wall=total, template_import=0.0))
    made[0]["t"], made[-1]["t"] = attempt.started, attempt.ended
    return made
