"""Learning-rate schedules: factors on `learning_rate` per step, equal in every framework."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping
from typing import Any


def schedule(setting: str | Mapping[str, Any], steps_per_epoch: int, total: int) -> Callable[[int], float]:
    """Return the factor for each step (counted from 0) of a run of a total number of steps.

    - `constant`: 1.
    - `piecewise_linear`: `points` are [epoch, factor], joined by straight lines and constant beyond the last; with
      `stretch` the last point lies at the last epoch and the others in proportion. A step is placed at its end, so
      that a rate that rises from 0 is above 0 at the first step and reaches its last point with the last step.
    - `exponential`: floor + exp(-step / decay_steps).
    - `cosine`: from 0 to 1 in a straight line over the share `warmup_ratio` of the run, then to `floor` along half a
      cosine; a step is placed at its end, too.
    """
    if not isinstance(setting, Mapping):
        return lambda step: 1.0
    if setting["name"] == "exponential":
        floor, decay_steps = setting["floor"], setting["decay_steps"]
        return lambda step: float(floor + math.exp(-step / decay_steps))
    if setting["name"] == "piecewise_linear":
        points = setting["points"]
        scale = total / steps_per_epoch / points[-1][0] if setting["stretch"] else 1.0
        positions = [position * scale for position, _ in points]
        factors = [factor for _, factor in points]
        return lambda step: _between(positions, factors, (step + 1) / steps_per_epoch)
    floor, warmup = setting["floor"], setting["warmup_ratio"] * total
    return lambda step: _cosine(step + 1, warmup, total, floor)


def _cosine(position: int, warmup: float, total: int, floor: float) -> float:
    if position <= warmup:
        return position / warmup
    progress = min(1.0, (position - warmup) / (total - warmup))
    return floor + (1.0 - floor) * (1.0 + math.cos(math.pi * progress)) / 2.0


def _between(positions: list[float], factors: list[float], position: float) -> float:
    index = bisect_right(positions, position)
    if index == 0:
        return float(factors[0])
    if index == len(positions):
        return float(factors[-1])
    share = (position - positions[index - 1]) / (positions[index] - positions[index - 1])
    return float(factors[index - 1] + share * (factors[index] - factors[index - 1]))
