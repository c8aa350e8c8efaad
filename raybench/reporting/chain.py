"""A chain of versions in words, as a table and as a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain as joined
from typing import Any

from raybench.analysis.answer import Criterion, Ratio
from raybench.analysis.chain import Chain, Step, StepVerdict
from raybench.core.text import names_text, plural, printable
from raybench.reporting import figures
from raybench.reporting.layout import LABEL, Column
from raybench.reporting.page import template
from raybench.reporting.words import (
    CRITERIA,
    difference_text,
    metric_name,
    quality_words,
    ratio_text,
    ratio_words,
)

FALSE_ALARMS = 0.05
"""Share of steps without any effect whose interval excludes that."""


def sentences(chains: Sequence[Chain]) -> list[str]:
    """Return how many steps are shown, and what the whole chain changed."""
    return list(joined.from_iterable(map(_sentences, chains)))


def _sentences(chain: Chain) -> Iterator[str]:
    if chain.misses:
        yield f"Not shown to reach the target by their mean: {names_text(chain.misses)}."
    begin, count = f"{chain.label}: " if chain.label else "", plural(len(chain.steps), "step")
    if len(chain.steps) == 1:
        yield f"{begin}{chain.whole.after}: {_whole(chain)}."
        return
    for verdict in StepVerdict:
        if found := [step.after for step in chain.steps if step.verdict is verdict]:
            names = "" if verdict is StepVerdict.BETTER else f": {names_text(found)}"
            are = "is" if len(found) == 1 else "are"
            yield f"{begin}{len(found)} of {count} {are} {_words(chain, verdict)}{names}."
    if (chance := FALSE_ALARMS * len(chain.steps)) >= 0.5:
        yield f"Of {count} without any effect, about {chance:.0f} would look like one: each interval has its own 5%."
    yield f"{begin}The whole chain, {chain.whole.after}: {_whole(chain)}."


def _words(chain: Chain, verdict: StepVerdict) -> str:
    if chain.criterion is not Criterion.QUALITY:
        speeds = {StepVerdict.BETTER: "faster", StepVerdict.WORSE: "slower"}
        return speeds.get(verdict, str(verdict))
    return str(verdict)


def _whole(chain: Chain) -> str:
    """Return what changed from the first to the last version."""
    step, metric = chain.whole, chain.metric
    if isinstance(step.change, Ratio):
        text = ratio_words(step.change, chain.criterion, step.before)
        text += f", {quality_words(step.quality, metric)}" if step.quality else ""
    else:
        text = quality_words(step.change, metric, step.before) if step.change else str(StepVerdict.UNKNOWN)
    if step.verdict in (StepVerdict.ONE_RUN, StepVerdict.IF_NO_MISS):
        return f"{text} in these runs; {step.verdict}"
    is_choice = step.change and step.change.has_interval and len(chain.steps) > 1
    return f"{text}; the interval allows for choosing among {len(chain.steps) + 1} versions" if is_choice else text


def columns(chain: Chain) -> list[Column]:
    """Return the table of steps, the whole chain as its last row."""
    rows = [*chain.steps, chain.whole] if len(chain.steps) > 1 else [*chain.steps]
    names = [step.after for step in rows]
    metric = metric_name(chain.metric)
    is_ratio = chain.criterion is not Criterion.QUALITY
    head = f"{CRITERIA[chain.criterion].quantity}, " if is_ratio else f"{metric}, "
    found = [
        Column("version", [*names[:-1], f"{names[-1]}, whole chain"] if len(chain.steps) > 1 else names, kind=LABEL),
        Column("runs", [f"{step.runs[1]} against {step.runs[0]}" for step in rows], drop=1, right=True),
        Column(f"{head}against the one before (95% CI)", [_change_text(step, chain.metric) for step in rows]),
        Column(f"{metric}, change", [difference_text(step.quality, chain.metric) for step in rows], drop=2),
        Column("verdict", [_words(chain, step.verdict) for step in rows]),
    ]
    return [column for column in found if not column.is_empty]


def _change_text(step: Step, metric: str) -> str:
    return ratio_text(step.change) if isinstance(step.change, Ratio) else difference_text(step.change, metric)


def page(grid: str, chains: Sequence[Chain]) -> str:
    """Return the chains as an HTML page in one file, with the figure and the table of the first."""
    module: Any = template().module
    text = module.over(grid, sentences(chains), columns(chains[0]), figures.steps(chains[0]))
    return printable(str(text).lstrip())
