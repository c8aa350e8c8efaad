"""The values of a cell's completed runs, such as their times, by repeat or by host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import geometric_mean
from typing import Any

from raybench.core.status import TrialStatus
from raybench.results import timing
from raybench.results.attempt import Attempt

Rule = Callable[[Attempt], float | None]


def completed(runs: Sequence[Attempt]) -> list[Attempt]:
    """Return the completed runs."""
    return [run for run in runs if run.status == TrialStatus.COMPLETED]


def steady_seconds_by_repeat(runs: Sequence[Attempt]) -> dict[int, float]:
    """Return steady seconds per epoch of completed runs by repeat.

    Runs without a time, as in a damaged journal, are left out.
    """
    return values_by_repeat(runs, timing.steady)


def values_by_repeat(runs: Sequence[Attempt], rule: Rule) -> dict[int, float]:
    """Return the values of completed runs by repeat; runs without a value above 0 are left out."""
    return {run.repeat: value for run in completed(runs) if (value := rule(run) or 0.0) > 0}


def samples_of(runs: Sequence[Attempt], rule: Rule = timing.steady) -> dict[Any, float]:
    """Return the independent samples of a cell.

    These are the runs' values by repeat or, if they ran on several hosts, the mean of each host: runs on one host share
    whatever makes it faster or slower than others of its model, so they are not independent.
    """
    hosts = hosts_of(runs, rule)
    if len(hosts) < 2:
        return dict(values_by_repeat(runs, rule))
    by_host = {host: values_by_repeat([run for run in runs if run.host.get("name") == host], rule) for host in hosts}
    return {host: geometric_mean(values.values()) for host, values in by_host.items()}


def hosts_of(runs: Sequence[Attempt], rule: Rule = timing.steady) -> list[Any]:
    """Return the hosts of completed runs that have a value."""
    return list(dict.fromkeys(run.host.get("name") for run in completed(runs) if (rule(run) or 0.0) > 0))
