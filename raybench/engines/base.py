"""What every engine is given and what it does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from raybench.core.job import Recipe
from raybench.core.ledger import Ledger
from raybench.core.rank import Rank, current_rank
from raybench.datasets.splits import Array, Data
from raybench.devices.base import Device
from raybench.workloads.base import Workload


@dataclass(frozen=True)
class EngineParts:
    """What an engine works with.

    Attributes:
        recipe: the cell's.
        device: open.
        ledger: the trial's.
        rank: this process's place among those that train the model together.
    """

    recipe: Recipe
    workload: Workload
    device: Device
    ledger: Ledger
    seed: int
    rank: Rank = field(default_factory=current_rank)


def check_per_example(values: Mapping[str, Any], examples: int) -> None:
    """Look at what a person's own loss and metrics have returned, by name.

    Raises:
        ValueError: one of them is not of the shape [examples].
    """
    for name, value in values.items():
        if tuple(value.shape) != (examples,):
            raise ValueError(f"{name} has the shape {list(value.shape)}: return one number an example, [{examples}]")


@dataclass(frozen=True)
class EpochResult:
    """What one epoch of training came to.

    `metrics` has means over the examples trained on, without a prefix ("loss", "accuracy"). `new_shapes` counts the
    compilations, as the framework tells them: graphs of torch.compile and of XLA, traces of TensorFlow; PyTorch without
    a compiler tells none, and tensor shapes that were new in this epoch are counted. `step_s` has mean seconds of a
    step in consecutive blocks (`raybench.engines.step_timer.StepTimer.blocks`); empty if steps are not timed.
    """

    steps: int
    examples: int
    metrics: Mapping[str, float]
    new_shapes: int
    step_s: Sequence[float] = ()


class Engine(Protocol):
    """One training loop. Calls come in this order; each charges its time to the ledger it was given."""

    def load(self, data: Data) -> None:
        """Prepare the data and, for `input: device`, move them there."""

    def build(self) -> None:
        """The model and the optimiser, on the device."""

    @property
    def model(self) -> Any:
        """The framework's model that is trained, once it is built."""

    def precision(self) -> dict[str, str]:
        """The types of the model's weights and of what it computes in, as the framework tells them once it is built."""

    def train_epoch(self, epoch: int) -> EpochResult:
        """One epoch (from 1); synchronised at its end."""

    def state(self) -> Mapping[str, Array]:
        """Between two epochs: all that the next depends on and that does not follow from the recipe and the seed.

        That is the model, what the optimiser keeps, and the state of what draws random numbers in the model.
        """

    def restore(self, state: Mapping[str, Array], epochs: int) -> None:
        """Once it is built and before it has trained: go on as the engine that gave this state after so many epochs.

        Raises:
            ValueError: it is not the state of such a model; nothing was changed.
        """

    def settle(self) -> None:
        """Copy a value that the last training step has changed to the host, and wait for it.

        After an epoch and its `synchronize` there is nothing left to wait for, however the device works; a clock that
        read off the queue instead shows here.
        """

    evaluation_batch: int
    """Examples in one batch of the next evaluation, once the data are loaded; it may be made smaller."""

    def evaluate(self) -> tuple[Mapping[str, float], int]:
        """Means over the whole validation set, every example counted once; and the number of new shapes."""


class ProfilingEngine(Engine, Protocol):
    """An engine that can time the sections of a training step (`raybench.engines.ONE_GRAPH` has those that cannot)."""

    def profile(self, steps: int) -> Mapping[str, float]:
        """Take further steps once training and evaluation are over, and time their sections.

        Returns:
            Seconds of each of `raybench.core.ledger.STEP_SECTIONS`, the median over the steps, with the device
            synchronised at every boundary.
        """
