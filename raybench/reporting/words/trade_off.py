"""Time and price together: what the cheapest costs and what each next one saves, and the choice within limits."""

from __future__ import annotations

import re
from collections.abc import Mapping

from raybench.analysis.answer import Answer, Best, Criterion, Step, TradeOff, Verdict
from raybench.analysis.trade_off import is_open, run_costs
from raybench.core.repeats import percent
from raybench.core.text import join_words, names_text, plural
from raybench.reporting.words.facts import break_even, relative
from raybench.reporting.words.numbers import cautions_text, duration_text, money_text, rounded_money, seconds_text
from raybench.reporting.words.quality import quality_words
from raybench.reporting.words.ratios import ratio_words
from raybench.reporting.words.rows import (
    BestText,
    amounts_text,
    name_of,
    of_its_job,
    price_amount,
    price_head,
    price_of,
    price_unit,
    reached_text,
    seconds_of,
    speed_text,
    to_target,
)

TIMES = {Criterion.FASTEST, Criterion.FIRST_TO_TARGET}  # the criteria of the fastest


def shown(answer: Answer, workload: str) -> TradeOff | None:
    """The trade-off of a workload, if time and price are not those of one configuration and runs can tell it."""
    trade_off = next((curve for curve in answer.trade_offs if curve.workload == workload), None)
    if trade_off is None:
        return None
    are_two = trade_off.fastest != trade_off.cheapest
    if are_two and is_open(trade_off.speed) and is_open(trade_off.price):
        return None
    bests = _bests(answer, trade_off)
    is_sure = are_two or any(best.verdict is Verdict.BETTER for best in bests)
    is_one = any(Criterion.CHEAPEST in best.ratios and not TIMES.isdisjoint(best.ratios) for best in bests)
    return trade_off if is_sure and not is_one else None


def is_part(trade_off: TradeOff, best: Best) -> bool:
    """Whether the sentence on a trade-off says what is best by a criterion; it has nothing without a price."""
    is_fastest = not TIMES.isdisjoint(best.ratios) and best.configuration == trade_off.fastest
    return Criterion.CHEAPEST in best.ratios or is_fastest


def _bests(answer: Answer, trade_off: TradeOff) -> list[Best]:
    return [best for best in answer.best if best.workload == trade_off.workload and is_part(trade_off, best)]


def verdict(trade_off: TradeOff) -> str:
    """The verdict on time and price together."""
    ratios = [ratio for step in trade_off.steps for ratio in (step.speed, step.price) if ratio]
    ratios = ratios or [ratio for ratio in (trade_off.speed,) if ratio]
    if not all(ratio.has_interval for ratio in ratios):
        return "One run each" if all(ratio.runs == ratio.other_runs == 1 for ratio in ratios) else "Undecided"
    # A cheapest one that is the fastest, too, or is not shown to be slower, leaves no choice.
    return "Best buy" if len(trade_off.steps) == 1 or is_open(trade_off.price) else "Trade-off"


def text(answer: Answer, trade_off: TradeOff) -> BestText:
    """Say what the cheapest costs, and for how much more each next one saves how much time."""
    rows, steps, bests = answer.configurations, trade_off.steps, _bests(answer, trade_off)
    names = {row.index: name_of(answer, row.index, trade_off.workload) for row in rows}
    ranked = [row for row in of_its_job(answer, trade_off.cheapest) if row.rank]
    first, fastest = rows[steps[0].configuration], rows[trade_off.fastest]
    count = sum(bool(seconds_of(row)) and row.price_per_hour is not None for row in ranked)
    of_all = f" of {count}" if count > 2 else ""
    speed, price, further = trade_off.speed, trade_off.price, list[str]()
    role = f"cheapest{of_all}"
    if trade_off.fastest == trade_off.cheapest:
        is_both = all(best.verdict is Verdict.BETTER for best in bests)
        role = f"fastest and cheapest{of_all}{'' if is_both else ' in these runs'}"
        # Of equal prices another may be first.
        same_row = (best for best in bests if best.configuration == first.index)
        further = [", ".join(relative(answer, best, ranked, with_amounts=False)) for best in same_row]
    elif len(steps) == 1:
        close = ratio_words(speed, Criterion.FASTEST, "") if speed else ""
        cost = ratio_words(price, Criterion.CHEAPEST, names[fastest.index]) if price else ""
        further = [f"{cost}, the fastest in these runs ({_unbracketed(close)})"]
    elif is_open(price):
        role, cost = f"fastest{of_all}", ratio_words(price, Criterion.CHEAPEST, "") if price else ""
        faster = ratio_words(speed, Criterion.FASTEST, names[first.index]) if speed else ""
        further = [f"{faster}, the cheapest in these runs ({_unbracketed(cost)})"]
        first = fastest
    else:
        further = [_step_text(answer, step, names, "" if step is steps[1] else "a further ") for step in steps[1:]]
    facts = [f"{amounts_text(answer, first)}{price_head(answer)}{reached_text(first)}", *further]
    facts += dict.fromkeys(word for best in bests for word in best.words)
    marks = cautions_text(sorted({mark for best in bests for mark in best.cautions}))
    place = f" on {trade_off.workload}" if trade_off.workload else ""
    rest = []
    for step in steps if len(steps) > 1 else ():
        if step.as_fast:
            close = names_text([names[index] for index in step.as_fast])
            rest.append(f"More expensive than {names[step.configuration]}, and not shown to be faster: {close}.")
    if trade_off.beaten:
        unless = ", if no run misses the target" if trade_off.holds_if_no_miss else ""
        rest.append(f"Slower and more expensive{unless}: {names_text([names[index] for index in trade_off.beaten])}.")
    if unpriced := [names[row.index] for row in ranked if row.price_per_hour is None]:
        rest.append(f"Without a price: {names_text(unpriced)}.")
    rest += [sentence for best in bests for sentence in break_even(answer, best, ranked, names)]
    head = f"{verdict(trade_off)}{place}: {names[first.index]}, {role}:"
    return BestText(head, f"{'; '.join(facts)}{marks}.", " ".join(rest))


def _step_text(answer: Answer, step: Step, names: Mapping[int, str], further: str = "") -> str:
    """What a step saves and costs: b saves 2.0 h (1.7x as fast) for $1.50 more (7%; $0.75 per hour saved)."""
    row, cheaper = (answer.configurations[index or 0] for index in (step.configuration, step.other))
    _, times = price_unit(answer)
    seconds, price = ((amount(cheaper) - amount(row)) * times for amount in (seconds_of, price_of))
    speed = f" ({_unbracketed(ratio_words(step.speed, Criterion.FASTEST, ''))})" if step.speed else ""
    rate = rounded_money(-price / seconds * 3600, answer.currency)
    share = f"{100 * (1 / step.price.value - 1):.2g}%" if step.price and step.price.value > 0.5 else ""
    share += ", not shown to be more expensive" if is_open(step.price) else ""
    share += "; " if share else ""
    rate_of_work = f" ({speed_text(answer, row)})" if row.rate and answer.unit.has_rate else ""
    sentence = f"{names[row.index]}{rate_of_work} saves {further}{seconds_text(seconds)}{speed}"
    per = price_amount(answer) if times > 1 else ""
    sentence += f" for {rounded_money(-price, answer.currency)} more{per} ({share}{rate} per hour saved)"
    quality = step.quality
    is_told = quality and (quality.is_significant or not quality.has_interval) and not quality.is_equal
    sentence += f", {quality_words(quality, answer.metric)}" if quality and is_told and quality.value else ""
    return sentence + reached_text(row)


def _unbracketed(words: str) -> str:
    """Words for brackets: 1.5x as fast; 95% CI 1.1–2.0."""
    return re.sub(r" \((95% CI [^)]*)\)", r"; \1", words)


def within_texts(answer: Answer) -> list[BestText]:
    """The choice within a deadline and what may be spent, for each workload."""
    limits = [duration_text(answer.deadline_s)] if answer.deadline_s is not None else []
    limits += [money_text(answer.spend_at_most, answer.currency)] if answer.spend_at_most is not None else []
    limit, texts = join_words(limits), []
    for choice in answer.within:
        place = f" on {choice.workload}" if choice.workload else ""
        row = answer.configurations[choice.nearest if choice.configuration is None else choice.configuration]
        seconds, price = run_costs(row)
        goal = to_target(answer, f" for {'the training of ' if row.total_is_training else ''}a run")
        amounts = seconds_text(seconds or 0.0)
        amounts += f" and {rounded_money(price, answer.currency)}" if price is not None else ""
        name = name_of(answer, row.index, choice.workload)
        if choice.configuration is None:
            parts = [(seconds, answer.deadline_s), (price, answer.spend_at_most)]
            above = max(amount / most - 1 for amount, most in parts if amount is not None and most)
            text = f"{name} comes nearest, {percent(above)} above, with {amounts}{goal}."
            texts.append(BestText(f"None within {limit}{place}:", text))
            continue
        role = "cheapest" if answer.deadline_s is not None and price is not None else "fastest"
        role = f"the {role} of {choice.of} within" if choice.of > 1 else "the only one within"
        runs = f"{choice.runs_within} of {plural(choice.runs, 'run')} within"
        texts.append(BestText(f"{name}{place}, {role} {limit}:", f"{amounts}{goal}; {runs}."))
    return texts
