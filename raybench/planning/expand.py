"""Points of a grid: matching of rules, and a small subset that covers every value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Point = dict[str, Any]

NUMBERS = 2
"""The most values of a numeric axis that `minimal_cover` includes."""


def matches(point: Mapping[str, Any], rule: Mapping[str, Any]) -> bool:
    """Return whether a point matches a rule: one of its values per axis."""
    return all(
        name in point and (point[name] in values if isinstance(values, (list, tuple)) else point[name] == values)
        for name, values in rule.items()
    )


def minimal_cover(
    points: Sequence[Point], baseline: Mapping[str, Any], rules: Iterable[Mapping[str, Any]]
) -> list[Point]:
    """A small set of points that covers each axis value and each rule.

    Of a numeric axis with more than `NUMBERS` values, only the baseline's value and the smallest are covered. For each
    value, the point that differs from the baseline on the fewest axes is chosen, so that most points can be compared
    with the baseline.

    Args:
        points: the points of the grid in the order of its file; the result keeps this order.
        baseline: axes and their values in the baseline.
        rules: further rules to cover, if any point matches them.
    """
    if not points:
        return []
    base = next((point for point in points if matches(point, baseline)), points[0])
    value_rules: list[Mapping[str, Any]] = []
    for name in dict.fromkeys(name for point in points for name in point):
        value_rules += [{name: [value]} for value in _values(name, points, base)]
    chosen = [base]
    for rule in (*value_rules, *rules):
        candidates = [point for point in points if matches(point, rule)]
        if candidates and not any(matches(point, rule) for point in chosen):
            chosen.append(min(candidates, key=lambda point: _apart(point, base)))
    return [point for point in points if any(point is picked for picked in chosen)]


def _values(name: str, points: Sequence[Point], base: Point) -> list[Any]:
    """The values of an axis that are to be covered."""
    values = list({repr(point[name]): point[name] for point in points if name in point}.values())
    numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)
    if not numbers or len(values) <= NUMBERS:
        return values
    base_value = [base[name]] if name in base else []
    return base_value + sorted(value for value in values if value not in base_value)[: NUMBERS - len(base_value)]


def _apart(point: Point, base: Point) -> int:
    """The number of axes on which two points differ."""
    absent = object()
    return sum(point.get(name, absent) != base.get(name, absent) for name in point.keys() | base.keys())
