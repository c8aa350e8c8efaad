"""Findings, and the registry of their kinds.

A kind is declared once, with its detector, in any module of this package:

    @detects(
        "steal",
        condition="a hypervisor gave 5% of the cores' time to others",
        bias="that share",
        did="lost time to other virtual machines",
        measures="what those left of the cores",
        remedy="use a machine with cores of its own",
    )
    def steal(attempt: Attempt, context: Context) -> Iterator[Observation]: ...

Reports, tables, MLflow's tags and the tables in docs/findings.md come from the declarations.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from raybench.analysis.diagnostics.concurrent_runs import ConcurrentRuns
    from raybench.checks.canary.judge import Drift
    from raybench.results.attempt import Attempt, Key

CAVEAT, CAUTION = "caveat", "caution"


@dataclass(frozen=True)
class Finding:
    """Something about an attempt that its times have to be read with.

    Attributes:
        code: which kind (`kinds`).
        says: what was seen, about one run ("it …", or without a subject).
        remedy: what to do about it.
        evidence: the numbers behind it; the first is the one that was judged, and the larger it is the worse.
        too_long: by which part of the true time the recorded one may be too long: 0.1 for 10 %. None if not known.
        too_short: the same for a recorded time that may be too short.
    """

    code: str
    says: str
    remedy: str
    evidence: Mapping[str, float]
    too_long: float | None = None
    too_short: float | None = None

    @property
    def degree(self) -> float:
        """How bad it is, among findings of the same code."""
        return next(iter(self.evidence.values()), 0.0)

    @property
    def magnitude(self) -> float | None:
        """By which part a ratio of times may be off because of it; None if not known."""
        parts = [part for part in (self.too_long, self.too_short) if part is not None]
        return max(parts, default=None)

    @property
    def name(self) -> str:
        """The code as words."""
        return self.code.replace("_", " ")


@dataclass(frozen=True)
class Observation:
    """What a detector has seen; the attributes are those of `Finding`. Without a remedy its kind's is given."""

    says: str
    evidence: Mapping[str, float]
    too_long: float | None = None
    too_short: float | None = None
    remedy: str = ""


@dataclass(frozen=True)
class Context:
    """What is known of an attempt from elsewhere; without it, what only shows beside others is left out.

    Attributes:
        neighbours: other attempts on its machine (`raybench.analysis.diagnostics.concurrent_runs`).
        drifts: devices whose speed changed while the grid ran (`raybench.checks.canary.judge`).
        other_sessions: for attempts that were made apart from the one they are compared with, in which way
            (`raybench.analysis.diagnostics.provenance`).
        axes: names of the axes of its grid.
    """

    neighbours: ConcurrentRuns | None = None
    drifts: Iterable[Drift] = ()
    other_sessions: Mapping[Key, Observation] = field(default_factory=dict)
    axes: frozenset[str] = frozenset()


Detector = Callable[["Attempt", Context], Iterable[Observation]]


@dataclass(frozen=True)
class FindingKind:
    """A kind of finding.

    Attributes:
        code: a word for machines.
        condition: when it is reported, for the documentation.
        bias: by how much the recorded time may be too long, for the documentation; empty for a caution.
        did: what a side of a comparison did that has it; empty for a caution.
        measures: what its time measures instead; empty for a caution.
        remedy: what to do about it.
        recurs: whether it comes from the settings and so shows in every repeat: one that most repeats of a cell do
            not have came from elsewhere, and is dropped.
        of_hardware: whether it bears only on comparisons of hardware: with both sides on the same, it is the same.
    """

    code: str
    condition: str
    bias: str
    did: str
    measures: str
    remedy: str
    recurs: bool
    of_hardware: bool
    detector: Detector

    @property
    def severity(self) -> str:
        """`CAVEAT` if it can distort a ratio, `CAUTION` if a reader should only know it."""
        return CAVEAT if self.did else CAUTION

    def find(self, attempt: Attempt, context: Context) -> list[Finding]:
        """The findings of this kind in an attempt."""
        return [
            Finding(
                self.code,
                observation.says,
                observation.remedy or self.remedy,
                observation.evidence,
                observation.too_long,
                observation.too_short,
            )
            for observation in self.detector(attempt, context)
        ]


_DECLARED: dict[str, FindingKind] = {}


@cache
def _import_detectors() -> None:
    """Import every module of this package: importing one declares its kinds."""
    package = import_module(__package__)
    for module in pkgutil.iter_modules(package.__path__):
        import_module(f"{__package__}.{module.name}")


def kinds() -> dict[str, FindingKind]:
    """All kinds of findings by their codes, in the alphabet's order."""
    _import_detectors()
    return dict(sorted(_DECLARED.items()))


def detects(
    code: str,
    *,
    condition: str,
    remedy: str,
    bias: str = "",
    did: str = "",
    measures: str = "",
    recurs: bool = False,
    of_hardware: bool = False,
) -> Callable[[Detector], Detector]:
    """Declare a kind of finding with its detector; the arguments are the attributes of `Kind`.

    With `bias`, `did` and `measures` it is a caveat, without them a caution.
    """

    def declare(detector: Detector) -> Detector:
        _DECLARED[code] = FindingKind(code, condition, bias, did, measures, remedy, recurs, of_hardware, detector)
        return detector

    return declare


def is_caution(code: str) -> bool:
    """Whether findings with this code can distort no ratio, as far as is known."""
    kind = kinds().get(code)
    return kind is None or kind.severity == CAUTION


def is_of_hardware(code: str) -> bool:
    """Whether findings with this code bear only on comparisons of hardware."""
    kind = kinds().get(code)
    return kind is not None and kind.of_hardware
