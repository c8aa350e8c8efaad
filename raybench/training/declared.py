"""The training function of a declared workload: an engine's steps in a loop that reports to a `Trial`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path

from raybench.core.ledger import NANO, Ledger
from raybench.datasets.splits import Data
from raybench.engines import open_engine
from raybench.engines.base import EngineParts
from raybench.training.clock import TrainingClock
from raybench.training.trial import Recorder, Trial, TrialOptions


class DeclaredTraining:
    """The training of a declared workload.

    Attributes:
        engine: of the framework.
    """

    def __init__(self, trial: Trial, framework: str, parts: EngineParts) -> None:
        self.trial, self._loop = trial, parts.loop
        self._unit = parts.workload.unit
        self._loop.close()  # the optimizer need not be observed: its settings are the grid's
        self.engine = open_engine(framework, parts)
        self._has_evaluated = False

    @classmethod
    def alone(cls, framework: str, parts: EngineParts) -> DeclaredTraining:
        """A training that nothing records, for a check or a benchmark; its epochs are those of the recipe."""
        clock = TrainingClock(Ledger(), parts.device, parts.loop)
        options = TrialOptions(parts.recipe.epochs, Path(), Path())
        return cls(Trial(options, Recorder(), lambda: clock), framework, parts)

    def run(self, load: Callable[[], Data]) -> None:
        """Build the model, and train and evaluate all epochs."""
        self.build(load)
        for _ in self.trial.epochs():
            try:
                self.train_epoch()
                self.evaluate()
            except BaseException:
                self.trial.abandon()  # an epoch without its evaluation does not count
                raise

    def build(self, load: Callable[[], Data]) -> None:
        """Load the data and build the model."""
        with self.trial.section("data"):
            data = load()
            self._units = data.train.inputs[0].size if self._unit else 0
            self.engine.load(data)
        self.engine.build()
        self.trial.checkpoint(self.engine.save, self.engine.restore)

    def train_epoch(self) -> Mapping[str, float]:
        """Train an epoch; log and return its means over the examples."""
        trial, engine = self.trial, self.engine
        for batch in trial.steps(engine.begin_epoch(), examples=engine.batch_size // trial.world_size):
            engine.train_step(batch)
        means = engine.train_means()
        assert trial._epoch
        if self._unit:
            trial.count(**{self._unit: trial._epoch.examples * self._units})
        trial.log({f"train/{name}": value for name, value in means.items()})
        with trial._clock.section("other"):
            start_ns = time.perf_counter_ns()
            engine.settle()
            settle_s = round((time.perf_counter_ns() - start_ns) * NANO, 9)
        trial._epoch.facts["settle_s"] = {"train": settle_s}
        return means

    def evaluate(self) -> Mapping[str, float]:
        """Evaluate the whole validation set; log and return its means.

        Before the first time, the first batch alone is evaluated as `compile_evaluate`: once, or as often as it takes
        until CUDA graphs are captured.
        """
        clock, engine = self.trial._clock, self.engine
        with clock.section("other"):
            if not self._has_evaluated and not self._loop.counts_compilation:
                with clock.section("compile_evaluate"):
                    for _ in range(1 + self._loop.settling):
                        for first in islice(engine.validation(), 1):
                            engine.evaluation_step(first)
            self._has_evaluated = True
            with clock.section("evaluate"):
                for values in engine.validation():
                    engine.evaluation_step(values)
                means = engine.evaluation_means()
        self.trial.log({f"val/{name}": value for name, value in means.items()})
        return means
