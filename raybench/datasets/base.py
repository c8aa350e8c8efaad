"""What a trial trains on: arrays in memory, split in two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy.typing as npt

Array: TypeAlias = "npt.NDArray[Any]"


@dataclass(frozen=True)
class Split:
    """One half of a data set.

    `inputs` has the examples along its first axis. uint8 arrays of shape [N, height, width, channels] are pictures:
    the engine turns them into normalised floats in the framework's own layout. Anything else reaches the model as it
    is (floats as float32, integers as int64). `targets` has one row an example; classes are integers of shape [N].

    Raises:
        ValueError: the two disagree on the number of examples, or there are none.
    """

    inputs: Array
    targets: Array

    def __post_init__(self) -> None:
        if len(self.inputs) != len(self.targets):
            raise ValueError(
                f"{len(self.inputs)} inputs and {len(self.targets)} targets: there must be as many of each"
            )
        if len(self.inputs) == 0:
            raise ValueError("no examples")

    def __len__(self) -> int:
        return len(self.inputs)

    def first(self, n: int) -> Split:
        """The first `n` examples (a view)."""
        return Split(self.inputs[:n], self.targets[:n])


@dataclass(frozen=True)
class Data:
    """What a trial trains on and what it is judged by."""

    train: Split
    val: Split


def hold_out(train: Split, n: int) -> Data:
    """Set the last `n` examples of a training set apart as the validation set.

    Raises:
        ValueError: nothing would be left on one side.
    """
    cut = len(train) - n
    if not 0 < cut < len(train):
        raise ValueError(f"cannot hold out {n} of {len(train)} examples")
    return Data(
        Split(train.inputs[:cut], train.targets[:cut]),
        Split(train.inputs[cut:], train.targets[cut:]),
    )
