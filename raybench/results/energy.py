"""Energy of an attempt, from the summary of its counters (`raybench.monitoring.energy_summary`), in joules.

Joules are those of the device; of an accelerator's host there are separate ones. None if they were not measured, never
0. Unlike times, the energy of an epoch includes its evaluation, because the counters are read outside the trial.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from raybench.results import timing
from raybench.results.attempt import Attempt
from raybench.results.parsing import mapping_in, number_in, text_in

DEVICE, HOST = "device_j", "host_j"


def total(attempt: Attempt, part: str = DEVICE) -> float | None:
    """Joules of all its epochs."""
    return _joules(_stretch(attempt, "epochs"), part)


def steady(attempt: Attempt, part: str = DEVICE) -> float | None:
    """Joules per epoch after the warm-up; None also if these took too little time to be measured."""
    stretch = _stretch(attempt, "steady")
    joules, count = _joules(stretch, part), number_in(stretch.get("count"))
    return round(joules / count, 9) if joules is not None and count else None


def per_example(attempt: Attempt) -> float | None:
    """Joules per training example of a steady epoch."""
    joules, epochs = steady(attempt), timing.steady_epochs(attempt)
    examples = sum(epochs.column("examples")[-1:])
    return joules / examples if joules is not None and examples else None


def to_target(attempt: Attempt) -> float | None:
    """Joules from the beginning of training to the end of the first epoch that reached the target."""
    return _joules(_stretch(attempt, "target"), DEVICE)


def of_epochs(attempt: Attempt, part: str = DEVICE) -> list[float | None]:
    """Joules of each epoch; None also for one that was too short to be measured singly."""
    each = mapping_in(_energy(attempt).get("each"))
    numbers = attempt.epochs.column("epoch")
    return [_joules(mapping_in(each.get(str(number))), part) if each else None for number in numbers]


def others_share(attempt: Attempt) -> float | None:
    """The fraction of the processor time on the CPU's sockets that other processes used during the epochs."""
    return number_in(_energy(attempt).get("others_share"))


def missing(attempt: Attempt) -> list[str]:
    """The reasons why something was not measurable; empty if the trial was not monitored."""
    listed = _energy(attempt).get("missing")
    return [text for reason in listed if (text := text_in(reason))] if isinstance(listed, list) else []


def _energy(attempt: Attempt) -> Mapping[str, Any]:
    return mapping_in((attempt.audit or {}).get("energy"))


def _stretch(attempt: Attempt, name: str) -> Mapping[str, Any]:
    return mapping_in(_energy(attempt).get(name))


def _joules(stretch: Mapping[str, Any], part: str) -> float | None:
    joules = number_in(stretch.get(part))
    return joules if joules is not None and joules > 0 else None
