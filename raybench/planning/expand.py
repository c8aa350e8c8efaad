"""Points of a grid: a value on each axis, what a rule means by them, and few of them that meet every value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Point = dict[str, Any]

NUMBERS = 2
"""Of the numbers on an axis, how many a few points meet at most."""


def matches(point: Mapping[str, Any], rule: Mapping[str, Any]) -> bool:
    """Whether a point has, for each axis of a rule, the value or one of the values the rule gives."""
    return all(
        name in point and (point[name] in values if isinstance(values, (list, tuple)) else point[name] == values)
        for name, values in rule.items()
    )


def minimal_cover(
    points: Sequence[Point], baseline: Mapping[str, Any], rules: Iterable[Mapping[str, Any]]
) -> list[Point]:
    """As few points as meet each value of each axis and each rule once, most of them beside the baseline.

    Of an axis of more than `NUMBERS` numbers these are the baseline's and the smallest. A value is met where little
    else differs from the baseline, so that most points have what they are to be compared with.

    Args:
        points: of the grid, in the order of its file, which they keep.
        baseline: axes and the value that the baseline has there.
        rules: what else is to be met, as far as any point does.
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
    """The values on an axis that are to be met."""
    values = list({repr(point[name]): point[name] for point in points if name in point}.values())
    numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)
    if not numbers or len(values) <= NUMBERS:
        return values
    base_value = [base[name]] if name in base else []
    return base_value + sorted(value for value in values if value not in base_value)[: NUMBERS - len(base_value)]


def _apart(point: Point, base: Point) -> int:
    """On how many axes two points differ."""
    absent = object()
    return sum(point.get(name, absent) != base.get(name, absent) for name in point.keys() | base.keys())
