"""Effects of the values of an axis, and how the speed grows with an amount of hardware."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from raybench.analysis.answer import Answer, Criterion, Effect, Scaling
from raybench.core.job import is_accuracy
from raybench.core.labels import named_value
from raybench.core.repeats import percent
from raybench.core.text import format_value, join_words
from raybench.reporting.layout import NOTHING
from raybench.reporting.words.numbers import cautions_text, number, range_text, ratio_text, share_text, signed
from raybench.reporting.words.quality import difference_head, difference_text
from raybench.reporting.words.ratios import ratio_words
from raybench.reporting.words.rows import speed_head
from raybench.results.run_table import Run


def effect_name(effect: Effect) -> str:
    """Both sides of an effect, and values that always go with it: batch 512 vs. 32."""
    tied = ", ".join(named_value(axis, value) for axis, value in effect.tied.items())
    base = named_value(effect.axis, effect.other) if isinstance(effect.other, bool) else format_value(effect.other)
    return f"{named_value(effect.axis, effect.value)} vs. {base}" + (f" (with {tied})" if tied else "")


def effect_speed(effect: Effect) -> str:
    """The mean effect, or the range over the sets if there is no mean."""
    return ratio_text(effect.speed) if effect.speed else range_text(effect.least, effect.most)


def effect_detail(answer: Answer, effect: Effect) -> str:
    """The speeds and qualities by the axis that the effect depends on, or their range; empty if neither is needed."""
    pairs = f"{effect.sets} pairs of configurations"
    parts = [f"{_condition(part.axis, part.value)} {ratio_text(part.speed)}" for part in effect.parts if part.speed]
    detail = ", ".join(parts)
    if not parts and effect.sets > 1 and effect.least is not None:
        if effect.speed is None:
            detail = f"no mean, because it differs between {pairs}{', in one run each' if effect.runs == 1 else ''}"
        elif effect.varies or not effect.speed.has_interval:
            detail = f"{range_text(effect.least, effect.most)} in {pairs}"
    detail = f"{speed_head(answer)}: {detail}" if detail else ""
    mean, ends = effect.quality.get(answer.metric), (effect.quality_least, effect.quality_most)
    if effect.parts and mean and any(end is not None and mean.excludes(end) for end in ends):
        qualities = [
            f"{_condition(part.axis, part.value)} {difference_text(part.quality, answer.metric)}"
            for part in effect.parts
            if part.quality
        ]
        of_quality = ", ".join(qualities) or _quality_range(effect, answer.metric)
        detail += f"{'; ' if detail else ''}{difference_head(answer.metric)}: {of_quality}"
    return detail


def _condition(axis: str, value: object) -> str:
    return f"on {format_value(value)}" if axis in ("device", "workload") else f"at {named_value(axis, value)}"


def effect_quality(effect: Effect, metric: str, is_main: bool) -> str:
    """The mean difference of a metric; of the main one the range over the sets if its sign differs between them."""
    if metric in effect.quality or not is_main:
        return difference_text(effect.quality.get(metric), metric)
    return _quality_range(effect, metric)


def _quality_range(effect: Effect, metric: str) -> str:
    if effect.quality_least is None or effect.quality_most is None:
        return NOTHING
    scale, decimals = (100, 1) if is_accuracy(metric) else (1, 3)
    return f"{signed(effect.quality_least * scale, decimals)} to {signed(effect.quality_most * scale, decimals)}"


def effects_note(answer: Answer) -> str:
    """What the means are over."""
    means = [effect for effect in answer.effects if effect.sets > 1 and (effect.speed or effect.quality)]
    text = "Values are means over pairs that differ in nothing else, geometric for speeds; each interval holds alone."
    is_alike = all(effect.speed and effect.speed.has_interval and not effect.varies for effect in means)
    text += " No effect is shown to depend on another setting." if is_alike else ""
    return text if means else ""


def scaling_sentences(answer: Answer) -> list[str]:
    """Speed-up, efficiency and price with the largest amount of hardware, and what limits the speed."""
    return [sentence for scaling in answer.scalings for sentence in _scaling_sentences(answer, scaling)]


def _scaling_sentences(answer: Answer, scaling: Scaling) -> Iterator[str]:
    effects = (effect for effect in answer.effects if effect.axis == scaling.axis)
    most = max(effects, key=lambda effect: float(effect.value))
    nouns = plural_noun(scaling.noun)
    name = f"{format_value(most.value)} {scaling.noun if most.value == 1 else nouns}"
    parts = [(f"{_condition(part.axis, part.value)}, ", part.speed, part.efficiency) for part in most.parts]
    for place, speed, efficiency in parts or [("", most.speed, most.efficiency)]:
        if speed is None:
            continue
        facts = [ratio_words(speed, Criterion.FASTEST, format_value(most.other)).partition(" (95% CI")[0]]
        few = " in one run each" if max(speed.runs, speed.other_runs) == 1 else " in these runs"
        facts[0] += "" if speed.has_interval else few
        facts[0] += f" (efficiency {share_text(efficiency, '{}%, 95% CI {}–{}%')})"
        for ratio, criterion in ((most.price, Criterion.CHEAPEST), (most.energy, Criterion.LEAST_ENERGY)):
            # With equal prices, that of the work is the speed-up again.
            is_equal = ratio is None or ratio.value == speed.value or (ratio.has_interval and not ratio.excludes(1))
            if ratio and not is_equal and not parts:
                facts.append(ratio_words(ratio, criterion, "").partition(" (95% CI")[0])
        per = f" per {answer.unit.label}" if len(facts) > 1 else ""
        text = f"{place}{name}: {', '.join(facts)}{per}{cautions_text(most.cautions)}."
        yield text[:1].upper() + text[1:]
    if scaling.kind:
        size = "is the same for all" if scaling.kind == "strong" else f"grows with the number of {nouns}"
        yield f"{scaling.kind.capitalize()} scaling: the batch size {size}."
    largest = [row for row in answer.configurations if row.axes.get(scaling.axis) == most.value]
    if shares := sorted(row.communication for row in largest if row.communication is not None):
        ends = join_words(list(dict.fromkeys(map(percent, (shares[0], shares[-1])))), "to")
        yield f"The exchange of gradients takes {ends} of a step with {name}."
    network = Run.all_reduce_gb_per_s.name
    if rates := [row.medians[network] for row in largest if network in row.medians]:
        yield f"With {name} the network sums 64 MiB at {number(median(rates), 2)} GB/s."
    serial = scaling.serial
    if serial and serial.low is not None and serial.low > 0:
        limit = f"never more than {number(1 / serial.value, 2)}x as fast as 1"
        yield f"By Amdahl's law, a serial share of {share_text(serial, '{}% (95% CI {}–{}%)')}: {limit}."
    elif serial and serial.high is not None and serial.high > 0:
        yield f"By Amdahl's law, the serial share is at most {percent(serial.high)} (upper end of its 95% CI)."


def plural_noun(noun: str) -> str:
    """The plural of a noun: processes, GPUs."""
    return f"{noun}{'es' if noun.endswith('s') else 's'}"
