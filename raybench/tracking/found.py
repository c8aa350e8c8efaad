"""What a store has of one grid: the runs of its trials' attempts, and those of its executions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Open(NamedTuple):
    """A run that the store tells of as running: its id, its tags, and when it began, in milliseconds since 1970."""

    run_id: str
    tags: Mapping[str, str]
    started: int


@dataclass
class Run:
    """What is in MLflow of one attempt.

    Attributes:
        epochs: the epochs whose metrics are there.
        described: parameters and data set are there.
        ended: its status is a last one, which is written when all else is there.
        closed: another driver has ended it, who took its own for gone.
        doubles: further runs of the same attempt, from requests that were repeated on the way.
    """

    run_id: str
    epochs: set[int] = field(default_factory=set)
    described: bool = False
    ended: bool = False
    closed: bool = False
    doubles: list[str] = field(default_factory=list)


@dataclass
class Found:
    """The runs of one grid.

    Attributes:
        runs: by the attempt that each is of (`raybench.tracking.projection.attempt_id`).
        executions: by their names, those that are told of as ended.
        open: every run that is told of as running, with its tags.
    """

    runs: dict[str, Run] = field(default_factory=dict)
    executions: set[str] = field(default_factory=set)
    open: list[Open] = field(default_factory=list)
