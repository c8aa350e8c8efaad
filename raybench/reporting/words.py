"""Numbers and sentences of a report as plain text; terminal, page and notebook use the same."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import NamedTuple

from raybench.analysis.answer import (
    EQUAL_RATIO,
    Answer,
    Best,
    BestOfDevice,
    Caution,
    Configuration,
    Criterion,
    Difference,
    Effect,
    Ending,
    OverWorkloads,
    Ratio,
    Scaling,
    Step,
    Summary,
    TargetMean,
    TradeOff,
    TrustLevel,
    Unit,
    Verdict,
)
from raybench.analysis.ratios import is_accuracy, scaled
from raybench.analysis.trade_off import is_open, run_costs
from raybench.core.identity import is_smoke
from raybench.core.job import Target
from raybench.core.labels import configuration_label, named_value
from raybench.core.repeats import percent
from raybench.core.settings import short_name
from raybench.core.status import TrialStatus
from raybench.core.text import MAX_NAMES, flops_text, format_value, join_words, names_text, plural
from raybench.reporting.layout import NOTHING
from raybench.results.run_table import Run
from raybench.results.utilization import COUNTED

PERCENT_BELOW = 1.1
"""Ratios nearer to 1 than this are written in percent in sentences: 6% faster."""

CI = "{}% (95% CI {}–{}%)"
"""A share with its interval in a sentence."""

LEAST_PRICE = 0.1
"""Smallest price of a unit of work; prices of less are those of more work."""

MOST_DECIMALS = 9
"""Decimals at which ends of an interval count as equal."""

LEAST, MOST = 0.001, 9999
"""Range in which the ends of a ratio's interval are printed; beyond it their digits mean nothing."""

STATUSES = {
    "oom": "out of memory",
    "timeout": "timed out",
    "killed": "stopped",
    "unfinished": "not finished",
}
"""Words for the ends of runs; the others are words already."""


def _digits(size: float, digits: int) -> int:
    """The decimals with which a number has this many significant digits, but all before the decimal point."""
    return max(0, digits - 1 - math.floor(math.log10(abs(size)))) if size else 0


def _decimals(ends: Sequence[float], least: int, fine: int, limit: float) -> int:
    """The fewest decimals, at least these, with which the ends of an interval differ and none seems to be the limit.

    Up to `fine` decimals they differ by two steps, so that the value between them can differ from both.
    """

    def is_clear(decimals: int) -> bool:
        printed = [round(end, decimals) for end in ends]
        steps = abs(printed[-1] - printed[0]) * 10**decimals if printed else 2
        differ = steps > (1.5 if decimals < fine else 0.5) or len({*ends}) < 2
        return differ and all(own != limit or end == limit for own, end in zip(printed, ends, strict=True))

    return next(filter(is_clear, range(least, MOST_DECIMALS)), least)


def column_texts(numbers: Sequence[float | Summary | None], size: float = 1.0, with_ends: bool = False) -> list[str]:
    """Format the numbers of a column, perhaps with their intervals, in a unit of this size with the same decimals.

    These give the smallest three digits and, up to six of the largest, let the ends of each interval differ; without
    intervals, numbers that differ may have four digits.
    """
    known = [scaled(each if isinstance(each, Summary) else Summary(each), 1 / size) for each in numbers if each]
    values = sorted(abs(each.value) for each in known if each.value and math.isfinite(each.value)) or [1.0]
    ends = [(each.low, each.high) for each in known if each.low and each.high and each.low < each.high]
    of_range = min(_digits(values[-1] - values[0], 2), _digits(values[0], 4))
    least = max([_decimals(each, 0, 0, 0.0) for each in ends] or [of_range])
    least = max(least, _digits(float(f"{values[0]:.2e}"), 3))
    decimals = max(min(least, _digits(values[-1], 6)), _digits(values[0], 1))
    made = iter(known)

    def text(one: Summary) -> str:
        if not one.value:
            return "0"
        ends = [one.low, one.high] if with_ends and one.low is not None and one.high is not None else []
        value, *listed = (f"{each:,.{decimals}f}" for each in (one.value, *ends))
        return f"{value} ({'–'.join(listed)})" if listed and len({*listed}) > 1 else value

    return [text(next(made)) if each else NOTHING if each is None else "0" for each in numbers]


def number(value: float, digits: int = 3) -> str:
    """Format a number with this many significant digits, but all before the decimal point: 3.92, 0.0178, 12,331."""
    if not math.isfinite(value):
        return f"{value:g}"
    return f"{value:,.{_digits(float(f'{value:.{digits - 1}e}'), digits)}f}"


def seconds_text(seconds: float, *ends: float) -> str:
    """Format a duration: 430 ms, 74.0 s, 12.5 min, 3.10 h; with the ends of an interval: 40.6 s (95% CI 24.4–138)."""
    units = (("µs", 1e-6, 1e-3), ("ms", 1e-3, 1), ("s", 1, 300), ("min", 60, 10_800), ("h", 3600, math.inf))
    unit, size = next((unit, size) for unit, size, largest in units if seconds < largest)
    interval = f" (95% CI {'–'.join(number(end / size) for end in ends)})" if ends else ""
    return f"{number(seconds / size)} {unit}{interval}"


class TimeUnit(NamedTuple):
    """A unit of time."""

    name: str
    seconds: float


def column_unit(seconds: Iterable[float | None]) -> TimeUnit:
    """The unit of all times of a column, in which at most four digits are before the decimal point."""
    known = [value for value in seconds if value] or [1.0]
    if max(known) >= 10_000:
        return TimeUnit("h", 3600)
    if min(known) >= 1 or max(known) >= 10:
        return TimeUnit("s", 1)
    return TimeUnit("ms", 1e-3) if max(known) >= 0.01 else TimeUnit("µs", 1e-6)


def ratio_text(ratio: Ratio | None, prefix: str = "") -> str:
    """Format a ratio with its interval, if there is one: 5.1x (4.8–5.4)."""
    if ratio is None:
        return NOTHING
    low, high = ratio.low, ratio.high
    if low is None or high is None:
        return (
            f"{number(ratio.value, 3 if 1 < ratio.value < PERCENT_BELOW else 2)}x"
            if ratio.value <= MOST
            else f">{MOST}x"
        )
    if ratio.value > MOST:
        return f">{MOST}x"
    decimals = _decimals((low, high), _digits(low, 2), _digits(low, 3), 1.0)

    def text(value: float) -> str:
        if not LEAST <= value <= MOST:
            return f"<{LEAST:g}" if value < LEAST else f">{MOST:g}"
        # The ends of a wide interval need digits of their own: 0.057 (0.0022–1.4).
        return f"{value:.{decimals}f}" if high < 10 * low else number(value, 2)

    return f"{text(ratio.value)}x ({prefix}{text(low)}–{text(high)})"


def rate_number(rate: float) -> str:
    """Format a rate with three significant digits: 41,200."""
    return number(float(f"{rate:.3g}"))


def currency_sign(answer: Answer) -> str:
    """The currency in headings: $ for USD."""
    return "$" if answer.currency == "USD" else answer.currency


def money_text(amount: float, currency: str) -> str:
    """Format a price: $0.018; 0.018 EUR; free."""
    if not amount:
        return "free"
    text = f"{amount:,.2f}" if amount == round(amount, 2) else number(amount)
    return f"${text}" if currency == "USD" else f"{text} {currency}"


def price_unit(answer: Answer) -> tuple[Unit, int]:
    """The work whose prices are not tiny, such as 1,000 epochs or runs to the target, in units of work or runs."""
    is_goal = is_reached(answer.configurations)
    rows = (each for each in answer.configurations if not is_goal or (each.to_target and each.to_target.reached))
    prices = [price for each in rows if (price := _price(each))]
    times = next((10**power for power in (0, 3, 6) if min(prices, default=1.0) * 10**power >= LEAST_PRICE), 10**9)
    unit = Unit("run") if is_goal else answer.unit
    return replace(unit, amount=unit.amount * times), times


def price_head(answer: Answer) -> str:
    """What prices are of: ` to 94% accuracy`, ` per 1,000 runs to 94% accuracy` or ` per epoch`."""
    unit, times = price_unit(answer)
    goal = f" to {target_text(answer.target)}" if answer.target and is_reached(answer.configurations) else ""
    return goal if goal and times == 1 else f" per {unit.label}{goal}"


def price_text(answer: Answer, price: Summary) -> str:
    """A price with its interval: $22.30 (95% CI 22.1–22.5); free."""
    _, times = price_unit(answer)
    if not price.value:
        return "free"
    text = money_text(price.value * times, answer.currency)
    if price.low is None or price.high is None:
        return text
    decimals = _decimals((price.low * times, price.high * times), len(text.partition(".")[2].split(" ")[0]), 9, 0.0)
    return f"{text} (95% CI {price.low * times:,.{decimals}f}–{price.high * times:,.{decimals}f})"


def range_text(low: float | None, high: float | None) -> str:
    """Format the smallest and the largest ratio: 1.2x to 2.1x."""
    return NOTHING if low is None or high is None else f"{number(low, 2)}x to {number(high, 2)}x"


def metric_name(metric: str) -> str:
    """The short name of a metric: accuracy for val/accuracy; `tokens/s by the program` for a rate that it prints."""
    rate = re.fullmatch(r"speed/(\w+)_per_s", metric)
    return "accuracy" if metric == "val/accuracy" else f"{rate[1]}/s by the program" if rate else metric


def metric_text(metric: str, value: float, decimals: int | None = None) -> str:
    """Format a value of a metric: 94.12% for an accuracy, as 93.96% misses a target of 94%."""
    if is_accuracy(metric):
        return f"{100 * value:.{decimals or 2}f}%"
    return number(value) if decimals is None else f"{value:,.{decimals}f}"


def quality_decimals(answer: Answer) -> int:
    """The decimals of qualities: those of their differences, and of three digits or, for an accuracy, two."""
    rows, metric = answer.configurations, answer.metric
    needed = [_difference_parts(each.quality_difference, metric)[1] for each in rows if each.quality_difference]
    values = sorted(abs(each.quality.value) for each in rows if each.quality and each.quality.value) or [1.0]
    least = 2 if is_accuracy(metric) else _digits(values[0], 3)
    return min(max([least, *needed]), _digits(values[-1], 6))


def difference_text(difference: Difference | None, metric: str) -> str:
    """Format a difference with its interval, if there is one; that of accuracies in points: −0.2 (−0.5 to +0.1)."""
    if difference is None:
        return NOTHING
    values, decimals = _difference_parts(difference, metric)
    value, *ends = (signed(each, decimals) for each in values)
    return f"{value} ({' to '.join(ends)})" if ends else value


def _difference_parts(difference: Difference, metric: str) -> tuple[list[float], int]:
    """A difference and the ends of its interval, if it has one, in printed units, and their decimals."""
    points, low, high = is_accuracy(metric), difference.low, difference.high
    ends = [low, high] if low is not None and high is not None and low < high else []
    # No two accuracies differ by more than 100 points, and a difference below a thousandth of one is none.
    values = [100 * min(max(each, -1.0), 1.0) if points else each for each in (difference.value, *ends)]
    if points and max(map(abs, values)) < LEAST:
        return [0.0], 1
    digits = _digits(max(map(abs, values)), 2)
    least = min(max(1, digits), 1 if ends else 2) if points else digits
    return values, _decimals(values[1:], least, 2 if points else digits, 0.0)


def signed(value: float, decimals: int) -> str:
    """Format a number with its sign: +0.1, −0.5, 0.0."""
    text = f"{abs(value):.{decimals}f}"
    return text if not float(text) else f"{'−' if value < 0 else '+'}{text}"


def target_text(target: Target) -> str:
    """Format a target: 94% accuracy; val/loss 0.3."""
    if not target.is_accuracy or target.bound is None:
        return f"{target.metric} {format_value(target.bound)}"
    return f"{target.bound if target.in_percent else 100 * target.bound:.4g}% {metric_name(target.metric)}"


def goal_text(answer: Answer) -> str:
    """Format the target in a heading: 94%; empty without one."""
    return target_text(answer.target).removesuffix(" accuracy") if answer.target else ""


def name_of(answer: Answer, index: int, workload: str = "") -> str:
    """The label of a configuration, without the parts of a workload that the sentence has named already."""
    parts = answer.configurations[index].label.split(", ")
    return ", ".join(part for part in parts if part not in workload.split(", ")) or answer.workload


# Sentences at the top


def status_sentences(answer: Answer) -> list[str]:
    """Sentences before the answer: smoke run, generated data, stopped or incomplete grid."""
    status, sentences = answer.status, ["Smoke run: its numbers are not results."] if is_smoke(answer.grid) else []
    sentences += [f"Part of the grid: {status.part}."] if status.part else []
    if status.completed < status.planned:
        ends = ", ".join(_ending_text(answer, name, count) for name, count in status.endings.items() if count)
        counts = f"{status.completed:,} of {plural(status.planned, 'run')} completed" + (f"; {ends}" if ends else "")
        # After a failure, the end of the output says what to do.
        goes_on = status.is_stopped and not status.endings.get(TrialStatus.FAILED)
        again = " Run the same command again to continue." if status.is_own else ""
        sentences.append(f"Not finished: {counts}.{again}" if goes_on else f"Incomplete: {counts}.")
    sentences += [f"{text}." for text in status.repeats]
    if answer.means and not any(each.is_reached for each in answer.means):
        sentences.append(f"No mean reaches {target_text(answer.target)}." if answer.target else "")
    elif answer.target and not answer.means and status.completed and not is_reached(answer.configurations):
        sentences.append(f"No run reached {target_text(answer.target)}.")
    if answer.synthetic_data:
        quality = f": {metric_name(answer.metric)} means nothing" if answer.metric else ""
        sentences.append(f"Generated data replaces {answer.synthetic_data}{quality}.")
    return sentences


def _ending_text(answer: Answer, status: str, runs: int) -> str:
    """How many runs ended so and, if it may be due to their configuration, of which: 1 diverged (tpu)."""
    rows = answer.configurations
    concerned = [each.label for each in rows if any(ending.status == status for ending in each.endings)]
    is_theirs = status in (TrialStatus.DIVERGED, TrialStatus.OOM, TrialStatus.TIMEOUT, TrialStatus.FAILED)
    names = f" ({names_text(concerned)})" if is_theirs and len(concerned) < len(rows) else ""
    return f"{runs:,} {STATUSES.get(status, status)}{names}"


class CriterionWords(NamedTuple):
    """The role of the best by a criterion, the verdict, its quantity, and ratios as factors and in percent."""

    role: str
    verdict: str
    quantity: str
    better: tuple[str, str] = ("{}x as fast as", "{} faster than")
    worse: tuple[str, str] = ("takes {}x as long as", "{} slower than")
    equal: str = "as fast as"


ONE_RUN, TRADE_OFF, BEST_BUY = "One run each", "Trade-off", "Best buy"
"""Verdicts on time and price together."""

TIMES = {Criterion.FASTEST, Criterion.FIRST_TO_TARGET}
"""The criteria of the fastest."""

CRITERIA = {
    Criterion.QUALITY: CriterionWords("best {metric}{budget}", "Best in budget", "{metric}"),
    Criterion.FASTEST: CriterionWords("fastest{of}", "Faster", "speed"),
    Criterion.KEEPS_QUALITY: CriterionWords("fastest within {loss} of the best {metric}", "Faster", "speed"),
    Criterion.FIRST_TO_TARGET: CriterionWords("first to {target}", "Faster", "time to the target"),
    Criterion.CHEAPEST: CriterionWords(
        "cheapest{to}{priced}",
        "Cheaper",
        "price",
        ("costs {}x as much as", "{} cheaper than"),
        ("costs {}x as much as", "{} more expensive than"),
        "as expensive as",
    ),
    Criterion.LEAST_ENERGY: CriterionWords(
        "least device energy{to}{metered}",
        "Less device energy",
        "device energy",
        ("needs {}x as much device energy as", "{} less device energy than"),
        ("needs {}x as much device energy as", "{} more device energy than"),
        "as much device energy as",
    ),
}

PROBES = {"product": "matrix product"}
"""Words for the operations by which a peak was measured; the others are words already."""

WITHIN = {"time": "in", "price": "for"} | dict.fromkeys(("energy", "tokens", "examples", "flops"), "with")
"""Prepositions of what is spent."""


MEMORY = Run.memory_gib.name, Run.memory_used.name
"""The columns of runs with the peak memory and its share."""


class BestText(NamedTuple):
    """The sentences on a best configuration: the verdict, what it is better by, and what cannot be told from it.

    The first part has its name only if the verdict is that it is better.
    """

    name: str
    facts: str = ""
    rest: str = ""

    def __str__(self) -> str:
        return " ".join(filter(None, self))


def best_texts(answer: Answer) -> list[BestText]:
    """The answer: the decision about a version, or each best configuration, the most important first."""
    if answer.decision:
        return [BestText(*answer.decision[:1]), *(BestText("", each) for each in answer.decision[1:])]
    if not answer.best and answer.status.completed and is_smoke(answer.grid):
        return []  # its numbers are not results
    if not answer.best:
        open_question = next((each.text for each in answer.trust.cautions if each.code == "metric_direction"), "")
        reason = "No run has completed." if not answer.status.completed else "No times can be compared."
        reason = f"No best: {open_question}." if open_question else reason
        return [BestText(reason)]
    firsts = {best.workload: best for best in reversed(answer.best)}
    near = {best.workload for best in answer.best if Criterion.KEEPS_QUALITY in best.ratios}
    texts = [*within_texts(answer), *over_workloads_texts(answer)]
    for best in answer.best:
        is_first = best is firsts[best.workload]
        if (trade_off := shown_trade_off(answer, best.workload)) and _is_in(answer, trade_off, best):
            if Criterion.CHEAPEST in best.ratios:
                texts.append(_trade_off_text(answer, trade_off))
            continue
        text = _best_text(answer, best, is_first)
        # Of equals the one that keeps the quality follows: a comparison of two of them would say less.
        if is_first and best.verdict is Verdict.EQUAL and best.workload in near:
            text = text._replace(facts="")
        texts.append(text)
    return texts


def verdict(answer: Answer) -> str:
    """The verdict of the answer: Faster, Best in budget, Equal, Undecided or One run each; empty without one."""
    first = next((each for each in answer.best if each.verdict), None)
    if first is None or answer.decision:
        return ""
    trade_off = shown_trade_off(answer, first.workload)
    return _trade_off_verdict(trade_off) if trade_off and _is_in(answer, trade_off, first) else _verdict(answer, first)


def shown_trade_off(answer: Answer, workload: str) -> TradeOff | None:
    """The trade-off of a workload, if time and price are not those of one configuration and runs can tell it."""
    trade_off = next((each for each in answer.trade_offs if each.workload == workload), None)
    if trade_off is None:
        return None
    are_two = trade_off.fastest != trade_off.cheapest
    if are_two and is_open(trade_off.speed) and is_open(trade_off.price):
        return None
    bests = [each for each in answer.best if each.workload == workload and _is_in(answer, trade_off, each)]
    is_sure = are_two or any(each.verdict is Verdict.BETTER for each in bests)
    is_one = any(Criterion.CHEAPEST in each.ratios and not TIMES.isdisjoint(each.ratios) for each in bests)
    return trade_off if is_sure and not is_one else None


def _is_in(answer: Answer, trade_off: TradeOff, best: Best) -> bool:
    """Whether the sentence on a trade-off says what is best by a criterion; it has nothing without a price."""
    is_fastest = not TIMES.isdisjoint(best.ratios) and best.configuration == trade_off.fastest
    return Criterion.CHEAPEST in best.ratios or is_fastest


def _trade_off_verdict(trade_off: TradeOff) -> str:
    ratios = [each for step in trade_off.steps for each in (step.speed, step.price) if each]
    ratios = ratios or [each for each in (trade_off.speed,) if each]
    if not all(each.has_interval for each in ratios):
        return ONE_RUN if all(each.runs == each.other_runs == 1 for each in ratios) else "Undecided"
    # A cheapest one that is the fastest, too, or is not shown to be slower, leaves no choice.
    return BEST_BUY if len(trade_off.steps) == 1 or is_open(trade_off.price) else TRADE_OFF


def _trade_off_text(answer: Answer, trade_off: TradeOff) -> BestText:
    """Say what the cheapest costs, and for how much more each next one saves how much time."""
    bests = [each for each in answer.best if each.workload == trade_off.workload and _is_in(answer, trade_off, each)]
    rows, steps = answer.configurations, trade_off.steps
    names = {each.index: name_of(answer, each.index, trade_off.workload) for each in rows}
    ranked = [each for each in _of_its_job(answer, trade_off.cheapest) if each.rank]
    first = rows[steps[0].configuration]
    place = f" on {trade_off.workload}" if trade_off.workload else ""
    count = sum(1 for each in ranked if _seconds(each) and (each.price_per_hour is not None))
    of = f" of {count}" if count > 2 else ""
    amounts = f"{_amounts(answer, first)}{price_head(answer)}{_reached(first)}"
    speed, price, fastest = trade_off.speed, trade_off.price, rows[trade_off.fastest]
    if trade_off.fastest == trade_off.cheapest:
        is_both = all(each.verdict is Verdict.BETTER for each in bests)
        role, facts = f"fastest and cheapest{of}{'' if is_both else ' in these runs'}", [amounts]
        same = [each for each in bests if each.configuration == first.index]  # of equal prices another may be first
        facts += [", ".join(_relative(answer, each, ranked, with_amounts=False)) for each in same]
    elif len(steps) == 1:
        role, close = f"cheapest{of}", ratio_words(speed, Criterion.FASTEST, "") if speed else ""
        cost = ratio_words(price, Criterion.CHEAPEST, names[fastest.index]) if price else ""
        facts = [f"{amounts}; {cost}, the fastest in these runs ({_unbracketed(close)})"]
    elif is_open(price):
        role, cost = f"fastest{of}", ratio_words(price, Criterion.CHEAPEST, "") if price else ""
        faster = ratio_words(speed, Criterion.FASTEST, names[first.index]) if speed else ""
        facts = [f"{_amounts(answer, fastest)}{price_head(answer)}{_reached(fastest)}"]
        facts += [f"{faster}, the cheapest in these runs ({_unbracketed(cost)})"]
        first = fastest
    else:
        role, facts = f"cheapest{of}", [amounts]
        facts += [_step_text(answer, step, names, "" if step is steps[1] else "a further ") for step in steps[1:]]
    facts += dict.fromkeys(text for best in bests for text in best.words)
    marks = sorted({mark for best in bests for mark in best.cautions})
    mark = f" [caution{'s' if len(marks) > 1 else ''} {', '.join(marks)}]" if marks else ""
    name = f"{_trade_off_verdict(trade_off)}{place}: {names[first.index]}, {role}:"
    rest = []
    for step in steps:
        if step.as_fast and len(steps) > 1:
            close = names_text([names[index] for index in step.as_fast])
            rest.append(f"More expensive than {names[step.configuration]}, and not shown to be faster: {close}.")
    if trade_off.beaten:
        unless = ", if no run misses the target" if trade_off.holds_if_no_miss else ""
        rest.append(f"Slower and more expensive{unless}: {names_text([names[index] for index in trade_off.beaten])}.")
    unpriced = [names[each.index] for each in ranked if each.price_per_hour is None]
    rest += [f"Without a price: {names_text(unpriced)}."] if unpriced else []
    rest += [text for best in bests for text in _break_even_price(answer, best, ranked, names)]
    return BestText(name, f"{'; '.join(facts)}{mark}.", " ".join(rest))


def _step_text(answer: Answer, step: Step, names: Mapping[int, str], further: str = "") -> str:
    """What a step saves and costs: b saves 2.0 h (1.7x as fast) for $1.50 more (7%; $0.75 per hour saved)."""
    own, other = (answer.configurations[each or 0] for each in (step.configuration, step.other))
    _, times = price_unit(answer)
    seconds, price = ((of(other) - of(own)) * times for of in (_seconds, _price))
    speed = f" ({_unbracketed(ratio_words(step.speed, Criterion.FASTEST, ''))})" if step.speed else ""
    rate = money_text(float(f"{-price / seconds * 3600:.3g}"), answer.currency)
    share = f"{100 * (1 / step.price.value - 1):.2g}%" if step.price and step.price.value > 0.5 else ""
    share += ", not shown to be more expensive" if is_open(step.price) else ""
    share += "; " if share else ""
    rate_of_work = f" ({speed_text(answer, own)})" if own.rate and answer.unit.has_rate else ""
    text = f"{names[own.index]}{rate_of_work} saves {further}{seconds_text(seconds)}{speed}"
    text += f" for {money_text(float(f'{-price:.3g}'), answer.currency)} more ({share}{rate} per hour saved)"
    quality = step.quality
    is_said = quality and (quality.is_significant or not quality.has_interval) and not quality.is_equal
    text += f", {quality_words(quality, answer.metric)}" if quality and is_said and quality.value else ""
    return text + _reached(own)


def _unbracketed(text: str) -> str:
    """Words for brackets: 1.5x as fast; 95% CI 1.1–2.0."""
    return re.sub(r" \((95% CI [^)]*)\)", r"; \1", text)


def _amounts(answer: Answer, each: Configuration) -> str:
    """The price and the time of a configuration: $22.30 (95% CI 22.1–22.5) and 4.95 h."""
    price = each.to_target.price if each.to_target and is_reached(answer.configurations) else each.price
    _, times = price_unit(answer)
    return f"{price_text(answer, price or Summary(0.0))} and {seconds_text(_seconds(each) * times)}"


def _reached(each: Configuration) -> str:
    """How many runs reached the target, if some did not."""
    to = each.to_target
    return f", reached in {to.reached} of {plural(to.tried, 'run')}" if to and 0 < to.reached < to.tried else ""


def within_texts(answer: Answer) -> list[BestText]:
    """The choice within a deadline and what may be spent, for each workload."""
    limits = [duration_text(answer.deadline_s)] if answer.deadline_s is not None else []
    limits += [money_text(answer.spend_at_most, answer.currency)] if answer.spend_at_most is not None else []
    limit, texts = join_words(limits), []
    goal = f" to {target_text(answer.target)}" if answer.target and is_reached(answer.configurations) else " for a run"
    for each in answer.within:
        place = f" on {each.workload}" if each.workload else ""
        own = answer.configurations[each.nearest if each.configuration is None else each.configuration]
        seconds, price = run_costs(own)
        amounts = seconds_text(seconds or 0.0)
        amounts += f" and {money_text(float(f'{price:.3g}'), answer.currency)}" if price is not None else ""
        name = name_of(answer, own.index, each.workload)
        if each.configuration is None:
            parts = [(seconds, answer.deadline_s), (price, answer.spend_at_most)]
            above = max(amount / most - 1 for amount, most in parts if amount is not None and most)
            text = f"{name} comes nearest, {percent(above)} above, with {amounts}{goal}."
            texts.append(BestText(f"None within {limit}{place}:", text))
            continue
        role = "cheapest" if answer.deadline_s is not None and price is not None else "fastest"
        role = f"the {role} of {each.of} within" if each.of > 1 else "the only one within"
        runs = f"{each.runs_within} of {plural(each.runs, 'run')} within"
        texts.append(BestText(f"{name}{place}, {role} {limit}:", f"{amounts}{goal}; {runs}."))
    return texts


def over_workloads_texts(answer: Answer) -> list[BestText]:
    """The fastest device over several workloads, and those on which another is faster."""
    if not answer.over_workloads:
        return []
    first, *others = answer.over_workloads
    names = list(first.ratios)
    weights = f", weights {', '.join(f'{n} {w:g}' for n, w in answer.weights.items())}" if answer.weights else ""
    base = next(row for row in answer.over_workloads if row.device == row.other)

    def facts(row: OverWorkloads) -> str:
        ratios = [(row.speed, Criterion.FASTEST), *([(row.price, Criterion.CHEAPEST)] if row.price else [])]
        others = [row.other, ""]
        return ", ".join(ratio_words(ratio, criterion, others.pop(0)) for ratio, criterion in ratios)

    rows = [row for row in answer.over_workloads if row is not base]
    listed = "; ".join(f"{row.device} {facts(row)}" if row is not first else facts(row) for row in rows)
    verdict = "Undecided" if is_open(first.speed) else "Fastest"
    name = f"{first.device}{' (the reference)' if first is base else ''}"
    head = f"{verdict} over {len(names)} workloads (geometric mean{weights}): {name}:"
    rest = [
        f"Another order on {names_text(list(row.faster_on))}: {row.device} is faster than {first.device}."
        for row in others
        if row.faster_on
    ]
    return [BestText(head, f"{listed}.", " ".join(rest) or f"{first.device} is not shown to be slower on any of them.")]


def duration_text(seconds: float) -> str:
    """A duration as a user writes it: 3 h; 90 min; 45 s."""
    unit, size = next((each for each in (("h", 3600), ("min", 60)) if seconds >= each[1]), ("s", 1))
    return f"{seconds / size:.3g} {unit}"


def _seconds(each: Configuration) -> float:
    """The time to the target, or of a unit of work; 0 if unknown."""
    expected = each.to_target.expected if each.to_target and each.to_target.reached else each.seconds
    return expected.value if expected else 0.0


def _verdict(answer: Answer, best: Best) -> str:
    if best.verdict is Verdict.BETTER and Criterion.QUALITY in best.ratios and not answer.budget:
        return "Better"
    if best.verdict is Verdict.BETTER:
        return CRITERIA[next(iter(best.ratios))].verdict
    return str(best.verdict or "").capitalize()


def is_reached(configurations: Iterable[Configuration]) -> bool:
    """Return whether a run reached the target, so that the answer is about time, price and energy to it."""
    return any(each.to_target and each.to_target.reached for each in configurations)


def _of_its_job(answer: Answer, index: int) -> list[Configuration]:
    """The configurations with the workload and data of one."""
    own = answer.configurations[index]
    job = own.workload, own.axes.get("data_set")
    return [each for each in answer.configurations if (each.workload, each.axes.get("data_set")) == job]


def budget_text(budget: Mapping[str, float], currency: str) -> str:
    """What each run may spend: 5 min of training; $0.10; 50 kJ."""
    ((name, amount),) = budget.items()
    if name == "time":
        unit, size = next((each for each in (("h", 3600), ("min", 60)) if amount >= 2 * each[1]), ("s", 1))
        return f"{amount / size:.3g} {unit} of training"
    if name in ("tokens", "examples", "flops"):
        letter, times = next((each for each in (("T", 1e12), ("B", 1e9), ("M", 1e6)) if amount >= each[1]), ("", 1.0))
        return f"{amount / times:.4g}{letter and f' {letter}'} {name.replace('flops', 'FLOPs')}"
    return f"{amount / 1000:.3g} kJ" if name == "energy" else money_text(amount, currency)


def _best_text(answer: Answer, best: Best, is_first: bool) -> BestText:
    configuration, of_job = answer.configurations[best.configuration], _of_its_job(answer, best.configuration)
    ranked = [each for each in of_job if each.rank]
    names = {each.index: name_of(answer, each.index, best.workload) for each in answer.configurations}
    untimed = [names[each.index] for each in of_job if each.seconds and not each.rank]
    target, loss = target_text(answer.target) if answer.target else "", f"{100 * answer.max_quality_loss:g}"
    terms = {
        "target": target,
        "to": f" to {target}" if is_reached(ranked) and Criterion.FIRST_TO_TARGET not in best.ratios else "",
        "metric": metric_name(answer.metric),
        "of": f" of {len(ranked)}" if len(ranked) > 2 and not untimed else "",
        "loss": loss + (f" point{'' if loss == '1' else 's'}" if is_accuracy(answer.metric) else "%"),
        "priced": " of those with a price" if any(each.price_per_hour is None for each in ranked) else "",
        "metered": " of those measured" if any(each.energy_j is None for each in ranked) else "",
        "budget": "".join(f" {WITHIN[name]} {budget_text(answer.budget, answer.currency)}" for name in answer.budget)
        + (" (compilation excluded)" if answer.excludes_compilation else ""),
    }
    roles = [CRITERIA[criterion].role.format(**terms) for criterion in best.ratios]
    if best.other is None:
        only = {Criterion.QUALITY: "{metric}{budget}"}
        only |= {Criterion.FIRST_TO_TARGET: "only one to reach {target}" if len(ranked) > 1 else "to {target}"}
        roles = [text] if (text := only.get(next(iter(best.ratios)), "").format(**terms)) else []
    role = join_words(roles) + (" of those timed" if untimed and roles else "")
    own, is_named = names[best.configuration], configuration.is_reference and best.other is not None
    named, place = f"{own}{' (the reference)' if is_named else ''}", f" on {best.workload}" if best.workload else ""
    rivals = [index for index in (*best.indistinguishable, *best.unproven) if best.verdict is not Verdict.BETTER]
    listed = [names[each] for each in (best.configuration, *rivals)]
    # Labels with commas are separated by semicolons.
    sides = names_text(listed) if len(listed) > 2 and (len(listed) > MAX_NAMES or ", " in own) else join_words(listed)
    facts = [*_absolute(answer, configuration, best), ", ".join(_relative(answer, best, ranked))]
    facts += best.words
    facts += ["nothing to compare it with"] if len(ranked) == 1 else []
    marks = f" [caution{'s' if len(best.cautions) > 1 else ''} {', '.join(best.cautions)}]" if best.cautions else ""
    text = f"{'; '.join(filter(None, facts))}{marks}."
    quantity = CRITERIA[next(iter(best.ratios))].quantity.format(**terms)
    if best.verdict is None or (best.verdict is Verdict.BETTER and not is_first):
        chance = " in these runs" if best.verdict is None and len(ranked) > 1 else ""
        name = f"{role[:1].upper()}{role[1:]}{place}{chance}: {named}:" if role else f"{named}:"
    elif best.verdict is Verdict.BETTER:
        name = f"{_verdict(answer, best)}{place}: {named}{'' if role == 'fastest' else f', {role}'}:"
    elif best.verdict is Verdict.EQUAL:
        margin = "1 point" if Criterion.QUALITY in best.ratios else percent(EQUAL_RATIO - 1)
        name = f"{_verdict(answer, best)}{place}: {sides} differ by less than {margin} in {quantity}."
        text = f"{named}: {text}"
    else:  # an order that noise may have made is not stated as a fact
        about = "" if is_first or not rivals else f" in {quantity}"
        name = f"{_verdict(answer, best)}{place}{about}{f' between {sides}' if rivals else ''}:"
        text = f"{named}, {role}{'' if best.verdict is Verdict.ONE_RUN else ' in these runs'}: {text}"
    ties = names_text([names[index] for index in best.indistinguishable if index not in rivals])
    rest = [f"Not compared, because epochs are too short to be timed: {names_text(untimed)}."] if untimed else []
    rest += [f"Not distinguishable from it in {quantity}: {ties}."] if ties else []
    if best.unproven:
        runs = min(each.to_target.tried for each in ranked if each.to_target and each.to_target.tried)
        slower = names_text([names[index] for index in best.unproven if best.unproven != (best.other,)])
        shown = f"{plural(runs, 'run')} cannot show that {own} never misses the target"
        rest.append(f"Slower, but {shown}: {slower}." if slower else f"{shown}.")
    if Criterion.FIRST_TO_TARGET in best.ratios and (to := configuration.to_target):
        others = [(names[each.index], each.to_target) for each in ranked if each.to_target]
        for words, is_never in (("Reached in fewer runs by", False), ("Not reached by", True)):
            fewer = [
                f"{name} ({o.reached} of {o.tried})"
                for name, o in others
                if o.reached * to.tried < to.reached * o.tried and is_never == (not o.reached)
            ]
            rest += [f"{words} {names_text(fewer)}."] if fewer else []
    rest += _break_even_price(answer, best, ranked, names)
    return BestText(name, text, " ".join(rest))


def speed_text(answer: Answer, configuration: Configuration) -> str:
    """Speed with its unit: 12,300 examples/s; 0.43 s per epoch if nothing is counted; empty if unknown."""
    if configuration.rate:
        return f"{rate_number(configuration.rate.value)} {answer.unit.counted}/s"
    unit = f"{answer.unit.label}{' with its start-up' if answer.unit.name == 'run' and answer.clock else ''}"
    return f"{seconds_text(configuration.seconds.value)} per {unit}" if configuration.seconds else ""


def _absolute(answer: Answer, configuration: Configuration, best: Best) -> Iterator[str]:
    """The quality at a budget, or time and price to the target: how many runs reached it, and when."""
    if Criterion.QUALITY in best.ratios:
        quality = configuration.quality
        yield metric_text(answer.metric, quality.value, quality_decimals(answer)) if quality else NOTHING
        return
    yield from (mean_text(answer, each) for each in answer.means if each.configuration == configuration.index)
    to = configuration.to_target
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
        yield price_text(answer, to.price)


def _relative(answer: Answer, best: Best, ranked: Sequence[Configuration], with_amounts: bool = True) -> Iterator[str]:
    """Ratios and the difference of quality to the other side, if there is one, which the first of them names."""
    is_price = next(iter(best.ratios)) is Criterion.CHEAPEST
    other = (
        ""
        if best.other is None
        else name_of(answer, best.other, best.workload) + _best_with(answer, best.other, is_price)
    )
    said = set[str]()
    configuration, is_reaching = answer.configurations[best.configuration], is_reached(ranked)
    for criterion, ratio in best.ratios.items():
        if ratio is not None and (printed := ratio_text(ratio)) not in said:  # of equal prices it is that of the times
            said.add(printed)
            yield ratio_words(ratio, criterion, other)
            other = ""
        is_counted = answer.unit.counted not in ("", "examples") or best.other is None
        if criterion in (Criterion.FASTEST, Criterion.KEEPS_QUALITY) or (
            criterion is Criterion.FIRST_TO_TARGET and is_counted
        ):
            yield from filter(None, [speed_text(answer, configuration)] if with_amounts or configuration.rate else [])
            if configuration.mfu:
                yield f"MFU {percent(configuration.mfu.share.value)}"
        elif criterion is Criterion.CHEAPEST and not is_reaching and configuration.price is not None and with_amounts:
            yield price_text(answer, configuration.price) + (price_head(answer) if configuration.price.value else "")
    if best.quality is not None:
        yield quality_words(best.quality, answer.metric, other)
    elif best.other is None and configuration.quality and Criterion.QUALITY not in best.ratios:
        quality = metric_text(answer.metric, configuration.quality.value, quality_decimals(answer))
        yield f"{quality} {metric_name(answer.metric)}"
    elif configuration.quality is None and any(each.quality for each in answer.configurations):
        yield f"{metric_name(answer.metric)} unknown"


def _best_with(answer: Answer, index: int, is_price: bool = False) -> str:
    """Say that a configuration is the best with its value on the compared axis, if there are others."""
    axes, job = answer.configurations[index].axes, _of_its_job(answer, index)
    value = configuration_label(axes, [answer.compared])
    same = [each for each in job if each.rank and value and configuration_label(each.axes, [answer.compared]) == value]
    return f" ({'cheapest' if is_price else 'best'} with {value})" if len(same) > 1 else ""


def _break_even_price(
    answer: Answer, best: Best, ranked: Sequence[Configuration], names: Mapping[int, str]
) -> Iterator[str]:
    """Yield the price of its device above which the cheapest configuration on a different device would be cheaper."""
    own = answer.configurations[best.configuration]
    cost, device = _price(own), format_value(own.axes.get("device", ""))
    others = [each for each in ranked if format_value(each.axes.get("device", "")) != device and _price(each)]
    others = [each for each in others if not own.hardware or each.hardware != own.hardware]  # it has one price
    if Criterion.CHEAPEST not in best.ratios or not others or not cost or not own.price_per_hour:
        return
    other = min(others, key=_price)
    price = money_text(float(f"{own.price_per_hour * _price(other) / cost:.3g}"), answer.currency)
    subject = names[own.index] if "count" in own.axes else device  # the price of several devices is that of all
    yield f"If {subject} cost more than {price} per hour, {names[other.index]} would be cheaper."


def _price(each: Configuration) -> float:
    """The price to the target, or of a unit of work; 0 if unknown."""
    price = each.to_target.price if each.to_target and each.to_target.reached else each.price
    return price.value if price else 0.0


def ratio_words(ratio: Ratio, criterion: Criterion, other: str) -> str:
    """Say a ratio: 9.2x as fast as cpu (95% CI 8.8–9.6); 6% faster than cpu (95% CI 4–8%).

    If it is shown for the machines of the runs only, and not for their models, it says so.
    """
    if ratio.is_of_these_machines:
        these = replace(ratio, low=ratio.these_low, high=ratio.these_high, these_low=None)
        head, interval, tail = ratio_words(these, criterion, other).partition(" (95% CI")
        sd, few = f"{100 * ratio.machine_sd:.1g}%", ratio.machines < 3
        here = "this machine" if ratio.machines == 1 else f"these {ratio.machines} machines"
        why = f"not shown for the models, because machines of one model differ by about {sd}"
        remedy = "measure a second machine of each" if few else "measure more machines of each"
        return f"{head} on {here}{interval}{tail}; {why}: {remedy}"
    criterion_words, is_better = CRITERIA[criterion], ratio.value >= 1
    forms = criterion_words.better if is_better else criterion_words.worse
    is_cost = criterion in (Criterion.CHEAPEST, Criterion.LEAST_ENERGY)
    is_near = 1 / PERCENT_BELOW < ratio.value < PERCENT_BELOW and (ratio.high or 1) < 2  # not −100% to +1085587%
    is_percent = is_near or (is_cost and is_better and (ratio.low or 1) > 0.5)  # nothing costs "1.3x less"
    if is_percent:
        amount, interval = _in_percent(ratio, is_cost)
    else:
        # A factor for "takes 1.6x as long" is the inverse.
        low, high = (None if each is None else 1 / max(each, 1e-300) for each in (ratio.high, ratio.low))
        value = ratio if is_better and not is_cost else Ratio(1 / ratio.value, low, high)
        amount, _, interval = ratio_text(value, "95% CI ").partition("x")
    is_equal = is_percent and not float(amount.removesuffix("%"))
    text = criterion_words.equal if is_equal else forms[is_percent].format(amount)
    text = f"{text} {other}" if other else text.rpartition(" ")[0]
    if ratio.has_interval and not ratio.excludes(1) and not is_equal:
        text += f", not shown to be {forms[1][3:].removesuffix(' than').removesuffix(' device energy')}"
    text = f"{text}{interval}".replace(") (95%", "; 95%")
    return f"{text}{' if no run misses the target' if ratio.holds_if_no_miss and ratio.excludes(1) else ''}"


def _in_percent(ratio: Ratio, is_cost: bool) -> tuple[str, str]:
    """A ratio near 1, and its interval: + and − are as in the sentence, unless all of it is on one side.

    Of a ratio of 1.25, the speed is 25% more, and a price 20% less, as it is that of the other ÷ the own.
    """
    known = [each for each in (ratio.value, ratio.low, ratio.high) if each is not None]
    value, *ends = (100 * (1 - 1 / max(each, LEAST) if is_cost else each - 1) for each in known)
    least = _digits(100 - value, 2) if is_cost and value > 0 else 0  # 99.7% and 99.8% less are far apart
    if not ends:
        return f"{abs(value):.{least}f}%" if least else f"{number(abs(value), 2)}%", ""
    decimals = _decimals(ends, least, 1, 0.0)
    if ratio.is_significant:
        interval = "–".join(f"{each:.{decimals}f}" for each in sorted(map(abs, ends)))
    else:
        interval = "% to ".join(signed(each, decimals) for each in ends)
    return f"{abs(value):.{decimals}f}%", f" (95% CI {interval}%)"


def quality_words(difference: Difference, metric: str, other: str = "") -> str:
    """Say a difference of quality: 0.4 points less accurate (0.1–0.7); equal accuracy within 1 point (−0.1)."""
    values, decimals = _difference_parts(difference, metric)
    found, *ends = (signed(each, decimals) for each in values)
    name, amount, points = metric_name(metric), found.lstrip("+−"), " points" if is_accuracy(metric) else ""
    if difference.is_equal and not difference.is_significant:
        to = f" to {other}" if other else ""
        return f"equal {name}{to} within 1 point" + (f" ({found})" if float(amount) else "")
    if ends and not difference.is_significant:
        against = f" against {other}" if other else ""
        size = f" {found}{points}{against}," if float(amount) else ""
        return f"{name}{size} not distinguishable from equal (95% CI {' to '.join(ends)}{points})"
    if not float(amount):
        return f"the same {name}" + (f" as {other}" if other else "")
    interval = f" (95% CI {'–'.join(sorted((each.lstrip('+−') for each in ends), key=float))})" if ends else ""
    than = f" than {other}" if other else ""
    if name == "accuracy":
        return f"{amount} points {'less' if values[0] < 0 else 'more'} accurate{than}{interval}"
    return f"{name} {amount}{points} {'lower' if values[0] < 0 else 'higher'}{than}{interval}"


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
    return full if answer.target and not answer.means else "speed"


def effect_speed(effect: Effect) -> str:
    """The mean effect, or the range over the sets if there is no mean."""
    return ratio_text(effect.speed) if effect.speed else range_text(effect.least, effect.most)


def effect_detail(answer: Answer, effect: Effect) -> str:
    """The speeds by the axis that the effect depends on, or their range; empty if neither is needed."""
    pairs = f"{effect.sets} pairs of configurations"
    parts = [f"{_condition(each.axis, each.value)} {ratio_text(each.speed)}" for each in effect.parts if each.speed]
    detail = ", ".join(parts)
    if not parts and effect.sets > 1 and effect.least is not None:
        if effect.speed is None:
            detail = f"no mean, because it differs between {pairs}"
        elif effect.varies or not effect.speed.has_interval:
            detail = f"{range_text(effect.least, effect.most)} in {pairs}"
    detail = f"{speed_head(answer)}: {detail}" if detail else ""
    mean, ends = effect.quality.get(answer.metric), (effect.quality_least, effect.quality_most)
    if effect.parts and mean and any(each is not None and mean.excludes(each) for each in ends):
        detail += f"; {metric_name(answer.metric)}: {_quality_range(effect, answer.metric)}"
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
    is_mean = any(each.sets > 1 and (each.speed or each.quality) for each in answer.effects)
    return "Values are means over pairs that differ in nothing else, geometric for speeds." if is_mean else ""


# Amounts of hardware


def mean_sentences(answer: Answer) -> list[str]:
    """Whether the means reach the target of those that are not the best, whose sentence says it; and the rule."""
    named = {best.configuration for best in answer.best}
    others = [each for each in answer.means if each.configuration not in named]
    made = [f"{name_of(answer, each.configuration)}: {mean_text(answer, each)}." for each in others]
    level = percent(answer.target.mean_level or 0) if answer.target else ""
    rule = f"Rule: the mean of runs of fixed length has to reach the target, by a one-sided test at {level}."
    return [*made, rule] if answer.means else []


def mean_text(answer: Answer, mean: TargetMean) -> str:
    """Whether a mean reaches the target, with the p of a one-sided t-test, and how many runs reach it alone."""
    target, is_share = (target_text(answer.target), answer.target.is_accuracy) if answer.target else ("", False)
    value = f"{100 * mean.mean:.4g}%" if is_share else f"{mean.mean:.6g}"
    text = f"reaches {target}" if mean.is_reached else f"does not reach {target}"
    text += ", but not significantly" if mean.is_reached and not mean.is_shown else ""
    p = "" if mean.p is None else f" (p = {mean.p:.2g})"
    if mean.runs < 2:
        return f"one run, {value}, {text}"
    return f"the mean of {mean.runs} runs, {value}, {text}{p}, {mean.alone} of {mean.runs} alone"


def certainty_sentences(answer: Answer) -> list[str]:
    """What more repeats would cost and bring, if the best is open."""
    more = answer.more_repeats
    if more is None or not answer.status.is_own:
        return []
    names = names_text([name_of(answer, index) for index in more.configurations])
    costs = [plural(more.trials, "trial")]
    costs += [seconds_text(more.total_s)] if more.total_s else []
    costs += [money_text(more.total_price, answer.currency)] if more.total_price else []
    rest = "; the rest is decided" if more.is_rest_decided else ""
    repeats = f"About {plural(more.repeats, 'more repeat')} ({', '.join(costs)})"
    return [f"{repeats} would decide between {names}{rest}."]


def scaling_sentences(answer: Answer) -> list[str]:
    """Speed-up, efficiency and price with the largest amount of hardware, and what limits the speed."""
    return [sentence for scaling in answer.scalings for sentence in _scaling_sentences(answer, scaling)]


def _scaling_sentences(answer: Answer, scaling: Scaling) -> Iterable[str]:
    most = max((each for each in answer.effects if each.axis == scaling.axis), key=lambda each: float(each.value))
    nouns = plural_noun(scaling.noun)
    name = f"{format_value(most.value)} {scaling.noun if most.value == 1 else nouns}"
    other = format_value(most.other)
    parts = [(f"{_condition(part.axis, part.value)}, ", part.speed, part.efficiency) for part in most.parts]
    for place, speed, efficiency in parts or [("", most.speed, most.efficiency)]:
        if speed is None:
            continue
        facts = [ratio_words(speed, Criterion.FASTEST, other).partition(" (95% CI")[0]]
        facts[0] += f" (efficiency {share_text(efficiency, '{}%, 95% CI {}–{}%')})"
        for ratio, criterion in ((most.price, Criterion.CHEAPEST), (most.energy, Criterion.LEAST_ENERGY)):
            # With equal prices, that of the work is the speed-up again.
            is_equal = ratio is None or ratio.value == speed.value or (ratio.has_interval and not ratio.excludes(1))
            if ratio and not is_equal and not parts:
                facts.append(ratio_words(ratio, criterion, "").partition(" (95% CI")[0])
        per = f" per {answer.unit.label}" if len(facts) > 1 else ""
        text = f"{place}{name}: {', '.join(facts)}{per}."
        yield text[:1].upper() + text[1:]
    if scaling.kind:
        size = "is the same for all" if scaling.kind == "strong" else f"grows with the number of {nouns}"
        yield f"{scaling.kind.capitalize()} scaling: the batch size {size}."
    largest = [each for each in answer.configurations if each.axes.get(scaling.axis) == most.value]
    if shares := sorted(each.communication for each in largest if each.communication is not None):
        ends = join_words(list(dict.fromkeys(map(percent, (shares[0], shares[-1])))), "to")
        yield f"The exchange of gradients takes {ends} of a step with {name}."
    network = Run.all_reduce_gb_per_s.name
    if rates := [each.medians[network] for each in largest if network in each.medians]:
        yield f"With {name} the network sums 64 MiB at {number(median(rates), 2)} GB/s."
    serial = scaling.serial
    if serial and serial.low is not None and serial.low > 0:
        limit = f"never more than {number(1 / serial.value, 2)}x as fast as 1"
        yield f"By Amdahl's law, a serial share of {share_text(serial, CI)}: {limit}."
    elif serial and serial.high is not None and serial.high > 0:
        yield f"By Amdahl's law, the serial share is at most {percent(serial.high)} (upper end of its 95% CI)."


def plural_noun(noun: str) -> str:
    """The plural of a noun: processes, GPUs."""
    return f"{noun}{'es' if noun.endswith('s') else 's'}"


# Configurations


def table_caption(answer: Answer) -> str:
    """How to read the table of configurations."""
    intervals = any(each.ratio and each.ratio.has_interval for each in answer.configurations)
    most = max((each.rank or 0 for each in answer.configurations), default=0)  # within a workload
    several = len({each.name for each in answer.machine_speeds}) > 1
    over = "for these machines alone " if answer.these_machines else "over machines " if several else ""
    chosen = f", which allow for choosing the best of {most}" if most > 2 else ""
    where = machines_text(answer)
    parts = [
        reference_text(answer),
        f"{runs_text(answer) or plural(answer.status.completed, 'run')} {where}" if where else runs_text(answer),
        f"95% intervals {over}in parentheses{chosen}" if intervals else "",
        peaks_text(answer),
    ]
    text = "; ".join(filter(None, parts))
    first = f"{text[:1].upper()}{text[1:]}." if text else ""
    target = "Times to the target begin with the first epoch and include restarts after misses."
    to_target = target if is_reached(answer.configurations) else ""
    found = dict.fromkeys(each.mfu_problem for each in answer.configurations if each.mfu_problem)
    problems = [f"MFU is left out: {problem}." for problem in found]
    return " ".join(filter(None, [first, answer.clock, to_target, *problems]))


def hardware_text(answer: Answer) -> str:
    """The hardware of each device with its price and where this comes from: `AMD EPYC, 2 cores, $0.10/h (Hetzner)`."""
    groups: dict[str, list[str]] = {}  # to the parts of labels that all with this hardware share
    for each in answer.configurations:
        price = "" if each.price_per_hour is None else f"{money_text(each.price_per_hour, answer.currency)} per hour"
        price = price.replace("free per hour", "free")
        price += f" ({each.price_source})" if price and each.price_source else ""
        if text := ", ".join(filter(None, (each.hardware, price))):
            parts = each.label.split(", ")
            groups[text] = [part for part in groups.get(text, parts) if part in parts]
    names = {text: ", ".join(parts) if len(groups) > 1 else "" for text, parts in groups.items()}
    return "; ".join(f"{name}: {text}" if name not in ("", text) else text for text, name in names.items())


def share_text(share: Summary | None, form: str = "{}% ({}–{})") -> str:
    """Format a share with its interval, if there is one: 41% (39–43)."""
    if share is None:
        return NOTHING
    if share.low is None or share.high is None:
        return percent(share.value)
    decimals = _decimals((100 * share.low, 100 * share.high), _digits(100 * share.value, 2), 1, 100.0)
    return form.format(*(f"{100 * each:.{decimals}f}" for each in (share.value, share.low, share.high)))


def peaks_text(answer: Answer) -> str:
    """The peaks that MFU refers to, and how the FLOPs are known unless they were counted."""
    known = [(each.axes.get("device", ""), each.mfu.basis) for each in answer.configurations if each.mfu]
    of_device = "{} " if len(answer.axes.get("device", ())) > 1 else ""
    peaks = dict.fromkeys(
        f"{of_device.format(device)}{flops_text(each.peak)} ({each.precision} {PROBES.get(each.probe, each.probe)})"
        for device, each in known
    )
    text = f"MFU of the measured peak, {names_text(list(peaks))}" if peaks else ""
    sources = dict.fromkeys(each.source for _, each in known if each.source != COUNTED)
    return f"{text}; FLOPs: {join_words(list(sources))}" if sources else text


def reference_text(answer: Answer) -> str:
    """What the ratios of the table of configurations are relative to."""
    references = [each for each in answer.configurations if each.is_reference]
    if not references or not any(each.ratio for each in answer.configurations):
        return ""
    if len(references) == 1:
        return f"speed is relative to {references[0].label}{_best_with(answer, references[0].index)}"
    if answer.compared:
        return f"speed is relative to the best with {configuration_label(references[0].axes, [answer.compared])}"
    values = join_words([named_value(axis, value) for axis, value in answer.baseline.items() if axis in answer.axes])
    return f"speed is relative to the same configuration with {values}" if values else ""


def runs_text(answer: Answer) -> str:
    """The number of runs if it is the same everywhere: 3 runs each; else empty."""
    counts = {(each.completed, each.planned) for each in answer.configurations if not each.skip}
    completed, planned = counts.pop() if len(counts) == 1 else (0, 1)
    each = " each" if len(answer.configurations) > 1 else ""
    return f"{plural(completed, 'run')}{each}" if completed == planned else ""


def machines_text(answer: Answer) -> str:
    """The number of machines, by device if there are several, and what intervals are over; empty if unknown."""
    devices = Counter(each.device for each in answer.machine_speeds)
    count = len({each.name for each in answer.machine_speeds})
    if count < 2:
        return "on 1 machine" if count else ""
    parts = f" ({', '.join(f'{device} {number}' for device, number in devices.items())})" if len(devices) > 1 else ""
    return f"on {count} machines{parts}"


PARTS = {
    "train": "training",
    "input_wait": "waiting for input",
    "start": "loading",
    "compile": "compilation",
    "evaluate": "evaluation",
    "other": "other",
}
"""Parts of a run, by name."""

PART_OF = dict.fromkeys(("setup", "startup", "data", "build"), "start")
PART_OF |= {"compile_evaluate": "compile", "checkpoint": "other"}
"""The part that shows a section of a run that has none of its own."""


def run_parts(configuration: Configuration) -> dict[str, float]:
    """The seconds of each part of a run."""
    parts = dict.fromkeys(PARTS, 0.0)
    for section, seconds in configuration.run_parts_s.items():
        name = PART_OF.get(section, section)
        parts[name if name in parts else "other"] += seconds
    return parts


def goodput_text(configuration: Configuration) -> str:
    """The share of training in a run, and those of the other parts: training 91%: loading 4%, evaluation 5%."""
    parts = run_parts(configuration)
    total = sum(parts.values())
    if not total or not parts["train"]:
        return NOTHING
    shares = {PARTS[name]: 100 * seconds / total for name, seconds in parts.items()}
    train = shares.pop("training")
    others = [f"{name} {share:.0f}%" for name, share in sorted(shares.items(), key=lambda e: -e[1]) if share >= 0.5]
    return f"training {train:.0f}%" + (f": {', '.join(others)}" if others else "")


def goodput_sentences(answer: Answer) -> list[str]:
    """The parts of a run of each configuration, and after which time of training compilation pays."""
    made = [f"{each.label or answer.workload}: {goodput_text(each)}." for each in answer.configurations]
    return [*compilation_sentences(answer), *(text for text in made if NOTHING not in text)]


def compilation_sentences(answer: Answer) -> list[str]:
    """After how much training compilation has saved the time that it takes, by pairs that differ in it alone.

    With a speed-up s and c more seconds of compilation, T seconds without it take c + T/s with it: T = c·s/(s − 1).
    """
    axis = next((axis for axis in answer.axes if short_name(axis) == "compile"), "")
    if not axis:
        return []
    sides: dict[str, dict[bool, Configuration]] = {}
    for each in answer.configurations:
        rest = [(name, format_value(value)) for name, value in each.axes.items() if name != axis]
        is_compiled = each.axes.get(axis) not in (None, False, "false", "none", "no", 0)
        sides.setdefault(str(sorted(rest)), {}).setdefault(is_compiled, each)
    made = []
    for pair in (each for each in sides.values() if len(each) == 2 and all(one.seconds for one in each.values())):
        own, other = pair[True], pair[False]
        more = run_parts(own)["compile"] - run_parts(other)["compile"]
        own_s, other_s = (each.seconds.value if each.seconds else 0.0 for each in (own, other))
        if not own.run_parts_s or more <= 0:
            continue
        name = f"Compilation ({seconds_text(more)} more than {name_of(answer, other.index)})"
        if own_s < other_s:
            made.append(
                f"{name} pays after {seconds_text(more * other_s / (other_s - own_s))} of training: {own.label}."
            )
        else:
            made.append(f"{name} does not pay: {own.label} is not faster.")
    return made


def certain_text(answer: Answer, best: BestOfDevice) -> str:
    """Whether the best configuration of a device is shown to be that: yes; not from batch 64."""
    if best.is_certain is None:
        return NOTHING if best.of == 1 else "one run each"
    if best.is_certain:
        return "yes"
    device = format_value(answer.configurations[best.configuration].axes.get("device"))
    names = [name_of(answer, index).removeprefix(f"{device}, ") for index in best.close]
    return f"not from {names[0]}" if len(names) == 1 else f"not from {len(names)} others"


def memory_text(configuration: Configuration) -> str:
    """The peak memory of a device and its share of what that has: 71 GiB, 51%."""
    gib, share = (configuration.medians.get(name) for name in MEMORY)
    return NOTHING if gib is None else f"{number(gib, 2)} GiB" + (f", {percent(share)}" if share else "")


def outcome_text(configuration: Configuration) -> str:
    """Why a configuration has no time: skipped, out of memory, not run."""
    if configuration.skip:
        return "skipped"
    return ", ".join(STATUSES.get(ending.status, ending.status) for ending in configuration.endings) or "no time"


def failure_sentences(answer: Answer, only_skips: bool = False) -> list[str]:
    """Why runs did not complete or cannot run: a sentence for each reason with the configurations concerned."""
    reasons: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for each in answer.configurations:
        for ending in [Ending("skipped", 0, each.skip)] if each.skip else () if only_skips else each.endings:
            if ending.message and ending.status not in ("not run", "unfinished"):
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
    cautions, what = answer.trust.cautions, "how large a difference is, but not which is best"
    if not cautions:
        is_sure = answer.status.completed and not any(best.words for best in answer.best)
        return "No cautions about the measurement." if is_sure else ""
    if len(answer.configurations) == 1 or answer.decision or not answer.best:
        what = "these numbers"
    elif answer.trust.level == TrustLevel.DOUBTFUL:
        what = "which configuration is best"
    return f"{plural(len(cautions), 'caution')} that could change {what}:"


def caution_text(caution: Caution) -> str:
    """A caution or a note: what happened, how many runs it concerns, and what to do."""
    # A name, such as v100x8 or memory_limit, stays as it is.
    text = caution.text[:1].upper() + caution.text[1:] if caution.text.split(" ")[0].isalpha() else caution.text
    facts = [f"{caution.runs:,} of {plural(caution.of_runs, 'run')}"] if caution.runs else []
    if caution.too_long:
        share = float(f"{100 * caution.too_long:.1g}")
        times = f"{share:.0f}% too long" if share < 95 else f"{1 + caution.too_long:.0f}x as long"
        facts.append(f"{'at worst ' if caution.runs > 1 else ''}perhaps {times}")
    text += f" ({'; '.join(facts)})." if facts else "."
    remedy = caution.remedy.rstrip(".")
    return f"{text} {remedy[:1].upper() + remedy[1:]}." if remedy else text
