"""The trial of this process, for scripts and libraries that are not given one."""

from __future__ import annotations

from raybench.training.trial import Trial

_current: Trial | None = None


def set_current(trial: Trial | None) -> None:
    """Set the trial that `current_trial` returns in this process."""
    global _current
    _current = trial


def current_trial(*, epochs: float | None = None) -> Trial:
    """Return the trial that this process runs; outside of raybench, a local one that prints one line per epoch.

    Inside an epoch of a local trial, the same trial is returned, so that other modules can report to it too.

    Args:
        epochs: outside of raybench, the number of epochs, whatever the loop says; it always makes a new trial.
    """
    if _current is not None:
        return _current
    from raybench.training.local import local_trial, open_trial

    return (open_trial() if epochs is None else None) or local_trial(epochs)
