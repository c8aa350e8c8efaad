"""The interface of an engine: what a declared workload does in a framework, in a step and around it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from raybench.core.job import Recipe
from raybench.core.rank import Rank, current_rank
from raybench.datasets.splits import Array, Data, Split
from raybench.devices.base import Device
from raybench.engines.batch_order import Augmentation, BatchSampler
from raybench.engines.images import is_images, reflect
from raybench.engines.learning_rate import schedule
from raybench.engines.loop_facts import LoopFacts
from raybench.workloads.base import Workload


@dataclass(frozen=True)
class EngineParts:
    """The inputs of an engine.

    Attributes:
        recipe: the cell's.
        device: open.
        loop: the facts of the framework for the clock, which the engine completes.
        rank: the rank of this process among those that train the model together.
    """

    recipe: Recipe
    workload: Workload
    device: Device
    loop: LoopFacts
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


class Engine(ABC):
    """The steps of one training, with calls in the order below.

    The caller measures their time: an engine has no clock.

    Attributes:
        batch_size: the examples of a training step.
        evaluation_batch: examples per batch of an evaluation, once the data are loaded.
        model: the framework's model, once it is built.
    """

    evaluation_batch: int
    model: Any

    def __init__(
        self,
        parts: EngineParts,
        cross_entropy: Callable[..., Any],
        accuracy: Callable[..., Mapping[str, Any]],
        models: str = "torch",
    ) -> None:
        recipe, workload = parts.recipe, parts.workload
        self._recipe, self._workload, self._loop, self._seed = recipe, workload, parts.loop, parts.seed
        self._rank, self.batch_size = parts.rank, recipe.batch_size
        self._loss = workload.loss_for(models) or cross_entropy
        smoothing = recipe.label_smoothing
        self._trained_loss = partial(cross_entropy, smoothing=smoothing) if smoothing else self._loss
        self._metrics: Callable[[Any, Any], Mapping[str, Any]] = workload.metrics_for(models) or accuracy
        self._step = self._first_step = 0

    def load(self, data: Data) -> None:
        """Prepare both splits, on the device or on the host.

        Raises:
            ValueError: augmentation of data that are not images, a batch that is larger than the training set, or fewer
                validation examples than ranks.
        """
        recipe = self._recipe
        augmentation = Augmentation.from_settings(recipe.augmentation)
        train, size = data.train, (0, 0)
        if is_images(train.inputs):
            size = (train.inputs.shape[1], train.inputs.shape[2])
            train = Split(reflect(train.inputs, augmentation.crop), train.targets)
        elif augmentation:
            raise ValueError("augmentation is for images: uint8 inputs of shape [N, height, width, channels]")
        steps, epochs = recipe.steps_per_epoch, recipe.epochs or 0
        self._order = BatchSampler(len(train), recipe.batch_size, steps, size, augmentation, self._seed, epochs)
        self._factor = schedule(recipe.schedule, self._order.steps, self._order.total)
        self._examples = len(data.val)
        self._open_input(train, data.val, size, augmentation)

    def _rate(self, step: int) -> float:
        return self._recipe.learning_rate * self._factor(step)

    def _go_on_after(self, epochs: int) -> None:
        self._step = epochs * self._order.steps
        self._order.skip(epochs)

    @property
    def _trained_examples(self) -> int:
        return (self._step - self._first_step) * self.batch_size

    @property
    def _epochs(self) -> int:
        return self._step // self._order.steps

    @abstractmethod
    def _open_input(self, train: Split, val: Split, size: tuple[int, int], augmentation: Augmentation) -> None:
        """Prepare both splits.

        Args:
            size: height and width of images; 0 if the inputs are none.
        """

    @abstractmethod
    def build(self) -> None:
        """Build the model and the optimizer on the device."""

    @abstractmethod
    def weights(self) -> list[Array]:
        """The trained values, each in the framework's layout."""

    @abstractmethod
    def set_weights(self, weights: Sequence[Array]) -> None:
        """Set the trained values in place, from arrays as those of `weights`."""

    @abstractmethod
    def save(self, path: Path) -> None:
        """Save the training state between two epochs to a file.

        It contains everything that the next epoch depends on and that does not follow from the recipe and the seed: the
        model, the optimizer's state, and the states of random generators in the model.
        """

    @abstractmethod
    def restore(self, path: Path) -> None:
        """Restore what `save` wrote, after `build` and before training.

        Raises:
            ValueError: it is not the state of such a model; nothing was changed.
        """

    @abstractmethod
    def begin_epoch(self) -> Iterable[Any]:
        """Draw the next epoch; return its batches, for `train_step`."""

    @abstractmethod
    def train_step(self, batch: Any) -> None:
        """Submit the work of the steps of a batch."""

    @abstractmethod
    def train_means(self) -> Mapping[str, float]:
        """Means over the examples of the epoch, without a prefix ("loss", "accuracy"); waits for the device."""

    @abstractmethod
    def settle(self) -> None:
        """Copy a value changed by the last training step to the host, and wait for the copy.

        After an epoch and the device's `synchronize` this takes no time on a correct device adapter; a large value
        reveals that a clock measured only the queue.
        """

    def communication(self) -> float | None:
        """The share of a step's time in which the ranks exchange gradients; None if it is not known.

        It trains a few more steps, some without exchange, so that it ends the use of the model.
        """
        return None

    @abstractmethod
    def validation(self) -> Iterator[Any]:
        """Begin an evaluation; return batches of the whole validation set, all of one shape, for `evaluation_step`."""

    @abstractmethod
    def evaluation_step(self, batch: Any) -> None:
        """Submit the evaluation of a batch, without its padding."""

    @abstractmethod
    def evaluation_means(self) -> Mapping[str, float]:
        """Means over the whole validation set, as of `train_means`; every example is counted once."""
