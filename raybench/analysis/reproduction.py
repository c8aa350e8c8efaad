"""Runs of this results folder against imported ones: the same grid, run again elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from raybench.analysis.answer import Difference, Ratio
from raybench.analysis.changed_values import ChangedValue, changed_values
from raybench.analysis.matching import Matching
from raybench.analysis.measured import TIME, as_one_grid, measure_all
from raybench.analysis.ratios import as_difference, as_ratio, shown_effect
from raybench.core.cell import VERSION_AXIS
from raybench.core.code_state import made_with
from raybench.core.status import TrialStatus
from raybench.results.folder import known_id
from raybench.results.grid_request import GridRequest
from raybench.results.history import GridHistory
from raybench.results.metrics import main_metric
from raybench.results.run_table import Run

IMPORTED, HERE = "imported", "here"


@dataclass(frozen=True)
class Reproduction:
    """The runs here against the imported ones.

    Attributes:
        imported, here: the completed runs of each that are compared.
        hosts: of the imported runs.
        configurations: number of those that both ran.
        speed: of the runs here relative to the imported ones, above 1 if faster; None if not known.
        metric, quality: that of the runs here minus that of the imported ones.
        differences: of hardware, versions and code.
    """

    imported: int
    here: int
    hosts: tuple[str, ...]
    configurations: int
    speed: Ratio | None
    metric: str
    quality: Difference | None
    differences: tuple[ChangedValue, ...]


def reproduction(history: GridHistory) -> Reproduction | None:
    """Compare what ran here with what was imported; None if either is missing, or has no configuration of the other."""
    requests: dict[str, GridRequest] = {}
    own_id = known_id(history.folder.parent)
    for execution in history.executions:
        if request := GridRequest.from_json(execution.request):
            requests[HERE if execution.origin == own_id else IMPORTED] = request
    if len(requests) < 2:
        return None
    runs: dict[str, list[Run]] = {IMPORTED: [], HERE: []}
    for run in history.attempts.values():
        runs[HERE if run.origin == own_id else IMPORTED].append(run)
    sources = [(name, (runs[name], requests[name])) for name in (IMPORTED, HERE)]
    attempts, request = as_one_grid(VERSION_AXIS, sources)
    measured, _ = measure_all(attempts, replace(request, rule=None, first_look=0, these_machines=True))
    measured = [replace(cell, job="", candidates={}) for cell in measured]
    sets = Matching(measured, {VERSION_AXIS: IMPORTED}).sets(VERSION_AXIS, HERE, IMPORTED)
    pairs = [(measured[imported], measured[here]) for here, imported in sets]
    pairs = [(base, new) for base, new in pairs if base.completed and new.completed]
    if not pairs:
        return None
    sides = [[run for pair in pairs for run in pair[number].completed] for number in (0, 1)]
    speed = shown_effect(TIME, pairs, is_choice=False)
    metric = main_metric(dict.fromkeys(name for _, new in pairs for name in new.qualities), request.metric)
    quality = shown_effect(metric, [(new, base) for base, new in pairs], is_choice=False) if metric else None
    counts = len(sides[1]), len(sides[0])
    return Reproduction(
        imported=len(sides[0]),
        here=len(sides[1]),
        hosts=_hosts(sides[0]),
        configurations=len(pairs),
        speed=as_ratio(speed.mean, counts) if speed else None,
        metric=metric,
        quality=as_difference(quality.mean, metric, counts) if quality else None,
        differences=tuple(changed_values(*sides)),
    )


@dataclass(frozen=True)
class Imported:
    """Imported runs, before the grid runs here.

    Attributes:
        commit: of their code; empty if not known.
        differences: of what is planned here from what they were run with.
    """

    runs: int
    hosts: tuple[str, ...]
    commit: str
    differences: tuple[ChangedValue, ...]


def imported_runs(history: GridHistory, planned: Iterable[Run], folder: str) -> Imported | None:
    """Compare imported runs with those that are planned here; None if there are none, or the grid has run here.

    Args:
        planned: a run of each configuration that can run here, with its cell.
        folder: that of their code.
    """
    own_id = known_id(history.folder.parent)
    last = next((execution for execution in reversed(history.executions) if execution.origin != own_id), None)
    runs = [run for run in history.attempts.values() if run.status == TrialStatus.COMPLETED]
    if last is None or not runs or any(run.origin == own_id for run in runs):
        return None
    cells = [[Run(cell=run.cell) for run in side] for side in (runs, planned)]
    software = [_software(made_of) for made_of in (last.made_with, made_with(folder))]
    names = sorted(name for name in {*software[0], *software[1]} if software[0].get(name) != software[1].get(name))
    changed = [ChangedValue(name, *(tuple(filter(None, [side.get(name)])) for side in software)) for name in names]
    changed = [
        value for value in changed if value.name != "commit" or (value.base and value.new)
    ]  # unknown is not different
    differences = (*changed_values(*cells), *(changed if software[0] else ()))
    return Imported(len(runs), _hosts(runs), str(last.made_with.get("commit") or ""), differences)


def _software(software: Mapping[str, Any]) -> dict[str, str]:
    """The packages that results were made with, by name, and the commit of the code."""
    packages = dict(str(package).partition("==")[::2] for package in software.get("packages") or ())
    return {**packages, **({"commit": str(software["commit"])} if software.get("commit") else {})}


def _hosts(runs: Sequence[Run]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(run.host["name"]) for run in runs if run.host.get("name")))
