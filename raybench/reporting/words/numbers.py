"""Numbers as text: with digits that mean something, and the ends of their intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from raybench.analysis.answer import Ratio, Summary
from raybench.analysis.ratios import scaled
from raybench.core.repeats import percent
from raybench.reporting.layout import NOTHING

PERCENT_BELOW = 1.1  # ratios nearer to 1 than this are written in percent in sentences: 6% faster
MOST_DECIMALS = 9  # decimals at which ends of an interval count as equal
LEAST, MOST = 0.001, 9999  # range in which the ends of a ratio's interval are printed; beyond it digits mean nothing


def digits_after_point(size: float, digits: int) -> int:
    """The decimals with which a number has this many significant digits, but all before the decimal point."""
    return max(0, digits - 1 - math.floor(math.log10(abs(size)))) if size else 0


def decimals_for(ends: Sequence[float], least: int, fine: int, limit: float) -> int:
    """The fewest decimals, at least these, with which the ends of an interval differ and none seems to be the limit.

    Up to `fine` decimals they differ by two steps, so that the value between them can differ from both.
    """

    def is_clear(decimals: int) -> bool:
        printed = [round(end, decimals) for end in ends]
        steps = abs(printed[-1] - printed[0]) * 10**decimals if printed else 2
        differ = steps > (1.5 if decimals < fine else 0.5) or len({*ends}) < 2
        return differ and all(shown != limit or end == limit for shown, end in zip(printed, ends, strict=True))

    return next(filter(is_clear, range(least, MOST_DECIMALS)), least)


def column_texts(numbers: Sequence[float | Summary | None], size: float = 1.0, with_ends: bool = False) -> list[str]:
    """Format the numbers of a column, perhaps with their intervals, in a unit of this size with the same decimals.

    These give the smallest three digits and, up to six of the largest, let the ends of each interval differ; without
    intervals, numbers that differ may have four digits.
    """
    cells = [scaled(n if isinstance(n, Summary) else Summary(n), 1 / size) if n else None for n in numbers]
    shown = [cell for cell in cells if cell]
    values = sorted(abs(cell.value) for cell in shown if cell.value and math.isfinite(cell.value)) or [1.0]
    ends = [(cell.low, cell.high) for cell in shown if cell.low and cell.high and cell.low < cell.high]
    of_range = min(digits_after_point(values[-1] - values[0], 2), digits_after_point(values[0], 4))
    least = max([decimals_for(pair, 0, 0, 0.0) for pair in ends] or [of_range])
    least = max(least, digits_after_point(float(f"{values[0]:.2e}"), 3))
    decimals = max(min(least, digits_after_point(values[-1], 6)), digits_after_point(values[0], 1))

    def text(cell: Summary) -> str:
        if not cell.value:
            return "0"
        ends = [cell.low, cell.high] if with_ends and cell.low is not None and cell.high is not None else []
        value, *interval = (f"{number:,.{decimals}f}" for number in (cell.value, *ends))
        return f"{value} ({'–'.join(interval)})" if interval and len({*interval}) > 1 else value

    pairs = zip(cells, numbers, strict=True)
    return [text(cell) if cell else NOTHING if number is None else "0" for cell, number in pairs]


def number(value: float, digits: int = 3) -> str:
    """Format a number with this many significant digits, but all before the decimal point: 3.92, 0.0178, 12,331."""
    if not math.isfinite(value):
        return f"{value:g}"
    return f"{value:,.{digits_after_point(float(f'{value:.{digits - 1}e}'), digits)}f}"


def rate_number(rate: float) -> str:
    """Format a rate with three significant digits: 41,200."""
    return number(float(f"{rate:.3g}"))


def signed(value: float, decimals: int) -> str:
    """Format a number with its sign: +0.1, −0.5, 0.0."""
    text = f"{abs(value):.{decimals}f}"
    return text if not float(text) else f"{'−' if value < 0 else '+'}{text}"


def share_text(share: Summary | None, form: str = "{}% ({}–{})") -> str:
    """Format a share with its interval, if there is one: 41% (39–43)."""
    if share is None:
        return NOTHING
    if share.low is None or share.high is None:
        return percent(share.value)
    ends = 100 * share.low, 100 * share.high
    decimals = decimals_for(ends, digits_after_point(100 * share.value, 2), 1, 100.0)
    return form.format(*(f"{number:.{decimals}f}" for number in (100 * share.value, *ends)))


class TimeUnit(NamedTuple):
    """A unit of time."""

    name: str
    seconds: float


def seconds_text(seconds: float, *ends: float) -> str:
    """Format a duration: 430 ms, 74.0 s, 12.5 min, 3.10 h; with the ends of an interval: 40.6 s (95% CI 24.4–138)."""
    units = (("µs", 1e-6, 1e-3), ("ms", 1e-3, 1), ("s", 1, 300), ("min", 60, 10_800), ("h", 3600, math.inf))
    unit, size = next((unit, size) for unit, size, largest in units if seconds < largest)
    interval = f" (95% CI {'–'.join(number(end / size) for end in ends)})" if ends else ""
    return f"{number(seconds / size)} {unit}{interval}"


def duration_text(seconds: float, least: float = 1.0) -> str:
    """A duration as a user writes it, in the largest unit of which it has this many: 3 h; 90 min; 45 s."""
    name, size = next((unit for unit in (("h", 3600), ("min", 60)) if seconds >= least * unit[1]), ("s", 1))
    return f"{seconds / size:.3g} {name}"


def column_unit(seconds: Iterable[float | None]) -> TimeUnit:
    """The unit of all times of a column, in which at most four digits are before the decimal point."""
    present = [value for value in seconds if value] or [1.0]
    if max(present) >= 10_000:
        return TimeUnit("h", 3600)
    if min(present) >= 1 or max(present) >= 10:
        return TimeUnit("s", 1)
    return TimeUnit("ms", 1e-3) if max(present) >= 0.01 else TimeUnit("µs", 1e-6)


def ratio_text(ratio: Ratio | None, prefix: str = "") -> str:
    """Format a ratio with its interval, if there is one: 5.1x (4.8–5.4)."""
    if ratio is None:
        return NOTHING
    if ratio.value > MOST:
        return f">{MOST}x"
    if ratio.low is None or ratio.high is None:
        return f"{number(ratio.value, 3 if 1 < ratio.value < PERCENT_BELOW else 2)}x"
    low, high = ratio.low, ratio.high
    decimals = decimals_for((low, high), digits_after_point(low, 2), digits_after_point(low, 3), 1.0)

    def text(value: float) -> str:
        if not LEAST <= value <= MOST:
            return f"<{LEAST:g}" if value < LEAST else f">{MOST:g}"
        # The ends of a wide interval need digits of their own: 0.057 (0.0022–1.4).
        return f"{value:.{decimals}f}" if high < 10 * low else number(value, 2)

    return f"{text(ratio.value)}x ({prefix}{text(low)}–{text(high)})"


def range_text(low: float | None, high: float | None) -> str:
    """Format the smallest and the largest ratio: 1.2x to 2.1x."""
    return NOTHING if low is None or high is None else f"{number(low, 2)}x to {number(high, 2)}x"


def money_text(amount: float, currency: str) -> str:
    """Format a price: $0.018; 0.018 EUR; free."""
    if not amount:
        return "free"
    text = f"{amount:,.2f}" if amount == round(amount, 2) else number(amount)
    return f"${text}" if currency == "USD" else f"{text} {currency}"


def rounded_money(amount: float, currency: str) -> str:
    """Format a price with three digits."""
    return money_text(float(f"{amount:.3g}"), currency)


def budget_text(budget: Mapping[str, float], currency: str) -> str:
    """What each run may spend: 5 min of training; $0.10; 50 kJ."""
    ((name, amount),) = budget.items()
    if name == "time":
        return f"{duration_text(amount, least=2)} of training"
    if name in ("tokens", "examples", "flops"):
        letter, times = next((size for size in (("T", 1e12), ("B", 1e9), ("M", 1e6)) if amount >= size[1]), ("", 1.0))
        return f"{amount / times:.4g}{letter and f' {letter}'} {name.replace('flops', 'FLOPs')}"
    return f"{amount / 1000:.3g} kJ" if name == "energy" else money_text(amount, currency)


def cautions_text(marks: Iterable[str]) -> str:
    """The marks of cautions behind a sentence: ` [cautions a, b]`; empty without any."""
    letters = [*marks]
    return f" [caution{'s' if len(letters) > 1 else ''} {', '.join(letters)}]" if letters else ""
