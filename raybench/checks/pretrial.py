"""Checks before a grid's trials: weight decay, the peak rates of devices with the work of the model, the network.

A check is inserted before the first trial that needs it, and its result is a label of all trials that share it. Weight
decay that acts as declared is checked once on a machine for a version of the framework, not once per grid. Training
functions and commands get the peak rates if the grid says how many FLOPs they need: raybench has neither their model
nor their optimizer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raybench.checks import all_reduce, roofline, weight_decay
from raybench.core.cell import Cell
from raybench.core.events import Event
from raybench.core.files import write_atomic
from raybench.core.identity import digest
from raybench.core.job import Job
from raybench.core.text import error_line
from raybench.datasets.paths import user_cache
from raybench.devices import frameworks
from raybench.engines import FRAMEWORKS
from raybench.results.run_table import Run

if TYPE_CHECKING:
    from raybench.planning.plan import Check, WorkItem
    from raybench.planning.resolve import ResolvedCell

_CHECKS: dict[str, Any] = {module.NAME: module for module in (weight_decay, roofline, all_reduce)}

MAX_ERROR_CHARACTERS = 250  # maximum characters of an error in a result


class PretrialChecks:
    """The check results in a grid's folder, and those of this run.

    Args:
        events: the ends of checks; other events are ignored.
        attempts: earlier attempts, from whose checkpoints trials may resume.
    """

    def __init__(self, events: Iterable[Event] = (), attempts: Iterable[Run] = ()) -> None:
        self._ended: dict[str, Event] = _cached()
        self._last_epochs: dict[str, int] = {}
        for event in events:
            self._note(event)
        for attempt in attempts:
            if attempt.epochs:
                last = attempt.epochs[-1].epoch
                self._last_epochs[attempt.trial] = max(last, self._last_epochs.get(attempt.trial, 0))

    def take(self, event: Event) -> None:
        """Record an event of this run: a check's end, or an epoch's for a trial's progress."""
        self._note(event)
        if event.get("check") == weight_decay.NAME and event.get("passed"):
            with suppress(OSError, RuntimeError):  # without the cache it is checked again
                _cache_file().parent.mkdir(parents=True, exist_ok=True)
                write_atomic(_cache_file(), json.dumps({**_cached(), str(event["trial"]): event}))

    def _note(self, event: Event) -> None:
        trial, epoch = event.get("trial"), event.get("epoch")
        if event.get("event") == "epoch_ended" and isinstance(trial, str) and isinstance(epoch, int):
            self._last_epochs[trial] = max(epoch, self._last_epochs.get(trial, 0))
        elif event.get("event") == "check_ended" and event.get("check") in _CHECKS:
            self._ended[str(trial)] = event

    def with_checks(self, todo: Sequence[WorkItem]) -> list[WorkItem]:
        """Give each trial the checks that it needs, and those to run that no earlier trial has."""
        from raybench.planning.plan import Check  # which the warnings of a report do not need

        planned = {key for key, event in self._ended.items() if not event.get("error")}
        keys: dict[str, list[Check]] = {}
        works: list[WorkItem] = []
        for work in todo:
            cell = work.trial.cell
            if cell.cell_id not in keys:
                keys[cell.cell_id] = [Check(name, check_key(name, content)) for name, content in _checks(cell).items()]
            checks = keys[cell.cell_id]
            missing = tuple(check for check in checks if check.key not in planned)
            planned.update(check.key for check in missing)
            works.append(replace(work, checks=missing, needs=frozenset(check.key for check in checks)))
        return works

    def complete(self, job: Job, work: WorkItem, check: Check | None, grid: Path) -> Job:
        """Complete a trial's job with its check results; for a check, make its job from the trial's.

        Args:
            grid: the grid's folder, in which each check has its own folder.
        """
        from raybench.execution.jobs import check_job

        if check:
            cell, module = _checks(work.trial.cell)[check.name], _CHECKS[check.name]
            labels = {"subject": module.subject(cell), "about": module.describe(cell)}
            return check_job(replace(job, cell=cell), check, grid, labels)
        labels = {}
        checked, flops = _checks(work.trial.cell), work.trial.cell.flops
        ended = {name: self._ended.get(check_key(name, cell)) for name, cell in checked.items()}
        if decay := ended.get(weight_decay.NAME):
            verdict = {"passed": decay.get("passed"), "factor": decay.get("factor"), "says": verdict_of(decay)}
            labels |= {"decay_check": {"key": decay["trial"], **verdict}}
        if rates := ended.get(roofline.NAME):
            precision = {"precision": checked[roofline.NAME].settings.precision}
            stated = {"stated": {"unit": flops.unit, "flops": flops.per_unit}} if flops else {}
            measured: dict[str, Any] = {name: rates[name] for name in ("work", "probes") if name in rates}
            fields = measured or {"missing": _reason(rates)}
            labels |= {"roofline": {"key": str(rates.get("trial"))} | fields | precision | stated}
        if network := ended.get(all_reduce.NAME):
            labels |= {"all_reduce": {name: network[name] for name in ("bytes", "gb_per_s") if name in network}}
        return replace(job, labels={**job.labels, **labels}, resume=self._last_epochs.get(job.trial))

    def warnings(self, cells: Iterable[Cell]) -> list[str]:
        """Warnings about the weight-decay checks that cells need and that have no result; runs have the others."""
        events = [self._ended.get(key) for key in dict.fromkeys(check_key(weight_decay.NAME, cell) for cell in cells)]
        return [decay_warning(event) for event in events if event and "passed" not in event]


def check_key(name: str, cell: Cell) -> str:
    """Return the identity of a check of a cell, and of all cells that share it."""
    return f"{name}-{digest({'version': _CHECKS[name].VERSION, **_CHECKS[name].subject(cell)})}"


def _cache_file() -> Path:
    return user_cache() / "weight_decay.json"


def _cached() -> dict[str, Event]:
    """The weight-decay checks that passed on this machine, by key."""
    with suppress(OSError, RuntimeError, ValueError, TypeError, LookupError, AttributeError):  # missing or damaged
        return {key: event for key, event in json.loads(_cache_file().read_bytes()).items() if event["passed"]}
    return {}


def _checks(cell: ResolvedCell) -> dict[str, Cell]:
    """The checks that a cell needs, each with the cell as which it runs."""
    content, flops = cell.content, cell.flops
    checks: dict[str, Cell] = {}
    if not content.has_own_loop:
        checks = {module.NAME: content for module in (weight_decay, roofline)}
    elif flops is not None:
        # A framework without probes, such as JAX, has the peak of the device's default framework.
        framework = content.framework if FRAMEWORKS[content.framework].folder else frameworks(content.device.kind)[0]
        settings = replace(content.settings, precision=flops.precision)
        checks = {roofline.NAME: replace(content, framework=framework, settings=settings)}
    if content.device.node_count > 1 and FRAMEWORKS[frameworks(content.device.kind)[0]].has_ranks:
        checks[all_reduce.NAME] = replace(content, framework=frameworks(content.device.kind)[0])
    return checks


def verdict_of(event: Event) -> str:
    """The result of a weight-decay check, from its end event: `passed`, `failed: …` or `not proven: …`, in one line."""
    return str(event.get("says") or f"not proven: {_reason(event)}")


def decay_warning(event: Event) -> str:
    """Warning for the user about a weight-decay check that did not pass."""
    return f"{event.get('about')}: {verdict_of(event)}"


def _reason(event: Event) -> str:
    error = event.get("error")
    return error_line(error, MAX_ERROR_CHARACTERS) if isinstance(error, dict) else "no result"


def describe(work: WorkItem, check: Check) -> str:
    """Description of a check for the user."""
    return str(_CHECKS[check.name].describe(_checks(work.trial.cell)[check.name]))


def is_timed(check: Check | None) -> bool:
    """Return whether other load on the machine would affect the result of a check, or of a trial if it is None."""
    return check is None or check.name != weight_decay.NAME
