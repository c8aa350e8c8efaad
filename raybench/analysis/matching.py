"""Which configurations are compared: the reference of each, and the sets that differ in one axis alone."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from raybench.analysis.measured import Measured
from raybench.core.settings import short_name
from raybench.core.text import format_value

JOB_AXES = ("workload", "data_set")  # axes between whose values nothing is compared

FIRST_AXES = ("device", "count", "framework", "batch_size", "weight_decay")
"""The order of axes; the answer compares the values of the first that varies."""

PROCESSES = re.compile(r"n_?proc(_per_node|esses)?|processes|world_size|gpus|ranks|n?nodes")
"""Names of parameters that are numbers of processes."""

CORES = re.compile(r"threads|cpus|cores")  # names of axes that are numbers of cores or threads


def amount(axis: str, value: Any) -> float | None:
    """Return a value of an axis as an amount of hardware; None if it is not one."""
    name = short_name(axis)
    is_amount = axis == "count" or CORES.fullmatch(name) or PROCESSES.fullmatch(name)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0
    return float(value) if is_amount and is_number else None


class Matching:
    """The configurations of a grid by their values on the axes.

    Attributes:
        axes: the axes that vary, each with its values in the order of the grid.
        baseline: axes and the baseline's values, as used.
        replaced: the requested baseline if no configuration with its values has a time; else empty.
        compares_best: whether no baseline was requested, or only configurations with the same values on its axes have
            times, so that the best of the values of an axis are compared.
    """

    def __init__(
        self, configurations: Sequence[Measured], baseline: Mapping[str, Any], order: Iterable[int] = ()
    ) -> None:
        """Match configurations; `order` has their indices, the best of each job first, by default that of the grid."""
        self._configurations, self._order = configurations, list(order) or range(len(configurations))
        self._texts = [{axis: format_value(value) for axis, value in cell.axes.items()} for cell in configurations]
        self._sorted = [sorted(texts.items()) for texts in self._texts]
        self._by_rest: dict[str, dict[tuple[Any, ...], dict[str, int]]] = {}
        self._timed = [cell for cell in configurations if cell.times]
        self.axes = _varied_axes(configurations)
        self.replaced: Mapping[str, Any] = {}
        of_timed = {tuple(self._texts[cell.index].get(axis) for axis in baseline) for cell in self._timed}
        self.compares_best = not baseline or (len(self._timed) > 1 and len(of_timed) == 1)
        self.baseline = self._usable(self._first_values() if self.compares_best else dict(baseline))

    def _first_values(self) -> dict[str, Any]:
        timed = self._timed or self._configurations
        values = {}
        for axis in self.axes if timed else ():
            texts = {self._texts[cell.index].get(axis) for cell in timed}
            axis_values = [value for value in self.axes[axis] if format_value(value) in texts]
            if axis_values and axis not in JOB_AXES:
                values[axis] = min(axis_values) if all(amount(axis, value) for value in axis_values) else axis_values[0]
        if any(_has(cell, values) for cell in timed):
            return values
        first = next((cell for cell in timed if values.keys() <= cell.axes.keys()), None)
        return {axis: first.axes[axis] for axis in values} if first else {}

    def _usable(self, baseline: dict[str, Any]) -> dict[str, Any]:
        """Return the baseline or, if none of its configurations has a time, the values of the first that has."""
        timed = [cell for cell in self._timed if baseline.keys() <= cell.axes.keys()]
        if not baseline or not timed or any(_has(cell, baseline) for cell in timed):
            return baseline
        self.replaced = {} if self.compares_best else baseline
        return {axis: timed[0].axes[axis] for axis in baseline}

    @cached_property
    def ties(self) -> dict[str, str]:
        """Axes whose value follows from that of an earlier axis, such as the batch size of each device."""
        ties: dict[str, str] = {}
        for axis in self.axes:
            for master in self.axes:
                if master != axis and master not in (*ties, *JOB_AXES) and self._follows(axis, master):
                    ties[axis] = master
                    break
        # Of two axes that follow from one another the first is kept.
        return ties

    def _follows(self, axis: str, master: str) -> bool:
        texts = [[texts.get(name, "None") for name in (master, axis)] for texts in self._texts]
        pairs = {tuple(pair) for pair in texts}
        masters, values = (len({pair[place] for pair in pairs}) for place in range(2))
        names = list(self.axes)
        return masters == len(pairs) and (values < masters or names.index(master) < names.index(axis))

    def tied_to(self, axes: Collection[str]) -> set[str]:
        """Return axes with those whose values follow from them."""
        return {*axes, *(axis for axis, master in self.ties.items() if master in axes)}

    @cached_property
    def compared(self) -> Sequence[str]:
        """The axes of the answer: those of a requested baseline, else the first axis with several values."""
        if not self.compares_best:
            return list(self.baseline)
        timed = self._timed or self._configurations
        values = {axis: {self._texts[cell.index].get(axis) for cell in timed} for axis in self.axes}
        return [axis for axis in self.axes if len(values[axis]) > 1 and axis not in (*JOB_AXES, *self.ties)][:1]

    def are_rivals(self, first: int, second: int) -> bool:
        """Return whether two configurations differ on the compared axes."""
        return any(self._texts[first].get(axis) != self._texts[second].get(axis) for axis in self.compared)

    @cached_property
    def references(self) -> list[int | None]:
        """The index of each configuration's reference; None if the grid has none.

        Without a requested baseline it is the best of its job with the baseline's value on the compared axis.
        """
        if self.compares_best:
            reference_values = {axis: self.baseline.get(axis, self.axes[axis][0]) for axis in self.compared}
            ordered = (self._configurations[index] for index in reversed(self._order))
            best = {cell.job: cell.index for cell in ordered if _has(cell, reference_values)}
            return [best.get(cell.job) for cell in self._configurations]
        ignored = self.tied_to(self.baseline)
        by_rest = {
            self._rest(cell, ignored): cell.index
            for cell in reversed(self._configurations)
            if _has(cell, self.baseline)
        }
        return [by_rest.get(self._rest(cell, ignored)) for cell in self._configurations]

    def sets(self, axis: str, value: Any, reference: Any) -> list[tuple[int, int]]:
        """Return pairs of configurations with two values of an axis, that differ in it alone and in what follows."""
        if axis not in self._by_rest:
            ignored = self.tied_to([axis])
            groups = self._by_rest[axis] = {}
            for cell in self._configurations:
                if axis in cell.axes:
                    of_rest = groups.setdefault(self._rest(cell, ignored), {})
                    of_rest.setdefault(self._texts[cell.index][axis], cell.index)
        first, second = format_value(value), format_value(reference)
        groups = self._by_rest[axis]
        return [(group[first], group[second]) for group in groups.values() if first in group and second in group]

    def _rest(self, cell: Measured, ignored: Collection[str]) -> tuple[Any, ...]:
        """Return a configuration's job and values on axes that are not ignored."""
        values = (coordinate for coordinate in self._sorted[cell.index] if coordinate[0] not in ignored)
        return cell.job, *values


def _varied_axes(configurations: Sequence[Measured]) -> dict[str, tuple[Any, ...]]:
    """Return the axes with several values, or that some configurations lack; hardware first, then what runs on it."""
    values: dict[str, dict[str, Any]] = {}
    for cell in configurations:
        for axis, value in cell.axes.items():
            values.setdefault(axis, {})[format_value(value)] = value
    varied = {
        axis: tuple(by_text.values())
        for axis, by_text in values.items()
        if len(by_text) > 1 or any(axis not in cell.axes for cell in configurations)
    }
    first = [axis for axis in (*JOB_AXES, *FIRST_AXES) if axis in varied]
    return {axis: varied[axis] for axis in dict.fromkeys([*first, *varied])}


def _has(cell: Measured, values: Mapping[str, Any]) -> bool:
    return all(
        axis in cell.axes and format_value(cell.axes[axis]) == format_value(value) for axis, value in values.items()
    )
