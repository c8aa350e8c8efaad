"""Each device over several workloads."""

from __future__ import annotations

from raybench.analysis.answer import Answer, Criterion, OverWorkloads
from raybench.analysis.trade_off import is_open
from raybench.core.text import names_text
from raybench.reporting.words.ratios import ratio_words
from raybench.reporting.words.rows import BestText


def over_workloads_texts(answer: Answer) -> list[BestText]:
    """The fastest device over several workloads, and those on which another is faster."""
    if not answer.over_workloads:
        return []
    first, *slower = answer.over_workloads
    weights = f", weights {', '.join(f'{n} {w:g}' for n, w in answer.weights.items())}" if answer.weights else ""

    def facts(row: OverWorkloads) -> str:
        price = [ratio_words(row.price, Criterion.CHEAPEST, "")] if row.price else []
        return ", ".join([ratio_words(row.speed, Criterion.FASTEST, row.other), *price])

    rows = [row for row in answer.over_workloads if row.device != row.other]  # without the reference
    speeds = "; ".join(f"{row.device} {facts(row)}" if row is not first else facts(row) for row in rows)
    verdict = "Undecided" if is_open(first.speed) else "Fastest"
    name = f"{first.device}{' (the reference)' if first.device == first.other else ''}"
    head = f"{verdict} over {len(first.ratios)} workloads (geometric mean{weights}): {name}:"
    rest = [
        f"Another order on {names_text(list(row.faster_on))}: {row.device} is faster than {first.device}."
        for row in slower
        if row.faster_on
    ]
    return [BestText(head, f"{speeds}.", " ".join(rest) or f"{first.device} is not shown to be slower on any of them.")]
