"""Runs of events that are not in files."""

from pathlib import Path

from raybench.results.history import GridHistory


def attempts(events):
    """The attempts of events, by trial and number, in the order of their first event."""
    history = GridHistory(Path())
    for event in events:
        history.take(event)
    return history.attempts
