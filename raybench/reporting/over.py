"""A grid over time in words, as a table and as a page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from raybench.analysis.answer import Criterion, Ratio
from raybench.analysis.over import OverTime
from raybench.core.text import names_text, plural, printable
from raybench.reporting import figures
from raybench.reporting.layout import LABEL, Column
from raybench.reporting.page import template
from raybench.reporting.words.numbers import number, ratio_text
from raybench.reporting.words.ratios import ratio_words


def sentences(over: OverTime) -> Iterator[str]:
    """Yield how each configuration is today, then when it became faster or slower, and what else changed then."""
    changed = [series for series in over.series if series.today]
    for series in sorted(changed, key=lambda one: one.today.value if one.today else 1.0):
        yield f"Today, {series.label}: {_speed(series.today, 'at first')}, since {series.levels[0].since}."
    if changed and (unchanged := [series.label for series in over.series if not series.today]):
        yield f"No change of {names_text(unchanged)}."
    for series in over.series:
        if series.trend:
            yield f"{series.label}: a trend, no step: {_speed(series.trend.per_week, 'the week before')}."
        for level in () if series.trend else series.levels[1:]:
            what = "slower" if level.speed and level.speed.value < 1 else "faster"
            speed = ratio_text(level.speed, "95% CI ")
            besides = f" ({names_text(list(map(str, level.differences)))})" if level.differences else ""
            yield f"{series.label}: {what} since {level.since}, {speed} the speed before{besides}."
    if all(len(series.levels) < 2 for series in over.series):
        executions = max(len(series.sessions) for series in over.series)
        few = "; one is found from 12 on" if executions < 12 else ""
        yield f"No change of speed in {plural(executions, 'execution')}{few}."


def _speed(ratio: Ratio | None, reference: str) -> str:
    return ratio_words(ratio, Criterion.FASTEST, reference) if ratio else ""


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
