"""Runs of events that are not in files."""

from raybench.results.attempt_file import key_of, take
from raybench.results.run_table import Run


def attempts(events):
    """The attempts of events, by trial and number, in the order of their first event."""
    found = {}
    for event in events:
        if key := key_of(event):
            take(found.setdefault(key, Run(trial=key[0], attempt=key[1])), event)
    return found
