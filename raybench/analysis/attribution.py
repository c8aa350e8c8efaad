"""Whether a ratio of times may be credited to the hardware, and what was measured where it may not."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from raybench.analysis.roofline import INPUT, OVERHEAD
from raybench.analysis.sentences import Sentence, name, sentence

MEASURED = {
    "input_bound": ("waited for input", "the host that feeds it, not the device"),
    "overhead_bound": ("had little to compute for each operation", "how fast operations are started, not the device"),
    "throttled": ("ran throttled", "a device slowed down by heat or power, not what it can do"),
    "few_threads": ("ran with fewer threads than cores", "a part of the processor, not the whole"),
    "unsynchronised_clock": ("had a clock that did not wait for the device", "how fast work is handed over to it"),
    "busy_host": ("shared cores with other processes", "what those left of them"),
    "cores_shared": ("shared cores with other trials", "what those left of them"),
    "steal": ("lost time to other virtual machines", "what those left of the cores"),
    "clock_drift": ("had a clock that ran fast or slow", "seconds of uncertain length"),
    "short_warmup": ("was still getting faster when counting began", "a part of its warm-up, not its steady pace"),
    "made_apart": ("ran at another time or on other software", "that too, not only the devices"),
    "machine_drift": ("changed while the grid ran", "the machine at different times, not only the devices"),
}
"""For each doubt what a side did, and what its time therefore measures. The keys are the codes of findings that make
a ratio doubtful (`raybench.analysis.findings.DOUBTS_RATIO`), and the two classes of rooflines in which the device is
not what the time goes to."""

_OF_BOUNDS = {INPUT: "input_bound", OVERHEAD: "overhead_bound"}


@dataclass(frozen=True)
class Conditions:
    """How one side of a ratio ran.

    Attributes:
        name: of the side, as a person calls it.
        bound_by: what held its runs up (`raybench.analysis.roofline`), most often first; None where nobody looked.
        doubts: codes of what there is to doubt of its runs.
    """

    name: str
    bound_by: str | None = None
    doubts: Collection[str] = ()

    @property
    def reasons(self) -> list[str]:
        """Why its time is not its hardware's: codes, each once."""
        classes = [] if self.bound_by is None else [_OF_BOUNDS.get(self.bound_by.split(", ")[0], "")]
        return [code for code in MEASURED if code in {*classes, *self.doubts}]


@dataclass(frozen=True)
class Credit:
    """Whether a ratio is the hardware's.

    Attributes:
        reasons: for each side that says no its name and its reasons' codes; empty where the hardware gets the credit.
        says: a sentence for each reason; a reason that both sides have in one.
    """

    reasons: tuple[tuple[str, str], ...]
    says: tuple[Sentence, ...]

    @property
    def hardware(self) -> bool:
        """Whether the ratio may be credited to the hardware, as far as is known."""
        return not self.reasons


def credit(baseline: Conditions, other: Conditions) -> Credit:
    """Judge a ratio by how its two sides ran.

    No ratio is the hardware's while a side is bound by its input or by starting operations, was throttled, or ran with
    fewer threads than cores; nor with any other finding that makes a time doubtful. Where nobody looked, nothing is
    known against it.
    """
    sides = (other, baseline)
    reasons = tuple((side.name, code) for side in sides for code in side.reasons)
    says = []
    for code in dict.fromkeys(code for _, code in reasons):
        did, measured = MEASURED[code]
        names = [side.name for side in sides if code in side.reasons]
        both = (name(names[0]), " and ", name(names[1]), " both ") if len(names) > 1 else (name(names[0]), " ")
        if len(names) > 1 and did.startswith("was "):
            did = f"were {did.removeprefix('was ')}"
        says.append(sentence(*both, f"{did}: this measures {measured}."))
    return Credit(reasons, tuple(says))
