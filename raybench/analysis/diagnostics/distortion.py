"""Whether findings could turn the verdict on a ratio of times."""

from __future__ import annotations

import math
from collections.abc import Sequence

from raybench.analysis.diagnostics.finding import Finding
from raybench.analysis.statistics.speedup import Speedup

Runs = Sequence[Sequence[Finding]]
"""The findings of each run of a side."""


def could_reverse(speedup: Speedup, baseline: Runs, other: Runs) -> tuple[frozenset[str], frozenset[str]]:
    """Codes of the findings on either side that could turn the verdict, the baseline's first.

    A finding could if the interval of the ratio, moved by as much as the finding may have distorted the side's mean
    time, leads to another verdict. Findings that only together move it so far are all named.
    """
    return frozenset(_turning(speedup, baseline, -1)), frozenset(_turning(speedup, other, 1))


def _turning(speedup: Speedup, runs: Runs, sign: int) -> set[str]:
    """The codes of one side.

    Args:
        speedup: the ratio.
        runs: the side's.
        sign: 1 for the other side, which a shorter time would make faster; -1 for the baseline.
    """
    verdict = speedup.verdict()
    codes: set[str] = set()
    for direction, attribute in ((sign, "too_long"), (-sign, "too_short")):
        shifts: dict[str, float] = {}
        for finding in (finding for run in runs for finding in run):
            part = getattr(finding, attribute) or 0.0
            shifts[finding.code] = shifts.get(finding.code, 0.0) + direction * math.log1p(part) / len(runs)
        sole_codes = {code for code, shift in shifts.items() if speedup.verdict(math.exp(shift)) != verdict}
        together = speedup.verdict(math.exp(sum(shifts.values()))) != verdict
        codes |= sole_codes or ({code for code, shift in shifts.items() if shift} if together else set())
    return codes
