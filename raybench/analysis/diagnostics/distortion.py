"""Sensitivity of a verdict on a ratio of times to findings."""

from __future__ import annotations

import math
from collections.abc import Sequence

from raybench.analysis.diagnostics.finding import Finding
from raybench.analysis.statistics.speedup import Speedup

Runs = Sequence[Sequence[Finding]]
"""The findings of each run of a side."""


def could_reverse(speedup: Speedup, baseline: Runs, other: Runs) -> tuple[frozenset[str], frozenset[str]]:
    """Return codes of findings that could reverse the verdict, the baseline's first.

    A finding could reverse it if shifting the ratio's interval by the largest distortion of the side's mean time that
    the finding may have caused changes the verdict. If several findings can do so only together, all are returned.
    """
    return frozenset(_turning(speedup, baseline, -1)), frozenset(_turning(speedup, other, 1))


def _turning(speedup: Speedup, runs: Runs, sign: int) -> set[str]:
    """Return the codes of one side.

    Args:
        speedup: the ratio.
        runs: the side's findings.
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
