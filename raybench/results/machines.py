"""Results of several machines as those of one grid."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from raybench.core.identity import trial_id
from raybench.results.attempt import Attempt, Key, latest


def as_further_repeats(attempts: Mapping[Key, Attempt], repeats: Mapping[str, int]) -> dict[Key, Attempt]:
    """Count a repeat that several machines ran as that many repeats of the cell.

    Of two attempts at a trial for one results folder or on one machine, the later one replaces the earlier one. Hosts
    of the same name with different ids get different names.

    Args:
        attempts: all attempts of a grid.
        repeats: the number of requested repeats of each cell, if it is known.
    """
    by_trial: dict[str, list[Attempt]] = {}
    for attempt in _with_distinct_hosts(attempts.values()):
        by_trial.setdefault(attempt.trial, []).append(attempt)
    next_repeat = dict(repeats)
    for same_trial in by_trial.values():
        cell = same_trial[0].cell_id
        next_repeat[cell] = max(same_trial[0].repeat + 1, next_repeat.get(cell, 0))
    renamed: list[Attempt] = []
    for same_trial in by_trial.values():
        cell = same_trial[0].cell_id
        own, *others = _by_machine(same_trial)
        renamed += own
        for machine in others:
            renamed += [replace(attempt, trial=trial_id(cell, next_repeat[cell])) for attempt in machine]
            next_repeat[cell] += 1
    return {attempt.key: attempt for attempt in renamed}


def latest_of_machines(attempts: Iterable[Attempt]) -> list[Attempt]:
    """The attempt that counts for each trial on each machine (`raybench.results.attempt.latest`)."""
    by_trial: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        by_trial.setdefault(attempt.trial, []).append(attempt)
    return [next(iter(latest(machine).values())) for same in by_trial.values() for machine in _by_machine(same)]


def _by_machine(attempts: Iterable[Attempt]) -> list[list[Attempt]]:
    """Group the attempts at one trial by results folder, and these by the machine of the attempt that counts."""
    origins: dict[str | None, list[Attempt]] = {}
    for attempt in attempts:
        origins.setdefault(attempt.origin, []).append(attempt)
    machines: dict[Any, list[Attempt]] = {}
    for group in origins.values():
        (last,) = latest(group).values()
        machines.setdefault((last.host.get("name"), last.host.get("machine_id")), []).extend(group)
    return list(machines.values())


def _with_distinct_hosts(attempts: Iterable[Attempt]) -> list[Attempt]:
    attempts = list(attempts)
    ids: dict[object, dict[str, None]] = {}
    for attempt in attempts:
        if machine := attempt.host.get("machine_id"):
            ids.setdefault(attempt.host.get("name"), {})[str(machine)] = None
    other_ids = {name: list(machines)[1:] for name, machines in ids.items()}
    return [
        replace(attempt, host={**attempt.host, "name": f"{name} ({machine.removeprefix('machine-')[:4]})"})
        if (machine := str(attempt.host.get("machine_id"))) in other_ids.get(name := attempt.host.get("name"), ())
        else attempt
        for attempt in attempts
    ]
