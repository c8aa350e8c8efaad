"""Which configurations are compared: the reference of each, and the sets that differ in one axis alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any

from raybench.analysis.measured import Measured
from raybench.core.text import format_value, is_written
from raybench.errors import UsageError, nearest

JOB_AXES = ("workload", "data_set")
"""Axes between whose values nothing is compared."""


class Matching:
    """The configurations of a grid by their values on the axes.

    Args:
        configurations: in the order of the grid.
        baseline: axes and the baseline's values; empty for the first value of every axis.

    Attributes:
        axes: the axes that vary, each with its values in the order of the grid.
        baseline: axes and the baseline's values, as used.
        replaced: the requested baseline if no configuration with its values has a time; else empty.
    """

    def __init__(self, configurations: Sequence[Measured], baseline: Mapping[str, Any]) -> None:
        self._configurations = configurations
        self.axes = _varied_axes(configurations)
        self.replaced: Mapping[str, Any] = {}
        self.baseline = self._usable(dict(baseline) or self._first_values())

    def _first_values(self) -> dict[str, Any]:
        values = {axis: listed[0] for axis, listed in self.axes.items() if axis not in JOB_AXES}
        if any(_has(each, values) for each in self._configurations):
            return values
        first = next((each for each in self._configurations if values.keys() <= each.axes.keys()), None)
        return {axis: first.axes[axis] for axis in values} if first else {}

    def _usable(self, baseline: dict[str, Any]) -> dict[str, Any]:
        """Return the baseline or, if none of its configurations has a time, the values of the first that has."""
        timed = [each for each in self._configurations if each.times and baseline.keys() <= each.axes.keys()]
        if not baseline or not timed or any(_has(each, baseline) for each in timed):
            return baseline
        self.replaced = baseline
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
        values: dict[str, set[str]] = {}
        for each in self._configurations:
            values.setdefault(_text(each.axes.get(master)), set()).add(_text(each.axes.get(axis)))
        is_function = all(len(each) == 1 for each in values.values())
        names = list(self.axes)
        is_mutual = len({text for each in values.values() for text in each}) == len(values)
        return is_function and (not is_mutual or names.index(master) < names.index(axis))

    def tied_to(self, axes: Collection[str]) -> set[str]:
        """Return axes with those whose values follow from them."""
        return {*axes, *(axis for axis, master in self.ties.items() if master in axes)}

    @cached_property
    def references(self) -> list[int | None]:
        """The index of each configuration's reference; None if the grid has none."""
        ignored = self.tied_to(self.baseline)
        by_rest = {
            self._rest(each, ignored): each.index
            for each in reversed(self._configurations)
            if _has(each, self.baseline)
        }
        return [by_rest.get(self._rest(each, ignored)) for each in self._configurations]

    def sets(self, axis: str, value: Any, other: Any) -> list[tuple[int, int]]:
        """Return pairs of configurations with two values of an axis, that differ in it alone and in what follows."""
        ignored = self.tied_to([axis])
        others = {
            self._rest(each, ignored): each.index
            for each in reversed(self._configurations)
            if _has(each, {axis: other})
        }
        pairs = [
            (each.index, others.get(self._rest(each, ignored)))
            for each in self._configurations
            if _has(each, {axis: value})
        ]
        return [(first, second) for first, second in pairs if second is not None]

    def _rest(self, configuration: Measured, ignored: Collection[str]) -> tuple[Any, ...]:
        """Return a configuration's job and values on axes that are not ignored."""
        values = sorted((axis, _text(configuration.axes[axis])) for axis in configuration.axes if axis not in ignored)
        return configuration.job, *values


def parse_baseline(texts: Sequence[str], configurations: Sequence[Mapping[str, Any]], grid: str) -> dict[str, Any]:
    """Return the values of `--baseline`: a device, or AXIS=VALUE.

    Args:
        texts: what the user wrote.
        configurations: the axes of each.
        grid: the grid's name, for messages.

    Raises:
        UsageError: the grid has no such axis or value; the message has the nearest one.
    """
    baseline = {}
    for text in texts:
        left, equals, right = (part.strip() for part in text.partition("="))
        axis, written = (left, right) if equals else ("device", left)
        names = dict.fromkeys(name for axes in configurations for name in axes)
        if axis not in names:
            hint = nearest(axis, names) if names else "there is none"
            raise UsageError(f"--baseline {text}: {grid} has no axis {axis}; {hint}")
        values = [axes[axis] for axes in configurations if axis in axes]
        matches = [value for value in values if is_written(written, value)]
        if not matches:
            hint = nearest(written, dict.fromkeys(map(format_value, values)))
            raise UsageError(f"--baseline {text}: {axis} of {grid} is never {written}; {hint}")
        baseline[axis] = matches[0]
    return baseline


def _varied_axes(configurations: Sequence[Measured]) -> dict[str, tuple[Any, ...]]:
    """Return the axes with several values, or that some configurations lack; device, batch and decay first."""
    values: dict[str, dict[str, Any]] = {}
    for each in configurations:
        for axis, value in each.axes.items():
            values.setdefault(axis, {})[_text(value)] = value
    varied = {
        axis: tuple(listed.values())
        for axis, listed in values.items()
        if len(listed) > 1 or any(axis not in each.axes for each in configurations)
    }
    first = [axis for axis in (*JOB_AXES, "device", "batch_size", "weight_decay") if axis in varied]
    return {axis: varied[axis] for axis in dict.fromkeys([*first, *varied])}


def _has(configuration: Measured, values: Mapping[str, Any]) -> bool:
    """Return whether a configuration has values on axes."""
    return all(
        axis in configuration.axes and _text(configuration.axes[axis]) == _text(value) for axis, value in values.items()
    )


def _text(value: Any) -> str:
    return format_value(value)
