"""The rule by which a grid stops if its first trials show that all others would fail in the same way."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from raybench.core.cell import VERSION_AXIS
from raybench.core.events import Event
from raybench.core.status import TrialStatus
from raybench.planning.plan import Plan

ALL_FAIL = """The grid was stopped, as trials would probably fail like this again; {left:,} of {total:,} were not run. \
--keep-going runs them all the same."""

_OF_GRID = re.compile(r"UsageError|(?:ModuleNotFound|Import|Syntax)Error|unrecognized arguments")
"""Errors that one trial shows: they depend on no axis but that of devices or environments."""


class CommonFailure:
    """The failures of a grid or, if it compares versions, of one of these, before its first result.

    Args:
        measured: trials that have a result.
    """

    def __init__(self, plan: Plan, measured: Iterable[str]) -> None:
        self._cells = [cell for cell in plan.cells if cell.fit]
        self._axes = {trial.trial_id: trial.cell.axes for trial in plan.trials}
        self._with_result = {self._axes[trial].get(VERSION_AXIS) for trial in measured if trial in self._axes}
        self._failed: dict[str, list[Mapping[str, Any]]] = {}

    def stops(self, event: Event) -> bool:
        """Return whether failures before any result show that the other trials would fail in the same way."""
        status = TrialStatus.parse(event.get("status"))
        if event["event"] != "trial_ended" or status is None:
            return False
        axes = self._axes.get(event["trial"], {})
        if status.is_result:
            self._with_result.add(axes.get(VERSION_AXIS))
        error = event.get("error") or {}
        if axes.get(VERSION_AXIS) in self._with_result or status is not TrialStatus.FAILED or not error:
            return False
        kind = re.sub(r"\d+", "#", f"{error.get('type')}: {error.get('message')}")
        points = self._failed.setdefault(kind, [])
        points.append(axes)
        if _OF_GRID.search(kind) and len({cell.profile for cell in self._cells}) == 1:
            return True
        return len(points) > 1 and not self._may_be_cause(points)

    def _may_be_cause(self, points: Sequence[Mapping[str, Any]]) -> bool:
        """Return whether failed trials have a value in common that others do not have."""
        return any(
            all(point.get(axis) == value for point in points)
            and any(cell.axes.get(axis) != value for cell in self._cells)
            for axis, value in points[-1].items()
            if axis != VERSION_AXIS
        )
