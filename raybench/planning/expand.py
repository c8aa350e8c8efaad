"""Points of a grid: matching of rules, and a small subset that covers every value."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
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
    chosen = [base]

    def choose(candidates: Sequence[Point]) -> None:
        if candidates:
            chosen.append(min(candidates, key=lambda point: _apart(point, base)))

    for name in dict.fromkeys(name for point in points for name in point):
        candidates: dict[Any, list[Point]] = {}
        for point in points:
            if name in point:
                candidates.setdefault(_key(point[name]), []).append(point)
        covered = {_key(point[name]) for point in chosen if name in point}
        for value in _values(name, points, base):
            if _key(value) not in covered:
                choose(candidates[_key(value)])
    for rule in rules:
        if not any(matches(point, rule) for point in chosen):
            choose([point for point in points if matches(point, rule)])
    picked = set(map(id, chosen))
    return [point for point in points if id(point) in picked]


def _key(value: Any) -> Any:
    """A value of an axis as a key."""
    return value if isinstance(value, Hashable) else repr(value)


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
