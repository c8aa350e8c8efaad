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

Reports, tables, MLflow's tags and the tables of the documentation come from the declarations.
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
    from raybench.results.attempt import Attempt, Key

LARGEST_DISTORTION = 1e6
"""Limit of the fractions of a time by which a finding may explain it."""


@dataclass(frozen=True)
class Finding:
    """Something that may have changed the time of an attempt, and by how much.

    A report presents it as a caution if it could change a comparison, else as a note.

    Attributes:
        code: the kind (`kinds`).
        says: the observation, about one run ("it …", or without a subject).
        remedy: the recommended action.
        evidence: the numbers behind it; the first is the one that was judged, and larger values are worse.
        too_long: the fraction of the true time by which the recorded one may be too long: 0.1 for 10%. None if not
            known.
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
        """Severity relative to other findings with the same code."""
        return next(iter(self.evidence.values()), 0.0)

    @property
    def magnitude(self) -> float | None:
        """The relative error that it may cause in a ratio of times.

        None if not known.
        """
        parts = [part for part in (self.too_long, self.too_short) if part is not None]
        return max(parts, default=None)

    @property
    def name(self) -> str:
        """The code as words."""
        return self.code.replace("_", " ")


@dataclass(frozen=True)
class Observation:
    """An observation of a detector, with the attributes of `Finding`.

    Without a remedy, that of its kind is used.
    """

    says: str
    evidence: Mapping[str, float]
    too_long: float | None = None
    too_short: float | None = None
    remedy: str = ""


@dataclass(frozen=True)
class Context:
    """Information about an attempt from other attempts.

    Without it, findings that need a comparison with others are left out.

    Attributes:
        neighbours: other attempts on its machine (`raybench.analysis.diagnostics.concurrent_runs`).
        other_sessions: the observation for each attempt from a different session or software version than the run that
            it is compared with (`raybench.analysis.diagnostics.provenance`).
        other_machines: differences from the run on another machine that it is compared with, by attempt and code
            (`raybench.analysis.diagnostics.other_machines`).
        axes: names of the axes of its grid.
        effects: comparisons with runs that differ in one axis or in the seed (`raybench.analysis.diagnostics.effects`),
            by attempt and code.
    """

    neighbours: ConcurrentRuns | None = None
    other_sessions: Mapping[Key, Observation] = field(default_factory=dict)
    other_machines: Mapping[Key, Mapping[str, Observation]] = field(default_factory=dict)
    axes: frozenset[str] = frozenset()
    effects: Mapping[Key, Mapping[str, Observation]] = field(default_factory=dict)


Detector = Callable[["Attempt", Context], Iterable[Observation]]


@dataclass(frozen=True)
class FindingKind:
    """A kind of finding.

    Attributes:
        code: a machine-readable word.
        condition: when it is reported, for the documentation.
        bias: by how much the recorded time may be too long, for the documentation; empty if it can only be a note.
        did: text: the behaviour of an affected side of a comparison; empty if it can only be a note.
        measures: text: the quantity that its time measures instead; empty if it can only be a note.
        remedy: the recommended action.
        recurs: whether it is caused by the settings and thus shows in every repeat: if most repeats of a cell lack it,
            it had another cause and is dropped.
        of_hardware: whether it only matters for comparisons of hardware: if both sides have the same hardware, it
            affects them equally.
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
    def distorts(self) -> bool:
        """Whether it can distort a ratio and thus become a caution; else it can only be a note."""
        return bool(self.did)

    def finding(self, observation: Observation) -> Finding:
        """Return the finding of an observation."""
        return Finding(
            self.code,
            observation.says,
            observation.remedy or self.remedy,
            observation.evidence,
            _possible(observation.too_long),
            _possible(observation.too_short),
        )


def _possible(fraction: float | None) -> float | None:
    """A fraction of a time; None for one that only a damaged record gives, for example of a negative time."""
    return fraction if fraction is not None and 0 <= fraction < LARGEST_DISTORTION else None


_DECLARED: dict[str, FindingKind] = {}


@cache
def _import_detectors() -> None:
    """Import every module of this package, which declares its kinds."""
    package = import_module(__package__)
    for module in pkgutil.iter_modules(package.__path__):
        import_module(f"{__package__}.{module.name}")


def kinds() -> dict[str, FindingKind]:
    """Return all kinds of findings by code, in alphabetical order."""
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
    """Declare a kind of finding with its detector.

    The arguments are the attributes of `FindingKind`. With `bias`, `did` and `measures` it can become a caution of a
    report, without them only a note.
    """

    def declare(detector: Detector) -> Detector:
        _DECLARED[code] = FindingKind(code, condition, bias, did, measures, remedy, recurs, of_hardware, detector)
        return detector

    return declare


def only_a_note(code: str) -> bool:
    """Return whether findings with this code cannot distort a ratio, as far as is known."""
    kind = kinds().get(code)
    return kind is None or not kind.distorts


def is_of_hardware(code: str) -> bool:
    """Return whether findings with this code only matter for comparisons of hardware."""
    kind = kinds().get(code)
    return kind is not None and kind.of_hardware
