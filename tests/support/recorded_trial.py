"""A `Trial` whose epochs are kept in a list, outside of any grid."""

import time
from pathlib import Path

from raybench.core.ledger import Ledger
from raybench.devices import Assignment, open_device
from raybench.engines.loop_facts import open_loop
from raybench.training.clock import TrainingClock
from raybench.training.trial import Recorder, Trial, TrialOptions


class Kept(Recorder):
    """Keeps what a trial reports.

    Args:
        done: epochs of an earlier attempt.
    """

    def __init__(self, done=0):
        self.done, self.epochs, self.warnings, self.later, self.more = done, [], [], {}, []

    def begin(self, state):
        return self.done

    def epoch_ended(self, fields, more):
        self.epochs.append(fields)
        self.more.append(more)

    def logged_later(self, metrics):
        self.later |= metrics

    def warn(self, message):
        self.warnings.append(message)

    def told(self):
        """What it has kept, as plain values."""
        return {"epochs": self.epochs, "more": self.more, "warnings": self.warnings, "later": self.later}


def make_trial(epochs=3, framework="none", done=0, device=None, **options):
    kept, ledger = Kept(done), Ledger(clock=lambda: time.perf_counter_ns())
    device = device or open_device("cpu", framework, Assignment([0], (), 1))
    clock = TrainingClock(ledger, device, open_loop(framework, device))
    given = {"data_dir": Path("data"), "output_dir": Path("output"), **options}
    return Trial(TrialOptions(epochs, **given), kept, lambda: clock), kept, ledger
