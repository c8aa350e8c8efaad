"""A grid over time as text, page and JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from raybench.analysis.over import OverTime
from raybench.core.text import names_text, plural, printable
from raybench.reporting import figures
from raybench.reporting.layout import LABEL, Column
from raybench.reporting.page import template
from raybench.reporting.report import json_text
from raybench.reporting.words import number, ratio_text

VERSION = 1
"""Version of the format of `as_json`; it is raised if a field changes its meaning, not for new fields."""

LEAST_EXECUTIONS = 12
"""Fewest executions in which a change can be found."""

UNSAID = ("host.boot",)
"""Differences that follow from others."""


def sentences(over: OverTime) -> Iterator[str]:
    """Yield when each configuration became faster or slower, and what else changed then."""
    executions = max((len(each.sessions) for each in over.series), default=0)
    for series in over.series:
        for level in series.levels[1:]:
            what = "slower" if level.speed and level.speed.value < 1 else "faster"
            differences = [
                f"{each.name} {' → '.join(', '.join(side) or 'none' for side in (each.base, each.new))}"
                for each in level.differences
                if each.name not in UNSAID
            ]
            yield (
                f"{series.label}: {what} since {level.since}, {ratio_text(level.speed, '95% CI ')} the speed before"
                f"{f' ({names_text(differences)})' if differences else ''}."
            )
    if all(len(each.levels) < 2 for each in over.series):
        few = f"; one is found from {LEAST_EXECUTIONS} on" if executions < LEAST_EXECUTIONS else ""
        yield f"No change of speed in {plural(executions, 'execution')}{few}."


def columns(over: OverTime) -> list[Column]:
    """Return the table of levels."""
    rows = [(series.label, level) for series in over.series for level in series.levels]
    return [
        Column("configuration", [label for label, _ in rows], right=False, kind=LABEL),
        Column("since (UTC)", [level.since for _, level in rows], right=False),
        Column("executions", [str(level.sessions) for _, level in rows], drop=2),
        Column("runs", [str(level.runs) for _, level in rows], drop=1),
        Column(f"s/{over.unit.label}", [number(level.seconds) for _, level in rows]),
        Column("speed to the level before (95% CI)", [ratio_text(level.speed) for _, level in rows], right=False),
    ]


def page(over: OverTime) -> str:
    """Return it as an HTML page in one file."""
    module: Any = template().module
    text = module.over(over.grid, list(sentences(over)), columns(over), figures.over_time(over))
    return printable(str(text).lstrip())


def as_json(over: OverTime) -> str:
    """Return it as JSON: `version`, `sentences` and the fields of `raybench.analysis.over.OverTime`."""
    return json_text({"version": VERSION, "sentences": list(sentences(over)), **vars(over)})
