"""Results of several machines as those of one grid."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from raybench.core.identity import trial_id
from raybench.core.settings import MISSING
from raybench.core.status import TrialStatus
from raybench.results.executions import MILLISECONDS, as_name
from raybench.results.grid_request import GridRequest, unite
from raybench.results.history import GridHistory
from raybench.results.run_table import Key, Run, latest


def replaced(history: GridHistory) -> set[Key]:
    """Return the attempts that a `--rerun` replaced: of each configuration, from its first new run on, all before.

    With a fixed number of repeats each trial has a new run in the end. Repeats until certain may end with fewer.
    """
    keys: set[Key] = set()
    for execution in (execution for execution in history.executions if execution.rerun):
        started = [run for run in history.attempts.values() if run.origin == execution.origin and run.started]
        later = {run.key: as_name(run.started or "") >= execution.name[:MILLISECONDS] for run in started}
        renewed = {run.cell_id for run in started if later[run.key] and run.status == TrialStatus.COMPLETED}
        keys |= {run.key for run in started if run.cell_id in renewed and not later[run.key]}
    return keys


def as_requested(history: GridHistory, request: GridRequest | None) -> tuple[list[Run], GridRequest | None]:
    """Return the attempts of a grid and its request as they belong together.

    A repeat that several machines ran counts as that many repeats. The warm-up epochs are those of the request, not
    those that were requested when the attempt ran.
    """
    left_out = replaced(history) if request and request.rule else ()
    attempts = [attempt for key, attempt in history.attempts.items() if key not in left_out]
    begun = {attempt.trial for attempt in attempts if attempt.started}
    # An attempt that was lost before its process began names no machine; the trial's other attempts count.
    attempts = [attempt for attempt in attempts if attempt.started or attempt.trial not in begun]
    own_trials = {attempt.trial for attempt in attempts}
    if len({attempt.origin for attempt in attempts}) > 1:
        requested = {cell.cell_id: cell.repeats for cell in request.cells} if request else {}
        attempts = _as_further_repeats(attempts, requested)
    if request is None:
        return attempts, None
    request = unite(request, ())
    repeats: dict[str, int] = {}
    for attempt in attempts:
        if attempt.trial not in own_trials:
            repeats[attempt.cell_id] = max(attempt.repeat + 1, repeats.get(attempt.cell_id, 0))
    cells = [replace(cell, repeats=max(cell.repeats, repeats.get(cell.cell_id, 0))) for cell in request.cells]
    warmup = {cell.cell_id: cell.content.warmup_epochs for cell in cells if cell.content.warmup_epochs is not MISSING}
    attempts = [_with_warmup(attempt, warmup.get(attempt.cell_id)) for attempt in attempts]
    return attempts, replace(request, cells=cells)


def _with_warmup(attempt: Run, warmup_epochs: int | None) -> Run:
    if not attempt.cell or warmup_epochs in (None, attempt.cell.warmup_epochs):
        return attempt
    return replace(attempt, cell=replace(attempt.cell, warmup_epochs=warmup_epochs))


def _as_further_repeats(attempts: Iterable[Run], repeats: Mapping[str, int]) -> list[Run]:
    """Count a repeat that several machines ran as that many repeats of the cell.

    Of two attempts at a trial for one results folder or on one machine, the later one replaces the earlier one.
    """
    by_trial: dict[str, list[Run]] = {}
    for attempt in attempts:
        by_trial.setdefault(attempt.trial, []).append(attempt)
    next_repeat = dict(repeats)
    for same_trial in by_trial.values():
        cell = same_trial[0].cell_id
        next_repeat[cell] = max(same_trial[0].repeat + 1, next_repeat.get(cell, 0))
    renamed: list[Run] = []
    for same_trial in by_trial.values():
        cell = same_trial[0].cell_id
        first_machine, *further_machines = _by_machine(same_trial)
        renamed += first_machine
        for machine in further_machines:
            renamed += [replace(attempt, trial=trial_id(cell, next_repeat[cell])) for attempt in machine]
            next_repeat[cell] += 1
    return renamed


def _by_machine(attempts: Iterable[Run]) -> list[list[Run]]:
    """Group the attempts at one trial by results folder, and these by the machine of the attempt that counts."""
    origins: dict[str | None, list[Run]] = {}
    for attempt in attempts:
        origins.setdefault(attempt.origin, []).append(attempt)
    machines: dict[Any, list[Run]] = {}
    for group in origins.values():
        (last,) = latest(group).values()
        machines.setdefault((last.host.get("name"), last.host.get("machine_id")), []).extend(group)
    return list(machines.values())
