"""The facts in the sentence on a best configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from raybench.analysis.answer import Answer, Best, Configuration, Criterion
from raybench.core.repeats import percent
from raybench.core.text import format_value, plural
from raybench.reporting.layout import NOTHING
from raybench.reporting.words.numbers import ratio_text, rounded_money, seconds_text
from raybench.reporting.words.quality import metric_name, metric_text, quality_decimals, quality_words, target_text
from raybench.reporting.words.ratios import ratio_words
from raybench.reporting.words.rows import (
    best_with,
    is_reached,
    name_of,
    price_amount,
    price_head,
    price_of,
    price_text,
    speed_text,
)
from raybench.reporting.words.status import mean_text


def absolute(answer: Answer, row: Configuration, best: Best) -> Iterator[str]:
    """The quality at a budget, or time and price to the target: how many runs reached it, and when."""
    if Criterion.QUALITY in best.ratios:
        yield metric_text(answer.metric, row.quality.value, quality_decimals(answer)) if row.quality else NOTHING
        return
    yield from (mean_text(answer, mean) for mean in answer.means if mean.configuration == row.index)
    to = row.to_target
    if to is None:
        return
    if to.success_s is None or to.expected is None:
        if answer.target and is_reached(answer.configurations):  # by one with a different workload
            yield f"no run reached {target_text(answer.target)}"
    elif to.reached == to.tried:
        yield f"{seconds_text(to.expected.value)}, reached in {to.reached} of {plural(to.tried, 'run')}"
    else:
        yield f"{to.reached} of {plural(to.tried, 'run')} reached it, after {seconds_text(to.success_s)}"
        ends = [end for end in (to.expected.low, to.expected.high) if end is not None]
        yield f"expected {seconds_text(to.expected.value, *ends)} with a restart after each miss"
    if to.price is not None and Criterion.CHEAPEST in best.ratios:
        yield price_text(answer, to.price, price_amount(answer))


def relative(answer: Answer, best: Best, ranked: Sequence[Configuration], with_amounts: bool = True) -> Iterator[str]:
    """Ratios and the difference of quality to the other side, if there is one, which the first of them names."""
    reference, printed, row = "", set[str](), answer.configurations[best.configuration]
    if best.other is not None:
        is_price = next(iter(best.ratios)) is Criterion.CHEAPEST
        reference = name_of(answer, best.other, best.workload) + best_with(answer, best.other, is_price)
    for criterion, ratio in best.ratios.items():
        if ratio is not None and (text := ratio_text(ratio)) not in printed:  # of equal prices it is that of the times
            printed.add(text)
            yield ratio_words(ratio, criterion, reference)
            reference = ""
        is_counted = answer.unit.counted not in ("", "examples") or best.other is None
        is_speed = criterion in (Criterion.FASTEST, Criterion.KEEPS_QUALITY)
        if is_speed or (criterion is Criterion.FIRST_TO_TARGET and is_counted):
            yield from filter(None, [speed_text(answer, row)] if with_amounts or row.rate else [])
            if row.mfu:
                yield f"MFU {percent(row.mfu.share.value)}"
        elif criterion is Criterion.CHEAPEST and not is_reached(ranked) and row.price is not None and with_amounts:
            yield price_text(answer, row.price, price_head(answer))
    if best.quality is not None:
        yield quality_words(best.quality, answer.metric, reference)
    elif best.other is None and row.quality and Criterion.QUALITY not in best.ratios:
        quality = metric_text(answer.metric, row.quality.value, quality_decimals(answer))
        yield f"{quality} {metric_name(answer.metric)}"
    elif row.quality is None and any(row.quality for row in answer.configurations):
        yield f"{metric_name(answer.metric)} unknown"


def break_even(answer: Answer, best: Best, ranked: Sequence[Configuration], names: Mapping[int, str]) -> Iterator[str]:
    """Yield the price of its device above which the cheapest configuration on a different device would be cheaper."""
    row = answer.configurations[best.configuration]
    device, per_hour = format_value(row.axes.get("device", "")), row.price_per_hour
    rivals = [rival for rival in ranked if format_value(rival.axes.get("device", "")) != device and price_of(rival)]
    rivals = [rival for rival in rivals if not row.hardware or rival.hardware != row.hardware]  # it has one price
    if Criterion.CHEAPEST not in best.ratios or not rivals or not price_of(row) or not per_hour:
        return
    cheapest = min(rivals, key=price_of)
    price = rounded_money(per_hour * price_of(cheapest) / price_of(row), answer.currency)
    subject = names[row.index] if "count" in row.axes else device  # the price of several devices is that of all
    yield f"If {subject} cost more than {price} per hour, {names[cheapest.index]} would be cheaper."
