"""Points of a grid, and the rules that match them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from raybench.config import GridSpec
from raybench.core.text import format_value
from raybench.devices import KINDS
from raybench.errors import UsageError
from raybench.planning.node import Node

Point = dict[str, Any]


def matches(point: Mapping[str, Any], rule: Mapping[str, Any]) -> bool:
    """Return whether a point matches a rule: one of its values per axis."""
    return all(name in point and point[name] in values for name, values in rule.items())


AVAILABLE = ("device", "available")  # filter on the cells that the machines at hand can run


def expand(spec: GridSpec, nodes: Sequence[Node]) -> list[Point]:
    """The grid's points in the order of the file: the product of its axes less `exclude`, then `include`, as filtered.

    Raises:
        UsageError: no point is left.
    """
    wanted: dict[str, list[str]] = {}
    for axis, text in spec.where:
        if (axis, text) != AVAILABLE:
            wanted.setdefault(axis, []).append(text)
    points = [
        point
        for point in all_points(spec, nodes)
        if all(axis in point and format_value(point[axis]) in texts for axis, texts in wanted.items())
    ]
    if not points:
        raise UsageError(f"{spec.name} has no configuration left; change --where or exclude, which remove all of them")
    return points


def all_points(spec: GridSpec, nodes: Sequence[Node]) -> Iterator[Point]:
    """The grid's points without the filter."""
    axes = spec.values(included=False)
    if spec.axes.get("device") == "available":
        kinds = [kind.name for kind in KINDS.values() if not kind.virtual]
        axes["device"] = [kind for kind in kinds if any(node.find(kind) for node in nodes)]
    for values in itertools.product(*axes.values()):
        point = dict(zip(axes, values, strict=True))
        if not any(matches(point, rule) for rule in spec.exclude):
            yield point
    for entry in spec.include:
        free = [[entry[name]] if name in entry else values for name, values in axes.items()]
        for values in itertools.product(*free):
            yield dict(zip(axes, values, strict=True)) | dict(entry)
