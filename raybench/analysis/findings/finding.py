"""Declaration of findings, and the findings of runs.

A kind of finding is one function, in any module of this package. Its name is the code of the kind, its docstring says
when it is reported, with constants of the module in braces:

    @detects(remedy="use a machine with dedicated cores", caution=True)
    def steal(run: Run) -> Iterator[Finding]:
        '''A hypervisor gave {STOLEN:.0%} of the cores' time to others.'''

With `of_grid`, it is a function of all runs and of the axes that vary, and yields runs with their finding; with
`of_answer`, one of an answer (`View`), and yields cautions; with `of_pair`, one of an answer and the indices of two
configurations, and yields words for the sentence that compares them. Reports, tables and the documentation come from
the declarations.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import chain
from typing import Any, TypeVar

from raybench.analysis.answer import Answer, Caution, Configuration
from raybench.analysis.matching import Matching
from raybench.analysis.measured import Measured
from raybench.core.status import TrialStatus
from raybench.core.text import names_text
from raybench.results.grid_request import GridRequest
from raybench.results.run_table import Run


@dataclass(frozen=True)
class Finding:
    """What a detector found in a run.

    Attributes:
        text: one sentence about the run ("the run …", or without a subject), without full stop.
        degree: how bad it is, to choose the worst of several runs.
        too_long: the fraction by which the run's time may be too long, an estimate; None if it is not known.
        remedy: the recommended action, if it is not that of the kind.
        code: of its kind.
    """

    text: str
    degree: float = 1.0
    too_long: float | None = None
    remedy: str = ""
    code: str = ""


Detector = TypeVar("Detector", bound=Callable[..., Iterator[Any]])
OfRuns = tuple[Iterable[Run], Finding]  # runs and what was found in each of them


@dataclass(frozen=True)
class FindingKind:
    """A kind of finding.

    Attributes:
        condition: when it is reported, for the documentation.
        remedy: the recommended action.
        caution: whether it can change an answer; else it is a note.
        recurs: whether it comes from the settings and shows in every repeat: if most repeats lack it, it is dropped.
        of_hardware: whether it only matters if devices are compared.
        about: what it may make wrong: times, the quality or the energy.
        of_grid: whether it follows from several runs, or from the axes.
        of_answer: whether it follows from the answer.
        of_pair: whether it follows from two configurations; the sentence that compares them says it.
        guess: whether raybench takes something for granted, so that the remedy is how to say it.
    """

    code: str
    condition: str
    remedy: str
    detector: Callable[..., Iterator[Any]]
    caution: bool = False
    recurs: bool = False
    of_hardware: bool = False
    about: str = "times"
    of_grid: bool = False
    of_answer: bool = False
    of_pair: bool = False
    guess: bool = False

    def found(self, runs: Sequence[Run], axes: Collection[str]) -> Iterator[OfRuns]:
        """Yield its findings in the runs of a grid, each with the runs that it concerns."""
        # Attempt 0 never started.
        of_runs = (([run], finding) for run in runs if run.attempt for finding in self.detector(run))
        for concerned, finding in self.detector(runs, axes) if self.of_grid else of_runs:
            yield concerned, replace(finding, code=self.code, remedy=finding.remedy or self.remedy)


_DECLARED: dict[str, FindingKind] = {}


@cache
def kinds() -> dict[str, FindingKind]:
    """Return all kinds of findings by code, in alphabetical order."""
    from raybench.analysis.findings import clocks, conditions, guesses, settings  # noqa: F401

    return dict(sorted(_DECLARED.items()))


def detects(remedy: str, **attributes: Any) -> Callable[[Detector], Detector]:
    """Declare a kind of finding by its detector; the attributes are those of `FindingKind`."""

    def declare(detector: Detector) -> Detector:
        code, constants = detector.__name__, vars(sys.modules[detector.__module__])
        first, _, _ = (detector.__doc__ or "").partition("\n\n")
        condition = " ".join(first.split()).rstrip(".").format(**constants)
        _DECLARED[code] = FindingKind(code, condition[:1].lower() + condition[1:], remedy, detector, **attributes)
        return detector

    return declare


def findings(runs: Sequence[Run], axes: Collection[str] = ()) -> dict[int, tuple[Finding, ...]]:
    """Return the findings of runs of one grid, by the `id` of each.

    Args:
        runs: the attempts that count, running or ended; one without epochs only has findings about its conditions.
        axes: the axes of the grid that vary.
    """
    by_run: dict[int, list[Finding]] = {id(run): [] for run in runs}
    for kind in (kind for kind in kinds().values() if not (kind.of_answer or kind.of_pair)):
        for concerned, finding in kind.found(runs, axes):
            for run in concerned:
                by_run[id(run)].append(finding)
    completed = [run for run in runs if run.status == TrialStatus.COMPLETED]
    repeats = Counter(run.cell_id for run in completed)
    counts = Counter((run.cell_id, code) for run in completed for code in {finding.code for finding in by_run[id(run)]})

    def is_kept(run: Run, code: str) -> bool:
        return not kinds()[code].recurs or 2 * counts[run.cell_id, code] > repeats[run.cell_id]

    return {id(run): tuple(finding for finding in by_run[id(run)] if is_kept(run, finding.code)) for run in runs}


@dataclass(frozen=True)
class View:
    """An answer before its cautions, what it is made from, and the findings of its runs by the `id` of each."""

    answer: Answer
    measured: Sequence[Measured]
    matching: Matching
    request: GridRequest
    findings: Mapping[int, Sequence[Finding]]

    @property
    def rows(self) -> Sequence[Configuration]:
        """The configurations."""
        return self.answer.configurations

    @cached_property
    def timed(self) -> list[Measured]:
        """Those with a time."""
        return [cell for cell in self.measured if cell.times]

    @cached_property
    def runs(self) -> list[tuple[int, Run]]:
        """All completed runs, each with the index of its configuration."""
        return [(cell.index, run) for cell in self.measured for run in cell.completed]

    @cached_property
    def timed_runs(self) -> list[Run]:
        """The completed runs of those with a time."""
        return [run for cell in self.timed for run in cell.completed]

    @property
    def is_printed(self) -> bool:
        """Whether the output of commands times their epochs."""
        return any(run.clock in ("output", "program", "run") for run in self.timed_runs)

    def names(self, indices: Iterable[int]) -> str:
        """Return the labels of configurations, in a sentence."""
        return names_text([self.rows[index].label for index in dict.fromkeys(indices)])

    def cautions(self) -> Iterator[Caution]:
        """Yield the cautions that follow from the answer."""
        for kind in (kind for kind in kinds().values() if kind.of_answer):
            for caution in kind.detector(self):
                yield replace(caution, code=kind.code, remedy=caution.remedy or kind.remedy)

    def words(self, index: int, reference: int) -> tuple[str, ...]:
        """Return what a sentence on two configurations has to say besides how they differ."""
        pairs = (kind.detector(self, index, reference) for kind in kinds().values() if kind.of_pair)
        return tuple(chain.from_iterable(pairs))


def concerning(indices: Iterable[int], text: str, remedy: str = "", is_open: bool = True, code: str = "") -> Caution:
    """Return a caution on configurations, which could change the best if it `is_open`."""
    configurations = tuple(dict.fromkeys(indices))
    return Caution(code, text, remedy, configurations=configurations, could_change_best=is_open)
