"""What a training loop reports about one epoch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from raybench.training.values import copy_of, number_of


class Diverged(Exception):
    """The loss is not finite."""


@dataclass
class EpochRecord:
    """The counts and metrics of one epoch.

    Attributes:
        number: from 0.
        taken, examples: steps and examples that `Trial.steps` has seen.
        counts: numbers that the user has counted, by unit.
        metrics: copies of the last values, which may still be on a device.
        facts: more fields of `epoch_ended`.
    """

    number: int
    taken: int = 0
    examples: int = 0
    counts: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    def add(self, counts: Mapping[str, Any]) -> None:
        """Add numbers of steps, examples or other units."""
        for name, value in counts.items():
            try:
                added = copy_of(value)
            except TypeError as error:
                raise TypeError(f"trial.count({name}=…): {error}") from None
            self.counts[name] = self.counts[name] + added if name in self.counts else added

    def log(self, metrics: Mapping[str, Any]) -> None:
        """Copy metrics; the last value of each name counts."""
        for name, value in metrics.items():
            if not isinstance(name, str) or "/" not in name.strip("/"):
                raise ValueError(f"trial.log: name the data of {name!r}, such as 'train/{name}' or 'val/{name}'")
            try:
                self.metrics[name] = copy_of(value)
            except TypeError as error:
                raise TypeError(f"trial.log: {name}: {error}") from None

    def counted(self) -> dict[str, Any]:
        """Steps, examples and units as fields of `epoch_ended`; what was not counted is absent."""
        units = {name: number_of(value) for name, value in self.counts.items()}
        for name, number in units.items():
            if not math.isfinite(number):
                raise ValueError(f"trial.count({name}=…): the sum of this epoch is {number}")
        steps, examples = (
            int(units.pop(name, 0) + seen) for name, seen in (("steps", self.taken), ("examples", self.examples))
        )
        counts = {"steps": steps, "examples": examples, "units": units}
        return {name: value for name, value in counts.items() if value}


def add_counts(sums: dict[str, float], fields: Mapping[str, Any]) -> None:
    """Add examples and units, as fields of `epoch_ended`, to sums by unit."""
    for name, value in {"examples": fields.get("examples", 0), **fields.get("units", {})}.items():
        sums[name] = sums.get(name, 0.0) + value


def finite(metrics: Mapping[str, float], warn: Callable[[str], object] = str) -> tuple[dict[str, float], str]:
    """The metrics that are finite numbers, and the first loss that is not one: `train/loss is nan`."""
    diverged = ""
    for name, value in metrics.items():
        if math.isfinite(value):
            continue
        if not name.endswith("loss"):
            warn(f"{name} is {value}, and was left out")
        diverged = diverged or (f"{name} is {value}" if name.endswith("loss") else "")
    return {name: value for name, value in metrics.items() if math.isfinite(value)}, diverged
