"""The training of a declared workload without a trial's process, for the tests of engines."""

import math
from pathlib import Path

from raybench.core.job import Recipe
from raybench.core.ledger import Ledger
from raybench.core.rank import Rank
from raybench.engines.base import EngineParts
from raybench.engines.loop_facts import open_loop
from raybench.training.clock import TrainingClock
from raybench.training.declared import DeclaredTraining
from raybench.training.trial import Trial, TrialOptions
from support.recorded_trial import Kept
from support.small_training import RECIPE


class Training(DeclaredTraining):
    """A training with the recipe of all small ones, unless a test sets something else."""

    def __init__(self, framework, workload, data, device, seed=3, rank=None, **settings):
        recipe, rank, loop = Recipe(**(RECIPE | settings)), rank or Rank(), open_loop(framework, device)
        self.ledger, self.recorded = Ledger(), Kept()
        clock = TrainingClock(self.ledger, device, loop)
        options = TrialOptions(math.ceil(recipe.epochs), Path(), Path(), world_size=rank.count)
        parts = EngineParts(recipe, workload, device, loop, seed, rank)
        super().__init__(Trial(options, self.recorded, lambda: clock), framework, parts)
        self.build(lambda: data)

    @property
    def model(self):
        return self.engine.model

    def epochs(self, evaluates=True):
        """The fields of every epoch."""
        for _ in self.trial.epochs():
            self.train_epoch()
            if evaluates:
                self.evaluate()
        return self.recorded.epochs

    def losses(self):
        """The mean loss of every epoch of training."""
        return [epoch["metrics"]["train/loss"] for epoch in self.epochs(evaluates=False)]


def part(metrics, split):
    """The metrics of a split, without its name."""
    return {name.partition("/")[2]: value for name, value in metrics.items() if name.startswith(f"{split}/")}
