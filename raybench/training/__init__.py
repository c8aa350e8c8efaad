"""The user's own training loop: `Trial`, and how its time is measured.

A trial of a declared workload runs an engine of raybench. A training function, or a script, runs its own loop and has a
`Trial` for what raybench has to know: when an epoch begins and ends, which batches are waited for, what is evaluation.
Outside of raybench the same code runs with a local `Trial` that prints a line per epoch.
"""

from raybench.training.current import current_trial
from raybench.training.trial import Trial

__all__ = ["Trial", "current_trial"]
