"""Time of a training step by section, for profiled cells (`profile_steps`)."""

from __future__ import annotations

from collections.abc import Iterable

from raybench.results.attempt import Attempt

MILLI = 1e-3


def step_profile(runs: Iterable[Attempt]) -> dict[str, float]:
    """Return milliseconds per section of a step from the first profiled run.

    Empty if none.
    """
    profiled = (run.step_profile for run in runs if run.step_profile)
    return {name: seconds / MILLI for name, seconds in next(profiled, {}).items()}
