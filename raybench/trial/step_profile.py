"""The step profile: further training steps once a trial's result is complete, timed by section."""

from __future__ import annotations

import json
from pathlib import Path

from raybench.core.events import Event
from raybench.core.job import Job
from raybench.engines.base import ProfilingEngine

END = "end.json"
"""Where a trial's end is kept while it is profiled, so that a process that dies there loses nothing."""


def profile(engine: ProfilingEngine, steps: int, ended: Event, folder: Path) -> Event:
    """Time further training steps, and add the times to the trial's end.

    If profiling fails, a warning takes their place.

    Args:
        engine: trained; its model is changed.
        ended: the trial's `trial_ended`, complete.
        folder: the attempt's.
    """
    kept = folder / END
    try:
        kept.write_text(json.dumps(ended), encoding="utf-8")
        return ended | {"step_profile": {"steps": steps, "seconds": dict(engine.profile(steps))}}
    except Exception as error:
        return without_profile(ended, f"{type(error).__name__}: {error}")
    finally:
        kept.unlink(missing_ok=True)


def without_profile(ended: Event, reason: str) -> Event:
    """Add the reason why there is no step profile to a trial's end, as a warning."""
    return ended | {"warnings": [*ended["warnings"], f"no step profile: {reason}"]}


def kept_end(job: Job) -> Event | None:
    """Read the end of a trial whose process ended while it was profiled; None for any other trial."""
    try:
        ended: Event = json.loads((Path(job.folder) / END).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return ended
