"""A configuration in a sentence: its name, speed, price and what it reached."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from raybench.analysis.answer import Answer, Configuration, Summary, Unit
from raybench.core.labels import configuration_label
from raybench.core.text import plural
from raybench.reporting.words.numbers import decimals_for, money_text, rate_number, seconds_text
from raybench.reporting.words.quality import target_text

LEAST_PRICE = 0.1  # smallest price of a unit of work; prices of less are those of more work


class BestText(NamedTuple):
    """The sentences on a best configuration: the verdict, what it is better by, and what cannot be told from it.

    The first part has its name only if the verdict is that it is better.
    """

    name: str
    facts: str = ""
    rest: str = ""

    def __str__(self) -> str:
        return " ".join(filter(None, self))


def name_of(answer: Answer, index: int, workload: str = "") -> str:
    """The label of a configuration, without the parts of a workload that the sentence has named already."""
    parts = answer.configurations[index].label.split(", ")
    return ", ".join(part for part in parts if part not in workload.split(", ")) or answer.workload


def of_its_job(answer: Answer, index: int) -> list[Configuration]:
    """The configurations with the workload and data of one."""

    def job(row: Configuration) -> tuple[str, object]:
        return row.workload, row.axes.get("data_set")

    return [row for row in answer.configurations if job(row) == job(answer.configurations[index])]


def best_with(answer: Answer, index: int, is_price: bool = False) -> str:
    """Say that a configuration is the best with its value on the compared axis, if there are others."""
    value = configuration_label(answer.configurations[index].axes, [answer.compared])
    ranked = [row for row in of_its_job(answer, index) if row.rank and value]
    count = sum(configuration_label(row.axes, [answer.compared]) == value for row in ranked)
    return f" ({'cheapest' if is_price else 'best'} with {value})" if count > 1 else ""


def is_reached(configurations: Iterable[Configuration]) -> bool:
    """Return whether a run reached the target, so that the answer is about time, price and energy to it."""
    return any(row.to_target and row.to_target.reached for row in configurations)


def to_target(answer: Answer, otherwise: str = "") -> str:
    """` to 94% accuracy` if a run reached that."""
    return f" to {target_text(answer.target)}" if answer.target and is_reached(answer.configurations) else otherwise


def reached_text(row: Configuration) -> str:
    """How many runs reached the target, if some did not."""
    to = row.to_target
    return f", reached in {to.reached} of {plural(to.tried, 'run')}" if to and 0 < to.reached < to.tried else ""


def seconds_of(row: Configuration) -> float:
    """The time to the target, or of a unit of work; 0 if unknown."""
    expected = row.to_target.expected if row.to_target and row.to_target.reached else row.seconds
    return expected.value if expected else 0.0


def price_of(row: Configuration) -> float:
    """The price to the target, or of a unit of work; 0 if unknown."""
    price = row.to_target.price if row.to_target and row.to_target.reached else row.price
    return price.value if price else 0.0


def amounts_text(answer: Answer, row: Configuration) -> str:
    """The price and the time of a configuration: $22.30 (95% CI 22.1–22.5) and 4.95 h."""
    price = row.to_target.price if row.to_target and is_reached(answer.configurations) else row.price
    _, times = price_unit(answer)
    return f"{price_text(answer, price or Summary(0.0))} and {seconds_text(seconds_of(row) * times)}"


def speed_text(answer: Answer, row: Configuration) -> str:
    """Speed with its unit: 12,300 examples/s; 0.43 s per epoch if nothing is counted; empty if unknown."""
    if row.rate:
        return f"{rate_number(row.rate.value)} {answer.unit.counted}/s"
    unit = f"{answer.unit.label}{' with its start-up' if answer.unit.name == 'run' and answer.clock else ''}"
    return f"{seconds_text(row.seconds.value)} per {unit}" if row.seconds else ""


def speed_head(answer: Answer) -> str:
    """The heading of speeds; with a target it says of what, since they are not speeds to the target."""
    full = f"speed in {answer.unit.counted}/s" if answer.unit.has_rate else f"{answer.unit.label} speed"
    return full if answer.target and not answer.means else "speed"


def currency_sign(answer: Answer) -> str:
    """The currency in headings: $ for USD."""
    return "$" if answer.currency == "USD" else answer.currency


def price_unit(answer: Answer) -> tuple[Unit, int]:
    """The work whose prices are not tiny, such as 1,000 epochs or runs to the target, in units of work or runs."""
    is_goal = is_reached(answer.configurations)
    rows = (row for row in answer.configurations if not is_goal or (row.to_target and row.to_target.reached))
    least = min(filter(None, map(price_of, rows)), default=1.0)
    times = next((10**power for power in (0, 3, 6) if least * 10**power >= LEAST_PRICE), 10**9)
    unit = Unit("run") if is_goal else answer.unit
    return replace(unit, amount=unit.amount * times), times


def price_head(answer: Answer) -> str:
    """What prices are of: ` to 94% accuracy`, ` per 1,000 runs to 94% accuracy` or ` per epoch`."""
    unit, times = price_unit(answer)
    goal = to_target(answer)
    return goal if goal and times == 1 else f" per {unit.label}{goal}"


def price_amount(answer: Answer) -> str:
    """What prices to a target that a sentence has named are of: ` per 1,000 runs`; empty for one run."""
    return price_head(answer).removesuffix(to_target(answer))


def price_text(answer: Answer, price: Summary, per: str = "") -> str:
    """A price with its interval: $22.30 per 1,000 runs (95% CI 22.1–22.5); free."""
    _, times = price_unit(answer)
    text = money_text(price.value * times, answer.currency)
    if not price.value or price.low is None or price.high is None:
        return text + per * bool(price.value)
    low, high = price.low * times, price.high * times
    decimals = decimals_for((low, high), len(text.partition(".")[2].split(" ")[0]), 9, 0.0)
    return f"{text}{per} (95% CI {low:,.{decimals}f}–{high:,.{decimals}f})"
