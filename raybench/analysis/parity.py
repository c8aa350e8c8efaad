"""What two frameworks made of the same weights and batches, line by line, with how far apart they may be.

Every difference is relative: of an array, the norm of what differs against the norm of the reference's; of losses, what
differs against the largest of the reference's. All is float32, where one rounding is 6e-8, and frameworks add in
different orders. The most that was seen over the shipped workloads, between torch, TensorFlow and torch_xla on a CPU,
with batches of 16 and of 128, and what decides it:

- outputs 7e-7: rounding, through some ten layers. One layer that is really different (an epsilon, a padding, an
  activation) is a difference of 1e-3 and more.
- gradients 5e-5: rounding, multiplied where a batch norm divides by the spread of few examples. It is the median of
  several groups of examples: a max pool whose two largest values are closer than rounding sends its gradient to either
  (`raybench.trial.parity`).
- first loss 4e-6, of katnoria_cnn: batch norms of raw pixels, whose sums are large beside their spread.
- first ten losses 2e-4, running statistics 3e-3: those of DavidNet, as its weights move apart.
- what ten steps did to the weights 5e-2, of DavidNet: each step goes by a whole batch, in which some max pool always
  is in doubt; with Adam 1e-2, whose first steps go by the sign of the gradient, also where there is next to none.
  Another optimiser, momentum or schedule is a difference of about 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, takewhile
from typing import TYPE_CHECKING

import numpy as np

from raybench.engines.conversion import Mismatch, Weights, renamed, under

if TYPE_CHECKING:
    from raybench.datasets.base import Array

OUTPUTS = 1e-4
GRADIENTS = 1e-3
FIRST_LOSS = 1e-4
LOSSES = 1e-3
ROUNDINGS = 3
"""Gradients may be so many times as far apart as the reference's own are in its two memory layouts.

Each layout has its own order of additions, and lets a ReLU whose input is next to 0 pass or not: of the millions that a
U-net has, some always are. On scenes of 32×32, torch's two layouts differ by up to 7e-3 in float32, in the very arrays
in which TensorFlow does, and by 2e-13 in float64.
"""
STEP_ROUNDINGS = 5
"""The same of what some steps make of them, each of which goes on from the last one's rounding.

ResNet-63's first ten losses, torch against TensorFlow, were 2.3 and 3.6 times as far apart, in two runs of the same
command, as torch's own in two layouts (9.4e-4); its weights moved 0.15 apart, torch's own 0.14.
"""
STEPS = 0.15
STATISTICS = 1e-2

FLOOR = 1e-3
"""An array whose norm is less than this part of the largest is measured against that part: a bias before a batch norm
has a gradient of nothing but rounding."""

TINY = 1e-30
"""What stands for the norm of nothing but zeros."""


@dataclass(frozen=True)
class Measured:
    """What one framework made of the reference's weights and batches.

    Attributes:
        parameters: how many values it trains.
        mismatch: why it cannot take the reference's weights, in words; then there are no arrays.
        arrays: `outputs/…`, `losses`, and by layer `gradient N/…` of each group, `steps/…` and `statistics/…`; of
            the reference `turned N/…` too, its gradients in another memory layout.
    """

    framework: str
    parameters: int
    mismatch: str | None
    arrays: Mapping[str, Array]

    def under(self, prefix: str) -> dict[str, Array]:
        """The arrays called `prefix/…`, without the prefix."""
        return under(prefix, self.arrays)

    @property
    def has_layouts(self) -> bool:
        """Whether another memory layout makes something else of the same: of pictures, where the framework has both."""
        both = zip(_numbered("gradient", self), _numbered("turned", self), strict=False)
        return any(not np.array_equal(one[name], other[name]) for (_, one), (_, other) in both for name in one)


@dataclass(frozen=True)
class Line:
    """One thing that was compared.

    Attributes:
        difference: None where it cannot be said in a number; then `note` says it.
        tolerance: how large the difference may be.
    """

    what: str
    difference: float | None
    tolerance: float
    note: str = ""

    @property
    def same(self) -> bool:
        """Whether the difference is within the tolerance."""
        return self.difference is not None and self.difference <= self.tolerance


def compare(reference: Measured, other: Measured, turned: Measured | None = None) -> Iterator[Line]:
    """Everything there is to compare of two frameworks.

    Args:
        turned: what the reference made of the same with its pictures in the other memory layout, where that is known:
            in a deep network rounding grows from step to step, and by how much it alone can tell.
    """
    counts = dict.fromkeys([f"{reference.parameters:,}", f"{other.parameters:,}"])
    yield Line("parameters", abs(reference.parameters - other.parameters), 0.0, " and ".join(counts))
    if other.mismatch:
        yield Line("layers", None, 0.0, other.mismatch)
        return
    shapes = ["×".join(map(str, side.arrays["outputs/"].shape)) for side in (reference, other)]
    if len(set(shapes)) > 1:
        yield Line("outputs", None, OUTPUTS, " and ".join(shapes))
    else:
        yield _line("outputs", reference.under("outputs"), other.under("outputs"), OUTPUTS)
    yield _gradients(reference, other)
    own = list(_steps(reference, turned)) if turned else []
    for number, line in enumerate(_steps(reference, other)):
        yield _widened(line, own[number].difference or 0.0, STEP_ROUNDINGS) if own else line


def _steps(reference: Measured, other: Measured) -> Iterator[Line]:
    """The lines of what training makes of both."""
    steps = len(reference.arrays["losses"])
    yield _losses("first loss", reference, other, 1, FIRST_LOSS)
    yield _losses(f"first {steps} losses", reference, other, steps, LOSSES)
    moved = reference.under("steps")
    yield _line(f"what {steps} steps did", _as_one(moved), _as_one(renamed(other.under("steps"), moved)), STEPS)
    yield _line("running statistics", reference.under("statistics"), other.under("statistics"), STATISTICS)


def _widened(line: Line, own: float, roundings: int) -> Line:
    """A line whose tolerance is what the reference's own rounding asks for, and then says so."""
    if roundings * own <= line.tolerance:
        return line
    note = f"{line.note}; its own in another layout: {own:.2g}".removeprefix("; ")
    return replace(line, tolerance=roundings * own, note=note)


def _gradients(reference: Measured, other: Measured) -> Line:
    """The line of the median group; where the reference's own are apart in two layouts, with how far."""
    turned = _numbered("turned", reference)
    rounding = _median([_line("", reference.under(f"gradient {n}"), group, 0.0) for n, group in turned])
    own = (rounding.difference or 0.0) if rounding else 0.0
    groups = _numbered("gradient", reference)
    found = _median([_line("gradients", group, other.under(f"gradient {n}"), GRADIENTS) for n, group in groups])
    assert found is not None
    return _widened(found, own, ROUNDINGS)


def _numbered(prefix: str, measured: Measured) -> list[tuple[int, dict[str, Array]]]:
    """The arrays of each group of examples, and its number."""
    return list(enumerate(takewhile(bool, (measured.under(f"{prefix} {number}") for number in count()))))


def _median(lines: Sequence[Line]) -> Line | None:
    """The one in the middle by its difference; None of none."""
    ordered = sorted(lines, key=lambda line: math.inf if line.difference is None else line.difference)
    return ordered[len(lines) // 2] if lines else None


def _losses(what: str, reference: Measured, other: Measured, steps: int, tolerance: float) -> Line:
    ours, theirs = reference.arrays["losses"], other.arrays["losses"]
    return _judged(what, float(np.abs(ours - theirs)[:steps].max() / np.abs(ours).max()), tolerance, "")


def _as_one(arrays: Weights) -> Weights:
    """All arrays as a single one: what moves hardly at all is to count for as little."""
    return {"": np.concatenate([array.ravel() for array in arrays.values()])}


def _line(what: str, reference: Weights, other: Weights, tolerance: float) -> Line:
    """The largest difference of one of several arrays from its partner, which the note names."""
    try:
        partners = renamed(other, reference)
    except Mismatch as error:
        return Line(what, None, tolerance, str(error))
    norms = {name: float(np.linalg.norm(array)) for name, array in reference.items()}
    least = max(FLOOR * max(norms.values(), default=0.0), TINY)
    apart = {name: float(np.linalg.norm(reference[name] - partners[name])) / max(norms[name], least) for name in norms}
    worst = max(apart, key=lambda name: apart[name] if math.isfinite(apart[name]) else math.inf, default="")
    return _judged(what, apart.get(worst, 0.0), tolerance, worst)


def _judged(what: str, difference: float, tolerance: float, where: str) -> Line:
    if math.isfinite(difference):
        return Line(what, difference, tolerance, where)
    return Line(what, None, tolerance, f"{where}: not finite".removeprefix(": "))
