"""What an MLflow store has of a run, back as an attempt: the other way of `raybench.tracking.projection`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse
from urllib.request import url2pathname

from raybench.analysis.columns import TEXT, TRIALS
from raybench.analysis.results import Attempt, Epoch, Key
from raybench.analysis.tables import Record
from raybench.tracking import projection as p
from raybench.trial import events
from raybench.trial.job import Target

TEXTS = frozenset(column.leaf for column in TRIALS if column.leaf and column.dtype == TEXT) - {"workload.version"}
"""Leaves of a cell that are texts, also where they look like a number, as a framework's version 2.10 does. The version
of a shipped workload is a number."""

NOT_OF_EPOCHS = ("summary/", "roofline/", "system/", "trials/")
"""Beginnings of the names of series that do not have a point an epoch."""

ENDED = ("FINISHED", "FAILED", "KILLED")
"""MLflow's own last statuses of a run."""

_SECTIONS = ("train", "evaluate", "compile")
_OWN = frozenset({p.EPOCH_TIME, p.THROUGHPUT, p.MEMORY, *(f"time/{name}_s" for name in _SECTIONS)})


@dataclass
class StoredRun:
    """One run as a store has it.

    Attributes:
        started, ended: milliseconds since 1970.
        summary: metrics that stand for the whole run.
        points: metrics by epoch (from 1).
        times: when each epoch ended, milliseconds since 1970.
    """

    experiment: str
    name: str
    started: int | None = None
    ended: int | None = None
    params: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    summary: dict[str, float] = field(default_factory=dict)
    points: dict[int, dict[str, float]] = field(default_factory=dict)
    times: dict[int, int] = field(default_factory=dict)

    def add(self, name: str, value: float, step: int, t: int | None) -> None:
        """Take in one point of a metric; what is not finite, as a loss that diverged, is none."""
        if not math.isfinite(value):
            return
        if step < 1:
            self.summary[name] = value
        elif not name.startswith(NOT_OF_EPOCHS):
            self.points.setdefault(step, {})[name] = value
            if name == p.EPOCH_TIME and t is not None:
                self.times[step] = t


@dataclass(frozen=True)
class ListedRun:
    """What a store says first of a trial's run.

    Attributes:
        status: how its attempt ended; `running` where it has not.
        ended: whether it came to an end of its own, and MLflow has its last status, and so all of it.
        artifacts: the folder of its artifacts, where that is one of this machine's.
    """

    run_id: str
    trial: str
    attempt: int
    status: str
    ended: bool
    artifacts: Path | None = None

    @property
    def key(self) -> Key:
        """What names the attempt."""
        return self.trial, self.attempt


def listed_run(run_id: str, state: str, tags: Mapping[str, str], artifact_uri: str | None) -> ListedRun | None:
    """A run as it is listed; None for one that is no trial's."""
    trial, number = tags.get(p.TRIAL), tags.get(p.ATTEMPT, "")
    if not trial or not number.isdecimal():
        return None
    ended = state in ENDED and tags.get(p.STATUS) in (*events.RESULTS, events.FAILED)
    return ListedRun(run_id, trial, int(number), tags.get(p.STATUS, ""), ended, folder_of(artifact_uri))


def folder_of(uri: str | None) -> Path | None:
    """The folder that a URI of artifacts names; None where it is no file's."""
    parts = urlparse(uri or "")
    if not uri or parts.scheme not in ("file", ""):
        return None
    return Path(url2pathname(parts.path)) if parts.scheme else Path(unquote(parts.path))


def record(run: StoredRun, prices: Mapping[str | None, float]) -> Record | None:
    """A run as a row of the tables; None for one that is no trial's.

    Args:
        prices: what an hour of each device of its grid costs, by the device's name.
    """
    attempt = attempt_of(run)
    if attempt is None:
        return None
    profile = attempt.profile
    known: dict[str, Any] = {"total_s": run.summary.get("summary/total_s"), "bound_by": run.tags.get(p.BOUND_BY)}
    known["findings"] = run.tags.get(p.FINDINGS)
    known |= {f"{name}_share": run.summary.get(f"roofline/{name}_share") for name in ("compute", "memory", "input")}
    seconds = run.summary.get("summary/time_to_target_s")
    if attempt.target is None and seconds is not None:
        known |= {"target_reached": True, "target_runs": 1, "time_to_target_s": seconds}
    if profile in prices:
        known["price_per_hour"] = prices[profile]
    doubts = p.described(run.tags.get(p.FINDINGS), run.tags.get(p.DESCRIPTION))
    return Record(attempt, run.experiment, known, doubts)


def attempt_of(run: StoredRun) -> Attempt | None:
    """The attempt that a run is of; None for one that is no trial's."""
    trial, number = run.tags.get(p.TRIAL), run.tags.get(p.ATTEMPT, "")
    if not trial or not number.isdecimal():
        return None
    status = run.tags.get(p.STATUS)
    return Attempt(
        trial,
        int(number),
        cell=cell(run.params),
        seed=_whole(run.params.get("seed")),
        label=run.name.removesuffix(f" a{number}"),
        grid=run.tags.get(p.GRID) or run.experiment,
        profile=run.tags.get(p.PROFILE),
        target=_target(run.tags.get(p.TARGET)),
        decay_proof={"says": run.tags.get(p.DECAY_PROOF), "factor": run.summary.get("summary/decay_factor")},
        host={"name": run.tags.get(p.HOST)},
        known_as=run.tags.get(p.ATTEMPT_ID),
        started=_iso(run.started),
        ended=_iso(run.ended),
        status=None if status == p.RUNNING else status,
        gaps=tuple(int(gap) for gap in run.tags.get(p.RESUMED, "").split(", ") if gap.isdecimal()),
        _epochs={step: _epoch(step, run) for step in sorted(run.points) if p.EPOCH_TIME in run.points[step]},
    )


def cell(params: Mapping[str, str]) -> dict[str, Any]:
    """A cell from the parameters of a run, in which every leaf stands by its dotted name."""
    made: dict[str, Any] = {}
    for name, text in params.items():
        if name in ("repeat", "seed"):
            continue
        *path, last = name.split(".")
        place = made
        for step in path:
            inner = place.setdefault(step, {})
            if not isinstance(inner, dict):
                break
            place = inner
        else:
            place[last] = _value(name, text)
    return made


def _value(name: str, text: str) -> Any:
    if name in TEXTS and text != "null" and not text.startswith(("[", "{")):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _epoch(step: int, run: StoredRun) -> Epoch:
    told = run.points[step]
    ledger = {name: told[f"time/{name}_s"] for name in _SECTIONS if f"time/{name}_s" in told}
    waited = told[p.EPOCH_TIME] - ledger.get("train", 0.0) - ledger.get("compile", 0.0)
    ledger["input_wait"] = max(0.0, round(waited, 9))
    memory = told.get(p.MEMORY)
    return Epoch(
        epoch=step,
        t=_iso(run.times.get(step)),
        steps=0,
        examples=round(told.get(p.THROUGHPUT, 0.0) * told[p.EPOCH_TIME]),
        ledger=ledger,
        cpu_s=None,
        metrics={n: value for n, value in told.items() if n not in _OWN and not n.startswith(p.SECTIONS)},
        sections={n.removeprefix(p.SECTIONS)[:-2]: value for n, value in told.items() if n.startswith(p.SECTIONS)},
        memory_peak_bytes=None if memory is None else round(memory),
        recompiles=None,
    )


def _target(text: str | None) -> Target | None:
    try:
        told = json.loads(text or "")
        return Target(told["metric"], told.get("at_least"), told.get("at_most"))
    except (ValueError, TypeError, KeyError):
        return None


def _whole(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None


def _iso(milliseconds: int | None) -> str | None:
    if not milliseconds:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
