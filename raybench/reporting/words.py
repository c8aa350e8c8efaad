"""Numbers and sentences of a report as plain text; terminal, page and notebook use the same."""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterable, Mapping
from typing import NamedTuple

from raybench.analysis.answer import (
    Answer,
    Best,
    Caution,
    Configuration,
    Criterion,
    Difference,
    Effect,
    Mfu,
    Ratio,
    Scaling,
    Summary,
    TrustLevel,
)
from raybench.analysis.bottleneck import COUNTED
from raybench.analysis.ratios import scaled
from raybench.core.cell import VERSION_AXIS
from raybench.core.identity import is_smoke
from raybench.core.job import Target
from raybench.core.labels import named_value
from raybench.core.repeats import percent
from raybench.core.status import TrialStatus
from raybench.core.text import flops_text, format_value, join_words, names_text, plural
from raybench.reporting.layout import NOTHING

PERCENT_BELOW = 1.1
"""Ratios nearer to 1 than this are written in percent in sentences: 6% faster."""

LEAST, MOST = 0.001, 9999
"""Range in which the ends of a ratio's interval are printed; beyond it their digits mean nothing."""

ONCE, NO_INTERVAL = " in one run each", ", without an interval"
"""Ends of a clause on numbers without an interval."""

STATUSES = {
    "oom": "out of memory",
    "timeout": "timed out",
    "killed": "stopped",
    "unfinished": "not finished",
}
"""Words for the ends of runs; the others are words already."""


def number(value: float, digits: int = 3) -> str:
    """Format a number with this many significant digits, but all before the decimal point: 3.92, 0.0178, 12,331."""
    if not value or not math.isfinite(value):
        return f"{value:g}"
    rounded = float(f"{value:.{digits - 1}e}")
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    return f"{value:,.{decimals}f}"


def seconds_text(seconds: float) -> str:
    """Format a duration: 0.43 s, 74 s, 12.5 min, 3.1 h."""
    for unit, size, largest in (("s", 1, 300), ("min", 60, 10_800)):
        if seconds < largest:
            return f"{number(seconds / size)} {unit}"
    return f"{number(seconds / 3600)} h"


def _decimals(low: float, high: float, digits: int, size: float, steps: int = 1) -> int:
    """Decimals that show this many steps between the ends of an interval, and significant digits of `size`."""
    width = high - low
    by_size = digits - 1 - math.floor(math.log10(size)) if size > 0 else 0
    by_width = math.ceil(-math.log10(width / steps) - 1e-9) if width > 1e-9 else 0
    return max(0, by_size, by_width)


def ratio_text(ratio: Ratio | None, prefix: str = "") -> str:
    """Format a ratio with its interval, if there is one: 5.1x (4.8–5.4)."""
    if ratio is None:
        return NOTHING
    if ratio.low is None or ratio.high is None:
        return f"{number(ratio.value, 2)}x"  # no more digits than one with an interval
    # The ends of a wide interval need digits of their own: 0.057 (0.0022–1.4). Those of others differ by two steps of
    # the last digit, 12.5x (12.0–13.1), and show on which side of 1 they are.
    is_narrow = ratio.high < 10 * ratio.low
    decimals = _decimals(ratio.low, ratio.high, 2, ratio.low, 2) if is_narrow else 0

    def text(value: float, most: int = 0) -> str:
        if not LEAST <= value <= MOST:
            return f"<{LEAST:g}" if value < LEAST else f">{MOST:g}"
        digits = next((each for each in range(decimals, decimals + most) if round(value, each) != 1), decimals)
        return f"{value:.{digits}f}" if is_narrow else number(value, 2)

    return f"{text(ratio.value)}x ({prefix}{text(ratio.low, 4)}–{text(ratio.high, 4)})"


def rate_number(rate: float) -> str:
    """Format a rate with three significant digits: 41,200."""
    return number(float(f"{rate:.3g}"))


def currency_sign(answer: Answer) -> str:
    """The currency in headings: $ for USD."""
    return "$" if answer.currency == "USD" else answer.currency


def money_text(amount: float, currency: str) -> str:
    """Format a price: $0.018; 0.018 EUR."""
    text = f"{amount:,.2f}" if amount == round(amount, 2) else number(amount)
    return f"${text}" if currency == "USD" else f"{text} {currency}"


def range_text(low: float | None, high: float | None) -> str:
    """Format the smallest and the largest ratio: 1.2x to 2.1x."""
    return NOTHING if low is None or high is None else f"{number(low, 2)}x to {number(high, 2)}x"


def is_accuracy(metric: str) -> bool:
    """Return whether differences of a metric are written in points."""
    return metric.rpartition("/")[2] == "accuracy"


def metric_name(metric: str) -> str:
    """The short name of a metric: accuracy for val/accuracy; `tokens/s by the program` for a rate that it prints."""
    rate = re.fullmatch(r"speed/(\w+)_per_s", metric)
    return "accuracy" if metric == "val/accuracy" else f"{rate[1]}/s by the program" if rate else metric


def metric_text(metric: str, value: float, decimals: int = 1) -> str:
    """Format a value of a metric: 94.1% for an accuracy."""
    return f"{100 * value:.{decimals}f}%" if is_accuracy(metric) else number(value)


def difference_text(difference: Difference | None, metric: str) -> str:
    """Format a difference with its interval, if there is one; that of accuracies in points: −0.2 (−0.5 to +0.1)."""
    if difference is None:
        return NOTHING
    value, ends, decimals = _difference_parts(difference, metric)
    texts = [signed(each, decimals) for each in (value, *ends)]
    return f"{texts[0]} ({texts[1]} to {texts[2]})" if ends else texts[0]


def _difference_parts(difference: Difference, metric: str) -> tuple[float, list[float], int]:
    """The value and the ends of the interval of a difference in printed units, and their decimals."""
    points = is_accuracy(metric)
    scale = 100 if points else 1
    value, low, high = difference.value * scale, difference.low, difference.high
    if low is None or high is None or low == high:
        ends, decimals = [], min(_decimals(value, value, 2, abs(value)), 2 if points else 9)
    else:  # no two accuracies differ by more than 100 points
        ends = [max(low * scale, -100.0), min(high * scale, 100.0)] if points else [low, high]
        decimals = _decimals(ends[0], ends[1], 1 if points else 2, max(map(abs, ends)))
    return value, ends, max(decimals, int(points))


def signed(value: float, decimals: int) -> str:
    """Format a number with its sign: +0.1, −0.5, 0.0."""
    text = f"{abs(value):.{decimals}f}"
    return text if not float(text) else f"{'−' if value < 0 else '+'}{text}"


def target_text(target: Target) -> str:
    """Format a target: 94% accuracy; val/loss 0.3."""
    bound = target.at_least if target.at_least is not None else target.at_most
    if bound is None:
        return target.metric
    if target.is_accuracy:
        shown = bound if target.in_percent else 100 * bound
        return f"{shown:.4g}% {metric_name(target.metric)}"
    return f"{target.metric} {format_value(bound)}"


def goal_text(answer: Answer) -> str:
    """Format the target in a heading: 94%; empty without one."""
    return target_text(answer.target).removesuffix(" accuracy") if answer.target else ""


def name_of(answer: Answer, index: int, workload: str = "") -> str:
    """The label of a configuration, without the parts of a workload that the sentence has named already."""
    parts = answer.configurations[index].label.split(", ")
    return ", ".join(part for part in parts if part not in workload.split(", ")) or answer.workload


def _other_name(answer: Answer, best: Best) -> str:
    """The other side: `cpu, batch 32`; by one kind of difference if the rest is the same: `with batch 32`, `on cpu`."""
    if best.other is None:
        return ""
    own, other = (name_of(answer, index, best.workload) for index in (best.configuration, best.other))
    differing = [part for part in other.split(", ") if part not in own.split(", ")]
    device = format_value(answer.configurations[best.other].axes.get("device"))
    if ", ".join(differing) in ("", other) or (device in differing and len(differing) > 1):
        return other
    return f"{'on' if device in differing else 'with'} {', '.join(differing)}"


# Sentences at the top


def status_sentences(answer: Answer) -> list[str]:
    """Sentences before the answer: smoke run, generated data, stopped or incomplete grid."""
    sentences = []
    if is_smoke(answer.grid):
        sentences.append("Smoke run: its numbers are not results.")
    if answer.status.part:
        sentences.append(f"Part of the grid: {answer.status.part}.")
    status = answer.status
    if status.completed < status.planned:
        ends = ", ".join(f"{count:,} {STATUSES.get(name, name)}" for name, count in status.endings.items() if count)
        counts = f"{status.completed:,} of {plural(status.planned, 'run')} completed" + (f"; {ends}" if ends else "")
        # After a failure, the end of the output says what to do.
        goes_on = status.is_stopped and not status.endings.get(TrialStatus.FAILED)
        again = f"Not finished: {counts}. Run the same command again to continue."
        sentences.append(again if goes_on else f"Incomplete: {counts}.")
    sentences += [f"{text}." for text in status.repeats]
    if answer.synthetic_data:
        quality = f": {metric_name(answer.metric)} means nothing" if answer.metric else ""
        sentences.append(f"Generated data replaces {answer.synthetic_data}{quality}.")
    return sentences


class CriterionWords(NamedTuple):
    """The head of the sentence on the best by a criterion, its quantity, and ratios as factors and in percent."""

    head: str
    quantity: str
    better: tuple[str, str] = ("{}x as fast as", "{} faster than")
    worse: tuple[str, str] = ("takes {}x as long as", "{} slower than")
    equal: str = "as fast as"


CRITERIA = {
    Criterion.QUALITY: CriterionWords("best {metric} {budget}", "{metric}"),
    Criterion.FASTEST: CriterionWords("fastest", "speed"),
    Criterion.FIRST_TO_TARGET: CriterionWords("first to {target}", "time to the target"),
    Criterion.CHEAPEST: CriterionWords(
        "cheapest{to}{priced}",
        "price",
        ("{}x cheaper than", "{} cheaper than"),
        ("costs {}x as much as", "{} more expensive than"),
        "as expensive as",
    ),
    Criterion.LEAST_ENERGY: CriterionWords(
        "least energy{to}{metered}",
        "energy",
        ("{}x less energy than", "{} less energy than"),
        ("needs {}x as much energy as", "{} more energy than"),
        "as much energy as",
    ),
}

PROBES = {"product": "matrix product"}
"""Words for the operations by which a peak was measured; the others are words already."""

WITHIN = {"time": "in", "price": "for", "energy": "with"}
"""Prepositions of what is spent."""


class BestText(NamedTuple):
    """The sentences on a best configuration: its name, what it is better by, and what cannot be told from it."""

    name: str
    facts: str = ""
    rest: str = ""

    def __str__(self) -> str:
        return " ".join(filter(None, self))


def best_texts(answer: Answer) -> list[BestText]:
    """The answer: the decision about a version, or each best configuration, the most important first."""
    if answer.decision:
        return [BestText(*answer.decision[:1]), *(BestText("", each) for each in answer.decision[1:])]
    if not answer.best:
        reason = "No run has completed." if not answer.status.completed else "No times can be compared."
        return [BestText(reason)]
    return [_best_text(answer, best) for best in answer.best]


def is_reached(configurations: Iterable[Configuration]) -> bool:
    """Return whether a run reached the target, so that the answer is about time, price and energy to it."""
    return any(each.to_target and each.to_target.reached for each in configurations)


def _ranked(answer: Answer, best: Best) -> list[Configuration]:
    """The configurations of which it is the best: those with its workload and data."""
    own = answer.configurations[best.configuration]
    job = own.workload, own.axes.get("data_set")
    return [each for each in answer.configurations if each.rank and (each.workload, each.axes.get("data_set")) == job]


def budget_text(budget: Mapping[str, float], currency: str) -> str:
    """What each run may spend: 5 min of training; $0.10; 50 kJ."""
    ((name, amount),) = budget.items()
    if name == "time":
        unit, size = next((each for each in (("h", 3600), ("min", 60)) if amount >= 2 * each[1]), ("s", 1))
        return f"{amount / size:.3g} {unit} of training"
    return f"{amount / 1000:.3g} kJ" if name == "energy" else money_text(amount, currency)


def _best_text(answer: Answer, best: Best) -> BestText:
    configuration = answer.configurations[best.configuration]
    target = target_text(answer.target) if answer.target else ""
    ranked = _ranked(answer, best)
    terms = {
        "target": target,
        "to": f" to {target}" if is_reached(ranked) and Criterion.FIRST_TO_TARGET not in best.ratios else "",
        "metric": metric_name(answer.metric),
        "priced": " of those with a price" if any(each.price_per_hour is None for each in ranked) else "",
        "metered": " of those measured" if any(each.energy_j is None for each in ranked) else "",
        "budget": " ".join(f"{WITHIN[name]} {budget_text(answer.budget, answer.currency)}" for name in answer.budget)
        + (" (compilation excluded)" if answer.excludes_compilation else ""),
    }
    head = join_words([CRITERIA[criterion].head.format(**terms) for criterion in best.ratios])
    if best.other is None:
        heads = {Criterion.QUALITY: "{metric} {budget}"}
        heads |= {Criterion.FIRST_TO_TARGET: "only one to reach {target}" if len(ranked) > 1 else "to {target}"}
        head = heads.get(next(iter(best.ratios)), "").format(**terms)
    head = head[:1].upper() + head[1:]
    head += f" on {best.workload}" if best.workload and head else ""
    own = name_of(answer, best.configuration, best.workload)
    # An order that noise may have made is not stated as a fact.
    head += " in these runs" if head and best.is_open and len(ranked) > 1 else ""
    if best.is_open and best.other is not None and VERSION_AXIS in configuration.axes and len(ranked) == 2:
        head = f"Undecided, {head[:1].lower()}{head[1:]}"
    if best.other is None:
        own = ": ".join(filter(None, (head, own)))
        return BestText(f"{own}:", f"{'; '.join(_alone(answer, configuration, best, len(ranked) > 1))}.")
    parts = [*_absolute(answer, configuration, best), ", ".join(_relative(answer, best))]
    names = [name_of(answer, index, best.workload) for index in best.indistinguishable]
    quantity = CRITERIA[next(iter(best.ratios))].quantity.format(**terms)
    rest = [f"Not distinguishable from it in {quantity}: {names_text(names)}."] if names else []
    fewer = [each for each in ranked if each.to_target and each.to_target.reached < each.to_target.tried]
    if Criterion.FIRST_TO_TARGET in best.ratios and configuration not in fewer and fewer:
        missed = [(each, each.to_target) for each in fewer if each.to_target]
        counts = [f"{name_of(answer, each.index, best.workload)} ({to.reached} of {to.tried})" for each, to in missed]
        rest.append(f"Reached in fewer runs by {names_text(counts)}.")
    rest += _break_even_price(answer, best)
    if best.unproven and best.unproven != (best.other,):
        names = [name_of(answer, index, best.workload) for index in best.unproven]
        runs = min(each.to_target.tried for each in answer.configurations if each.to_target and each.to_target.tried)
        never = f"only if its runs never miss the target, which {plural(runs, 'run')} cannot show"
        rest.append(f"{own} beats {names_text(names)} {never}.")
    marks = f" [caution{'s' if len(best.cautions) > 1 else ''} {', '.join(best.cautions)}]" if best.cautions else ""
    return BestText(
        f"{head}: {own}{' (the reference)' if configuration.is_reference else ''}:",
        f"{'; '.join(filter(None, parts))}{marks}.",
        " ".join(rest),
    )


def _alone(answer: Answer, configuration: Configuration, best: Best, has_others: bool) -> Iterable[str]:
    """Facts on the only configuration, or the only one that reached the target."""
    yield from _absolute(answer, configuration, best)
    if configuration.seconds:
        yield speed_text(answer, configuration)
    if configuration.quality and Criterion.QUALITY not in best.ratios:
        yield f"{metric_text(answer.metric, configuration.quality.value)} {metric_name(answer.metric)}"
    if configuration.mfu:
        yield f"MFU {share_text(configuration.mfu.share)} of the measured peak, {_peak_text(configuration.mfu)}"
    if configuration.mfu_problem:
        yield f"no MFU: {configuration.mfu_problem}"
    if not has_others:
        yield "nothing to compare it with"


def speed_text(answer: Answer, configuration: Configuration) -> str:
    """Speed with its unit: 12,300 examples/s; 0.43 s per epoch if nothing is counted."""
    if configuration.rate:
        return f"{rate_number(configuration.rate.value)} {answer.unit.counted}/s"
    return f"{seconds_text(configuration.seconds.value)} per {answer.unit.label}" if configuration.seconds else NOTHING


def _absolute(answer: Answer, configuration: Configuration, best: Best) -> Iterable[str]:
    """The quality at a budget, or time and price to the target: how many runs reached it, and when."""
    if Criterion.QUALITY in best.ratios:
        yield metric_text(answer.metric, configuration.quality.value) if configuration.quality else NOTHING
        return
    to = configuration.to_target
    if to is None:
        return
    if to.success_s is None or to.expected is None:
        yield f"0 of {plural(to.tried, 'run')} reached {target_text(answer.target)}" if answer.target else NOTHING
    elif to.reached == to.tried:
        yield f"{seconds_text(to.expected.value)}, reached in {to.reached} of {plural(to.tried, 'run')}"
    else:
        yield f"{to.reached} of {plural(to.tried, 'run')} reached it, after {seconds_text(to.success_s)}"
        ends = [end for end in (to.expected.low, to.expected.high) if end is not None]
        interval = f" (95% CI {' to '.join(map(seconds_text, ends))})" if len(ends) == 2 else ""
        yield f"expected {seconds_text(to.expected.value)}{interval} with a restart after each miss"
    if to.price is not None and Criterion.CHEAPEST in best.ratios:
        yield money_text(to.price, answer.currency)


def _relative(answer: Answer, best: Best) -> Iterable[str]:
    """Ratios and the difference of quality to the other side, which the first of them names."""
    other, once = _other_name(answer, best), ""
    configuration, said, first = answer.configurations[best.configuration], set[str](), Criterion.FIRST_TO_TARGET
    for criterion, ratio in best.ratios.items():
        if ratio is not None and (printed := ratio_text(ratio)) not in said:  # of equal prices it is that of the times
            said.add(printed)
            text = ratio_words(ratio, criterion, other)
            # Of several clauses the first says so.
            yield text.removesuffix(once) if once else text
            other, once = "", next((end for end in (ONCE, NO_INTERVAL) if text.endswith(end)), once)
        counts_own = answer.unit.counted not in ("", "examples")
        if configuration.seconds and (criterion is Criterion.FASTEST or (criterion is first and counts_own)):
            mfu = f", MFU {percent(configuration.mfu.share.value)}" if configuration.mfu else ""
            yield speed_text(answer, configuration) + mfu
        is_of_unit = criterion is Criterion.CHEAPEST and not is_reached(_ranked(answer, best))
        if is_of_unit and configuration.price is not None:
            yield f"{money_text(configuration.price, answer.currency)} per {answer.unit.label}"
    if best.quality is not None:
        text = quality_words(best.quality, answer.metric, other)
        yield text.removesuffix(once) if once else text
    elif configuration.quality is None and any(each.quality for each in answer.configurations):
        yield f"{metric_name(answer.metric)} unknown"


def _break_even_price(answer: Answer, best: Best) -> Iterable[str]:
    """The price of its device above which one on a different device would be cheaper."""
    ratio = best.ratios.get(Criterion.CHEAPEST)
    if ratio is None or best.other is None:
        return
    own, other = (answer.configurations[index] for index in (best.configuration, best.other))
    devices = [format_value(each.axes.get("device", "")) for each in (own, other)]
    if own.price_per_hour and devices[0] != devices[1]:
        price = money_text(float(f"{own.price_per_hour * ratio.value:.3g}"), answer.currency)
        # The price of several devices is that of all.
        names = [name_of(answer, each.index, best.workload) for each in (own, other)]
        subject = names[0] if "count" in own.axes else devices[0]
        yield f"If {subject} cost more than {price} per hour, {names[1]} would be cheaper."


def ratio_words(ratio: Ratio, criterion: Criterion, other: str) -> str:
    """Say a ratio: 9.2x as fast as cpu (95% CI 8.8–9.6); 6% faster than cpu (95% CI 4–8%)."""
    is_better = ratio.value >= 1
    is_percent = 1 / PERCENT_BELOW < ratio.value < PERCENT_BELOW and (ratio.high or 1) < 2  # not −100% to +1085587%
    if is_percent:
        number_text, interval = _in_percent(ratio, criterion in (Criterion.CHEAPEST, Criterion.LEAST_ENERGY))
    else:
        # A factor for "takes 1.6x as long" is the inverse.
        low, high = (None if each is None else 1 / max(each, 1e-300) for each in (ratio.high, ratio.low))
        value = ratio if is_better else Ratio(1 / ratio.value, low, high)
        number_text, _, interval = ratio_text(value, "95% CI ").partition("x")
    forms = CRITERIA[criterion].better if is_better else CRITERIA[criterion].worse
    is_equal = is_percent and not float(number_text.removesuffix("%"))
    words = CRITERIA[criterion].equal if is_equal else forms[is_percent].format(number_text)
    words = f"{words} {other}" if other else words.rpartition(" ")[0]
    if ratio.has_interval and not ratio.excludes(1) and not is_equal:
        words += f", not shown to be {forms[1][3:].removesuffix(' than').removesuffix(' energy')}"
    words += interval
    if not ratio.has_interval:
        words += ONCE if ratio.runs == ratio.other_runs == 1 else NO_INTERVAL
    if ratio.holds_if_no_miss and ratio.excludes(1):
        words += " if no run misses the target"
    return words


def _in_percent(ratio: Ratio, is_cost: bool) -> tuple[str, str]:
    """A ratio near 1, and its interval: + and − are as in the sentence, unless all of it is on one side.

    Of a ratio of 1.25, the speed is 25% more, and a price 20% less, as it is that of the other ÷ the own.
    """

    def percent(each: float) -> float:
        return 100 * (1 - 1 / max(each, LEAST) if is_cost else each - 1)

    value = percent(ratio.value)
    if ratio.low is None or ratio.high is None:
        return f"{number(abs(value), 2)}%", ""
    ends = [percent(end) for end in (ratio.low, ratio.high)]
    decimals = min(_decimals(ends[0], ends[1], 1, max(map(abs, ends))), 3)
    text = f"{abs(value):.{decimals}f}%"
    if ratio.is_significant:
        low, high = sorted(map(abs, ends))
        return text, f" (95% CI {low:.{decimals}f}–{high:.{decimals}f}%)"
    return text, f" (95% CI {signed(ends[0], decimals)}% to {signed(ends[1], decimals)}%)"


def quality_words(difference: Difference, metric: str, other: str = "") -> str:
    """Say a difference of quality: 0.4 points less accurate (0.1–0.7); equal accuracy within 1 point (−0.1)."""
    value, ends, decimals = _difference_parts(difference, metric)
    name, than = metric_name(metric), f" than {other}" if other else ""
    amount, points = f"{abs(value):.{decimals}f}", " points" if is_accuracy(metric) else ""
    found, *texts = (signed(each, decimals) for each in (value, *ends))
    if difference.is_equal and not difference.is_significant:
        return f"equal {name} within 1 point" + (f" ({found})" if float(amount) else "")
    if ends and not difference.is_significant:
        interval = f"(95% CI {' to '.join(texts)}{points})"
        if not float(amount):
            return f"{name} not distinguishable {interval}"
        against = f" against {other}" if other else ""
        return f"{name} {found}{points}{against}, not distinguishable from equal {interval}"
    once = "" if difference.has_interval else ONCE if difference.runs == difference.other_runs == 1 else NO_INTERVAL
    if once == NO_INTERVAL and min(difference.runs, difference.other_runs) > 1:
        once += " because it is the same in every repeat of a side"
    if not float(amount):
        return f"the same {name}{once}"
    interval = f" (95% CI {'–'.join(f'{each:.{decimals}f}' for each in sorted(map(abs, ends)))})" if ends else once
    if name == "accuracy":
        return f"{amount} points {'less' if value < 0 else 'more'} accurate{than}{interval}"
    return f"{name} {amount}{points} {'lower' if value < 0 else 'higher'}{than}{interval}"


# Effects


def effect_name(effect: Effect) -> str:
    """Both sides of an effect, and values that always go with it: batch 512 vs. 32."""
    tied = ", ".join(named_value(axis, value) for axis, value in effect.tied.items())
    other = named_value(effect.axis, effect.other) if isinstance(effect.other, bool) else format_value(effect.other)
    sides = f"{named_value(effect.axis, effect.value)} vs. {other}"
    return f"{sides} (with {tied})" if tied else sides


def speed_head(answer: Answer) -> str:
    """The heading of speeds; with a target it says of what, since they are not speeds to the target."""
    full = f"speed in {answer.unit.counted}/s" if answer.unit.has_rate else f"{answer.unit.label} speed"
    return full if answer.target else "speed"


def effect_speed(effect: Effect) -> str:
    """The mean effect, or the range over the sets if there is no mean."""
    return ratio_text(effect.speed) if effect.speed else range_text(effect.least, effect.most)


def effect_detail(answer: Answer, effect: Effect) -> str:
    """The speeds by the axis that the effect depends on, or their range; empty if neither is needed."""
    detail = _effect_detail(effect)
    return f"{speed_head(answer)}: {detail}" if detail and (answer.target or answer.budget) else detail


def _effect_detail(effect: Effect) -> str:
    if effect.parts:
        parts = [f"{_condition(part.axis, part.value)} {ratio_text(part.speed)}" for part in effect.parts if part.speed]
        return ", ".join(parts)
    needs_range = effect.varies or (effect.speed is not None and not effect.speed.has_interval and effect.sets > 1)
    if effect.speed is None:
        return f"no mean, because it differs between {effect.sets} pairs of configurations" if effect.sets > 1 else ""
    return f"{range_text(effect.least, effect.most)} in {effect.sets} pairs of configurations" if needs_range else ""


def _condition(axis: str, value: object) -> str:
    return f"on {format_value(value)}" if axis in ("device", "workload") else f"at {named_value(axis, value)}"


def effect_quality(effect: Effect, metric: str) -> str:
    """The mean difference of a metric, or the range over the sets if its sign differs between them."""
    if metric in effect.quality:
        return difference_text(effect.quality[metric], metric)
    if effect.quality_least is None or effect.quality_most is None:
        return NOTHING
    scale, decimals = (100, 1) if is_accuracy(metric) else (1, 3)
    return f"{signed(effect.quality_least * scale, decimals)} to {signed(effect.quality_most * scale, decimals)}"


def effects_note(answer: Answer) -> str:
    """What the means are over, and why one has no interval."""
    is_mean = any(each.sets > 1 and (each.speed or each.quality) for each in answer.effects)
    means = "Values are means over pairs that differ in nothing else, geometric for speeds." if is_mean else ""
    tried = [each.to_target for each in answer.configurations if each.to_target]
    is_missed = any(0 < each.reached < each.tried for each in tried) and any(e.to_target for e in answer.effects)
    missed = "A mean speed to the target has no interval if a run missed it." if is_mean and is_missed else ""
    return f"{means} {missed}".strip()


# Amounts of hardware


def scaling_sentences(answer: Answer) -> list[str]:
    """Speed-up, efficiency and price with the largest amount of hardware, and what limits the speed."""
    return [sentence for scaling in answer.scalings for sentence in _scaling_sentences(answer, scaling)]


def _scaling_sentences(answer: Answer, scaling: Scaling) -> Iterable[str]:
    most = max((each for each in answer.effects if each.axis == scaling.axis), key=lambda each: float(each.value))
    nouns = plural_noun(scaling.noun)
    name = f"{format_value(most.value)} {scaling.noun if most.value == 1 else nouns}"
    other, share = format_value(most.other), float(most.other) / float(most.value)
    parts = [(f"{_condition(part.axis, part.value)}, ", part.speed) for part in most.parts]
    for place, speed in parts or [("", most.speed)]:
        if speed is None:
            continue
        facts = [ratio_words(speed, Criterion.FASTEST, other).partition(" (95% CI")[0]]
        facts[0] += f" (efficiency {share_text(scaled(speed, share), '{}%, 95% CI {}–{}%')})"
        for ratio, criterion in ((most.price, Criterion.CHEAPEST), (most.energy, Criterion.LEAST_ENERGY)):
            # With equal prices, that of the work is the speed-up again.
            is_equal = ratio is None or ratio.value == speed.value or (ratio.has_interval and not ratio.excludes(1))
            if ratio and not is_equal and not parts:
                facts.append(ratio_words(ratio, criterion, "").partition(" (95% CI")[0].removesuffix(ONCE))
        per = f" per {answer.unit.label}" if len(facts) > 1 else ""
        text = f"{place}{name}: {', '.join(facts)}{per}."
        yield text[:1].upper() + text[1:]
    if scaling.kind:
        size = "is the same for all" if scaling.kind == "strong" else f"grows with the number of {nouns}"
        yield f"{scaling.kind.capitalize()} scaling: the batch size {size}."
    shares = [each.communication for each in answer.configurations if each.axes.get(scaling.axis) == most.value]
    if known := sorted(share for share in shares if share is not None):
        ends = join_words(list(dict.fromkeys(map(percent, (known[0], known[-1])))), "to")
        yield f"The exchange of gradients takes {ends} of a step with {name}."


def plural_noun(noun: str) -> str:
    """The plural of a noun: processes, GPUs."""
    return f"{noun}{'es' if noun.endswith('s') else 's'}"


# Configurations


def table_caption(answer: Answer, heads: Container[str] = ("MFU",)) -> str:
    """How to read the table of configurations, of which columns with these headings are shown."""
    intervals = any(each.ratio and each.ratio.has_interval for each in answer.configurations)
    chosen = f", which allow for choosing the best of {len(answer.ranking)}" if len(answer.ranking) > 2 else ""
    parts = [
        reference_text(answer),
        runs_text(answer),
        f"95% intervals in parentheses{chosen}" if intervals else "",
        peaks_text(answer) if "MFU" in heads else "",
    ]
    text = "; ".join(filter(None, parts))
    first = f"{text[:1].upper()}{text[1:]}." if text else ""
    text = "Times to the target include compilation and restarts after misses, but not start-up and evaluation."
    to_target = text if is_reached(answer.configurations) else ""
    sentences = [first, to_target, *_mfu_problems(answer)]
    return " ".join(filter(None, sentences))


def _mfu_problems(answer: Answer) -> list[str]:
    """Why configurations have no MFU, if the measurement contradicts what is stated."""
    problems: dict[str, list[str]] = {}
    for each in answer.configurations:
        problems.setdefault(each.mfu_problem, []).append(each.label)
    of = "" if len(problems) == 1 else " of {}"
    return [f"No MFU{of.format(names_text(names))}: {problem}." for problem, names in problems.items() if problem]


def hardware_text(answer: Answer) -> str:
    """The hardware of each device with its price and where this comes from: `AMD EPYC, 2 cores, $0.10/h (Hetzner)`."""
    groups: dict[str, list[Configuration]] = {}
    for each in answer.configurations:
        price = "" if each.price_per_hour is None else f"{money_text(each.price_per_hour, answer.currency)} per hour"
        price += f" ({each.price_source})" if price and each.price_source else ""
        if text := ", ".join(filter(None, (each.hardware, price))):
            groups.setdefault(text, []).append(each)
    named = []
    for text, group in groups.items():
        labels = [each.label.split(", ") for each in group]
        shared = ", ".join(part for part in labels[0] if all(part in label for label in labels))
        named.append(f"{shared}: {text}" if shared and len(groups) > 1 else text)
    return "; ".join(named)


def share_text(share: Summary | None, form: str = "{}% ({}–{})") -> str:
    """Format a share with its interval, if there is one: 41% (39–43)."""
    if share is None:
        return NOTHING
    if share.low is None or share.high is None:
        return percent(share.value)
    decimals = _decimals(100 * share.low, 100 * share.high, 2, 100 * share.value)
    return form.format(*(f"{100 * each:.{decimals}f}" for each in (share.value, share.low, share.high)))


def _peak_text(mfu: Mfu) -> str:
    return f"{flops_text(mfu.basis.peak)} ({mfu.basis.precision} {PROBES.get(mfu.basis.probe, mfu.basis.probe)})"


def peaks_text(answer: Answer) -> str:
    """The peaks that MFU refers to, and how the FLOPs are known unless they were counted."""
    known = [(each.axes.get("device", ""), each.mfu) for each in answer.configurations if each.mfu]
    if not known:
        return ""
    has_devices = len(answer.axes.get("device", ())) > 1
    peaks = list(
        dict.fromkeys(f"{device} {_peak_text(mfu)}" if has_devices else _peak_text(mfu) for device, mfu in known)
    )
    text = f"MFU of the measured peak, {names_text(peaks)}"
    sources = dict.fromkeys(mfu.basis.source for _, mfu in known if mfu.basis.source != COUNTED)
    return f"{text}; FLOPs: {join_words(list(sources))}" if sources else text


def reference_text(answer: Answer) -> str:
    """What the ratios of the table of configurations are relative to."""
    references = [each for each in answer.configurations if each.is_reference]
    if not references or not any(each.ratio for each in answer.configurations):
        return ""
    if len(references) == 1:
        return f"speed is relative to {references[0].label}"
    values = join_words([named_value(axis, value) for axis, value in answer.baseline.items() if axis in answer.axes])
    return f"speed is relative to the same configuration with {values}" if values else ""


def runs_text(answer: Answer) -> str:
    """The number of runs if it is the same everywhere: 3 runs each; else empty."""
    counts = {(each.completed, each.planned) for each in answer.configurations if not each.skip}
    if len(counts) != 1:
        return ""
    ((completed, planned),) = counts
    return f"{plural(completed, 'run')} each" if completed == planned else ""


def outcome_text(configuration: Configuration) -> str:
    """Why a configuration has no time: skipped, out of memory, not run."""
    if configuration.skip:
        return "skipped"
    return ", ".join(STATUSES.get(ending.status, ending.status) for ending in configuration.endings) or "no time"


def failure_sentences(answer: Answer, only_skips: bool = False) -> list[str]:
    """Why runs did not complete or cannot run: a sentence for each reason with the configurations concerned."""
    reasons: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for each in answer.configurations:
        if each.skip:
            reasons.setdefault(("skipped", each.skip), []).append((each.label, 0))
        for ending in () if only_skips else each.endings:
            if not each.skip and ending.status not in ("not run", "unfinished"):
                reasons.setdefault((ending.status, ending.message), []).append((each.label, ending.runs))
    sentences = []
    for (status, message), places in reasons.items():
        runs = sum(count for _, count in places)
        head = STATUSES.get(status, status).capitalize() + (f" ({plural(runs, 'run')})" if runs else "")
        reason = f": {message.rstrip('.')}" if message and message != STATUSES.get(status) else ""
        sentences.append(f"{head}: {names_text([label for label, _ in places])}{reason}.")
    return sentences


# Trust


def trust_sentence(answer: Answer) -> str:
    """The line of trust; the cautions follow it."""
    cautions, level = answer.trust.cautions, answer.trust.level
    if not cautions:
        return "No cautions about the measurement." if answer.status.completed else ""
    if len(answer.configurations) == 1 or answer.decision or not answer.best:
        return f"{plural(len(cautions), 'caution')} that could change these numbers:"
    if level == TrustLevel.DOUBTFUL:
        return f"{plural(len(cautions), 'caution')} that could change which configuration is best:"
    return f"{plural(len(cautions), 'caution')} that could change how large a difference is, but not which is best:"


def caution_text(caution: Caution) -> str:
    """A caution or a note: what happened, how many runs it concerns, and what to do."""
    text = caution.text[:1].upper() + caution.text[1:]
    facts = []
    if caution.runs:
        facts.append(f"{caution.runs:,} of {plural(caution.of_runs, 'run')}")
    if caution.too_long:
        share = float(f"{100 * caution.too_long:.1g}")
        times = f"{share:.0f}% too long" if share < 95 else f"{1 + caution.too_long:.0f}x as long"
        facts.append(f"{'at worst ' if caution.runs > 1 else ''}perhaps {times}")
    text += f" ({'; '.join(facts)})." if facts else "."
    remedy = caution.remedy.rstrip(".")
    return f"{text} {remedy[:1].upper() + remedy[1:]}." if remedy else text
