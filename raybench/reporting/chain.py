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
from raybench.reporting.words.numbers import ratio_text
from raybench.reporting.words.quality import difference_text, metric_name, quality_words
from raybench.reporting.words.ratios import CRITERIA, ratio_words

FALSE_ALARMS = 0.05  # share of steps without any effect whose interval excludes that


def sentences(chains: Sequence[Chain]) -> list[str]:
    """Return how many steps are shown, and what the whole chain changed."""
    return list(joined.from_iterable(map(_sentences, chains)))


def _sentences(chain: Chain) -> Iterator[str]:
    begin, count = f"{chain.label}: " if chain.label else "", plural(len(chain.steps), "step")
    if chain.misses:
        yield f"{begin}Not shown to reach the target by their mean: {names_text(chain.misses)}."
    if len(chain.steps) == 1:
        yield f"{begin}{chain.whole.after}: {_whole(chain)}."
        return
    metric = f" in {metric_name(chain.metric)}"
    of_speed = f" in {CRITERIA[chain.criterion].quantity}" if chain.whole.quality else ""
    groups = [(_words(chain, v), v, [step for step in chain.steps if step.verdict is v]) for v in StepVerdict]
    worse = [step for step in chain.steps if step.is_worse and step.verdict is not StepVerdict.LOSSY]
    for words, verdict, steps in [*groups, ("worse", StepVerdict.LOSSY, worse)]:
        if not steps:
            continue
        names = "" if verdict is StepVerdict.BETTER else f": {names_text([step.after for step in steps])}"
        are = "is" if len(steps) == 1 else "are"
        is_shown = verdict in (StepVerdict.BETTER, StepVerdict.WORSE, StepVerdict.LOSSY)
        of = {StepVerdict.LOSSY: metric, StepVerdict.NOISE: of_speed}.get(verdict, "")
        yield f"{begin}{len(steps)} of {count} {are} {'shown to be ' if is_shown else ''}{words}{of}{names}."
    if (chance := FALSE_ALARMS * len(chain.steps)) >= 0.5:
        yield f"Of {count} without any effect, about {chance:.0f} would look like one: each interval has its own 5%."
    yield f"{begin}The whole chain, {chain.whole.after}: {_whole(chain)}."


def _words(chain: Chain, verdict: StepVerdict) -> str:
    of_speed = {StepVerdict.BETTER: "faster", StepVerdict.WORSE: "slower"}
    return str(verdict) if chain.criterion is Criterion.QUALITY else of_speed.get(verdict, str(verdict))


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


def columns(chains: Sequence[Chain]) -> list[Column]:
    """Return the table of the steps of all chains, each whole chain after its steps."""
    rows: list[tuple[Chain, Step, str]] = []
    for chain in chains:
        rows += [(chain, step, step.after) for step in chain.steps]
        if len(chain.steps) > 1:
            rows.append((chain, chain.whole, f"{chain.whole.after}, whole chain"))
    first, metric = chains[0], metric_name(chains[0].metric)
    quantity = metric if first.criterion is Criterion.QUALITY else CRITERIA[first.criterion].quantity
    table = [
        Column("configuration", [chain.label for chain, _, _ in rows], drop=1),
        Column("version", [name for _, _, name in rows], kind=LABEL),
        Column("runs", [f"{step.runs[1]} against {step.runs[0]}" for _, step, _ in rows], drop=2, right=True),
        Column(f"{quantity}, against the one before", [_change_text(step, c.metric) for c, step, _ in rows]),
        Column(f"{metric}, change", [difference_text(step.quality, chain.metric) for chain, step, _ in rows]),
        Column("verdict", [_words(chain, step.verdict) + _loss(chain, step) for chain, step, _ in rows]),
    ]
    return [column for column in table if not column.is_empty]


def _loss(chain: Chain, step: Step) -> str:
    is_said = step.verdict is StepVerdict.LOSSY or not step.is_worse
    return "" if is_said else f"; worse in {metric_name(chain.metric)}"


def _change_text(step: Step, metric: str) -> str:
    return ratio_text(step.change) if isinstance(step.change, Ratio) else difference_text(step.change, metric)


def page(grid: str, chains: Sequence[Chain]) -> str:
    """Return the chains as an HTML page in one file, with the figure of the first."""
    module: Any = template().module
    text = module.chain(grid, sentences(chains), columns(chains), figures.steps(chains[0]))
    return printable(str(text).lstrip())
