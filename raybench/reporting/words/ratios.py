"""Ratios in sentences: as a factor or in percent, by what they are about."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from raybench.analysis.answer import Criterion, Ratio
from raybench.reporting.words.numbers import (
    LEAST,
    PERCENT_BELOW,
    decimals_for,
    digits_after_point,
    number,
    ratio_text,
    signed,
)


class CriterionWords(NamedTuple):
    """The role of the best by a criterion, the verdict, its quantity, and ratios as factors and in percent."""

    role: str
    verdict: str
    quantity: str
    better: tuple[str, str] = ("{}x as fast as", "{} faster than")
    worse: tuple[str, str] = ("takes {}x as long as", "{} slower than")
    equal: str = "as fast as"


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


def ratio_words(ratio: Ratio, criterion: Criterion, reference: str) -> str:
    """Say a ratio: 9.2x as fast as cpu (95% CI 8.8–9.6); 6% faster than cpu (95% CI 4–8%).

    If it is shown for the machines of the runs only, and not for their models, it says so.
    """
    if ratio.is_of_these_machines:
        these = replace(ratio, low=ratio.these_low, high=ratio.these_high, these_low=None)
        head, interval, tail = ratio_words(these, criterion, reference).partition(" (95% CI")
        sd, few = f"{float(f'{100 * ratio.machine_sd:.1g}'):g}%", ratio.machines < 3
        here = "this machine" if ratio.machines == 1 else f"these {ratio.machines} machines"
        why = f"not shown for the models, because machines of one model differ by about {sd}"
        remedy = "measure a second machine of each" if few else "measure more machines of each"
        return f"{head} on {here}{interval}{tail}; {why} ({remedy})"
    criterion_words, is_better = CRITERIA[criterion], ratio.value >= 1
    forms = criterion_words.better if is_better else criterion_words.worse
    is_cost = criterion in (Criterion.CHEAPEST, Criterion.LEAST_ENERGY)
    is_near = 1 / PERCENT_BELOW < ratio.value < PERCENT_BELOW and (ratio.high or 1) < 2  # not −100% to +1085587%
    is_percent = is_near or (is_cost and is_better and (ratio.low or 1) > 0.5)  # nothing costs "1.3x less"
    if is_percent:
        amount, interval = _in_percent(ratio, is_cost)
    else:
        # A factor for "takes 1.6x as long" is the inverse.
        low, high = (None if end is None else 1 / max(end, 1e-300) for end in (ratio.high, ratio.low))
        value = ratio if is_better and not is_cost else Ratio(1 / ratio.value, low, high)
        amount, _, interval = ratio_text(value, "95% CI ").partition("x")
    is_equal = is_percent and not float(amount.removesuffix("%"))
    text = criterion_words.equal if is_equal else forms[is_percent].format(amount)
    text = f"{text} {reference}" if reference else text.rpartition(" ")[0]
    if ratio.has_interval and not ratio.excludes(1) and not is_equal:
        text += f", not shown to be {forms[1][3:].removesuffix(' than').removesuffix(' device energy')}"
    text = f"{text}{interval}".replace(") (95%", "; 95%")
    return f"{text}{' if no run misses the target' if ratio.holds_if_no_miss and ratio.excludes(1) else ''}"


def _in_percent(ratio: Ratio, is_cost: bool) -> tuple[str, str]:
    """A ratio near 1, and its interval: + and − are as in the sentence, unless all of it is on one side.

    Of a ratio of 1.25, the speed is 25% more, and a price 20% less, as it is the inverse.
    """
    ratios = [part for part in (ratio.value, ratio.low, ratio.high) if part is not None]
    value, *ends = (100 * (1 - 1 / max(part, LEAST) if is_cost else part - 1) for part in ratios)
    least = digits_after_point(100 - value, 2) if is_cost and value > 0 else 0  # 99.7% and 99.8% less are far apart
    if not ends:
        return f"{abs(value):.{least}f}%" if least else f"{number(abs(value), 2)}%", ""
    decimals = decimals_for(ends, least, 1, 0.0)
    if ratio.is_significant:
        interval = "–".join(f"{end:.{decimals}f}" for end in sorted(map(abs, ends)))
    else:
        interval = "% to ".join(signed(end, decimals) for end in ends)
    return f"{abs(value):.{decimals}f}%", f" (95% CI {interval}%)"
