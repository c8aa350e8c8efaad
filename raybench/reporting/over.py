"""A grid over time in words, as a table and as a page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from raybench.analysis.over import OverTime
from raybench.core.text import names_text, plural, printable
from raybench.reporting import figures
from raybench.reporting.layout import LABEL, Column
from raybench.reporting.page import template
from raybench.reporting.words import number, ratio_text


def sentences(over: OverTime) -> Iterator[str]:
    """Yield when each configuration became faster or slower, and what else changed then."""
    for series in over.series:
        for level in series.levels[1:]:
            what = "slower" if level.speed and level.speed.value < 1 else "faster"
            speed = ratio_text(level.speed, "95% CI ")
            besides = f" ({names_text(list(map(str, level.differences)))})" if level.differences else ""
            yield f"{series.label}: {what} since {level.since}, {speed} the speed before{besides}."
    if all(len(each.levels) < 2 for each in over.series):
        executions = max(len(each.sessions) for each in over.series)
        few = "; one is found from 12 on" if executions < 12 else ""
        yield f"No change of speed in {plural(executions, 'execution')}{few}."


def columns(over: OverTime) -> list[Column]:
    """Return the table of levels."""
    rows = [(series.label, level) for series in over.series for level in series.levels]
    return [
        Column("configuration", [label for label, _ in rows], kind=LABEL),
        Column("since (UTC)", [level.since for _, level in rows]),
        Column("executions", [str(level.sessions) for _, level in rows], drop=2, right=True),
        Column("runs", [str(level.runs) for _, level in rows], drop=1, right=True),
        Column(f"s/{over.unit.label}", [number(level.seconds) for _, level in rows], right=True),
        Column("speed to the level before (95% CI)", [ratio_text(level.speed) for _, level in rows]),
    ]


def page(over: OverTime) -> str:
    """Return it as an HTML page in one file."""
    module: Any = template().module
    text = module.over(over.grid, list(sentences(over)), columns(over), figures.over_time(over))
    return printable(str(text).lstrip())
