"""Attempts of events that are not in files."""

from raybench.results.attempt import Attempt, key_of


def attempts(events):
    """The attempts of events, by trial and number, in the order of their first event."""
    found = {}
    for event in events:
        if key := key_of(event):
            found.setdefault(key, Attempt(*key)).take(event)
    return found
