"""The step profile: additional training steps after a complete trial, timed by section."""

from __future__ import annotations

import json
from pathlib import Path

from raybench.core.events import Event
from raybench.core.job import Job
from raybench.engines.base import ProfilingEngine

END = "end.json"
"""File of a trial's end event during the profile, in case the process dies."""


def profile(engine: ProfilingEngine, steps: int, end_event: Event, folder: Path) -> Event:
    """Time additional training steps, and add the times to the trial's end event.

    If profiling fails, a warning is added instead.

    Args:
        engine: trained; its model is changed.
        end_event: the trial's `trial_ended`, complete.
        folder: the attempt's.
    """
    path = folder / END
    try:
        path.write_text(json.dumps(end_event), encoding="utf-8")
        return end_event | {"step_profile": {"steps": steps, "seconds": dict(engine.profile(steps))}}
    except Exception as error:
        return without_profile(end_event, f"{type(error).__name__}: {error}")
    finally:
        path.unlink(missing_ok=True)


def without_profile(end_event: Event, reason: str) -> Event:
    """Add a warning with the reason for a missing step profile."""
    return end_event | {"warnings": [*end_event["warnings"], f"no step profile: {reason}"]}


def kept_end(job: Job) -> Event | None:
    """Read the end event of a trial whose process ended during its profile.

    Returns:
        None for any other trial.
    """
    try:
        end_event: Event = json.loads((Path(job.folder) / END).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return end_event
