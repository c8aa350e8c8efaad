"""The engine interface."""

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
    """The inputs of an engine.

    Attributes:
        recipe: the cell's.
        device: open.
        ledger: the trial's.
        rank: the rank of this process among those that train the model together.
    """

    recipe: Recipe
    workload: Workload
    device: Device
    ledger: Ledger
    seed: int
    rank: Rank = field(default_factory=current_rank)


def check_per_example(values: Mapping[str, Any], examples: int) -> None:
    """Check the results of the user's own loss and metrics, by name.

    Raises:
        ValueError: one of them does not have the shape [examples].
    """
    for name, value in values.items():
        if tuple(value.shape) != (examples,):
            raise ValueError(f"{name} has the shape {list(value.shape)}: return one number an example, [{examples}]")


@dataclass(frozen=True)
class EpochResult:
    """The results of one training epoch.

    `metrics` has means over the trained examples, without a prefix ("loss", "accuracy"). `new_shapes` counts the
    compilations that the framework reports: graphs of torch.compile and of XLA, traces of TensorFlow; PyTorch without a
    compiler reports none, so tensor shapes that were new in this epoch are counted. `step_s` has mean seconds of a step
    in consecutive blocks (`raybench.engines.step_timer.StepTimer.blocks`); empty if steps are not timed.
    `peak_known` is false if the memory of every training step so far is left out of the device's peak.
    """

    steps: int
    examples: int
    metrics: Mapping[str, float]
    new_shapes: int
    step_s: Sequence[float] = ()
    peak_known: bool = True


class Engine(Protocol):
    """One training loop, with calls in the order below.

    Each call charges its time to the given ledger.
    """

    def load(self, data: Data) -> None:
        """Prepare the data and, for `input: device`, move them there."""

    def build(self) -> None:
        """Build the model and the optimiser on the device."""

    @property
    def model(self) -> Any:
        """The framework's model, once it is built."""

    def precision(self) -> dict[str, str]:
        """Data types of the weights and of the computation, as reported by the framework.

        Available once the model is built.
        """

    def train_epoch(self, epoch: int) -> EpochResult:
        """Train one epoch (from 1); synchronised at its end."""

    def state(self) -> Mapping[str, Array]:
        """The training state between two epochs.

        It contains everything that the next epoch depends on and that does not follow from the recipe and the seed: the
        model, the optimiser's state, and the states of random generators in the model.
        """

    def restore(self, state: Mapping[str, Array], epochs: int) -> None:
        """Restore the state of an engine after a number of epochs.

        Called after `build` and before training.

        Raises:
            ValueError: it is not the state of such a model; nothing was changed.
        """

    def settle(self) -> None:
        """Copy a value changed by the last training step to the host.

        The call waits for the copy.

        After an epoch and its `synchronize` this takes no time on a correct device adapter; a large value reveals that
        a clock measured only the queue.
        """

    evaluation_batch: int
    """Examples per batch of the next evaluation; may be reduced.

    Set once the data are loaded."""

    def evaluate(self) -> tuple[Mapping[str, float], int]:
        """Means over the whole validation set, and the number of new shapes.

        Every example is counted once.
        """
