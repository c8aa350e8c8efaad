"""Where the time of a training step goes, by section, of cells that were profiled (`profile_steps`)."""

from __future__ import annotations

from collections.abc import Iterable

from raybench.results.attempt import Attempt

MILLI = 1e-3


def step_profile(runs: Iterable[Attempt]) -> dict[str, float]:
    """Milliseconds of each section of a step, of the run that was profiled; empty if none was."""
    profiled = (run.step_profile for run in runs if run.step_profile)
    return {name: seconds / MILLI for name, seconds in next(profiled, {}).items()}
