"""What an epoch costs on each side of a comparison, in a sentence."""

from __future__ import annotations

from raybench.analysis.crossover import cost_ratio, turning_price
from raybench.analysis.sentences import Sentence, digits, interval, name, sentence, strong
from raybench.analysis.sides import Pair
from raybench.analysis.speedup import ALIKE, Speedup
from raybench.plan import short


def cost(pair: Pair, found: Speedup) -> Sentence | None:
    """Which is cheaper, and the price at which that turns; None without the baseline's price.

    On the same hardware at one price, as of two batches, there is no price of the one and of the other.
    """
    baseline, other = pair.baseline, pair.other
    if baseline is None or baseline.price_per_hour is None:
        return None
    if baseline.price_per_hour == 0:
        free = bool(other.price_per_hour)
        return sentence("An epoch costs nothing on ", name(baseline.name), ", at 0 an hour.") if free else None
    turn = turning_price(found, baseline.price_per_hour)
    if other.price_per_hour == 0:
        return sentence(
            "An epoch costs nothing on ", name(other.name), ", at 0 an hour; it would cost as much as on ",
            name(baseline.name), f" at {digits(turn.value)} an hour", interval(turn.low, turn.high), ".",
        )  # fmt: skip
    if other.price_per_hour is None:
        return sentence(
            "An epoch costs as much on ", name(other.name), " as on ", name(baseline.name),
            " where an hour of it costs ", strong(digits(turn.value)), interval(turn.low, turn.high), "; one of ",
            name(baseline.name), f" costs {short(baseline.price_per_hour)}.",
        )  # fmt: skip
    ratio = cost_ratio(found, baseline.price_per_hour, other.price_per_hour)
    alike = not pair.hardware and other.price_per_hour == baseline.price_per_hour
    both_at = "" if alike else f" and {short(baseline.price_per_hour)}"
    prices = f"at {short(other.price_per_hour)}{both_at} an hour"
    both = (name(other.name), " as on ", name(baseline.name))
    # Of costs, what the other costs in units of the baseline: the inverse of how many times as cheap it is.
    ends = (None, None) if ratio.low is None or ratio.high is None else (1 / ratio.high, 1 / ratio.low)
    if ratio.low is not None and ratio.high is not None and ratio.low <= 1 <= ratio.high:
        if found.detectable and found.detectable > ALIKE:
            return sentence(
                "Whether an epoch costs more or less on ", name(other.name), " than on ", name(baseline.name), " is ",
                strong("not to be told"), f": {digits(1 / ratio.value)} × as much, {prices}", interval(*ends), ".",
            )  # fmt: skip
        return sentence("An epoch costs as much on ", *both, f" within what the runs can show, {prices}.")
    costs = ("An epoch costs ", strong(f"{digits(1 / ratio.value)} × as much"), " on ", *both, f", {prices}")
    if alike:
        return sentence(*costs, interval(*ends), ".")
    return sentence(
        *costs, interval(*ends), f"; it would cost the same at {digits(turn.value)} an hour of ", name(other.name),
        interval(turn.low, turn.high), ".",
    )  # fmt: skip
