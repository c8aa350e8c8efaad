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
    Lists and tensors become arrays.

    Raises:
        TypeError: one of them is no array and cannot be made one.
        ValueError: the two disagree on the number of examples, or there are none.
    """

    inputs: Array
    targets: Array

    def __post_init__(self) -> None:
        for name in ("inputs", "targets"):
            object.__setattr__(self, name, _array(name, getattr(self, name)))
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
    """What a trial trains on and what it is judged by.

    Raises:
        TypeError: one of the two is no `Split`.
    """

    train: Split
    val: Split

    def __post_init__(self) -> None:
        for name in ("train", "val"):
            split = getattr(self, name)
            if not isinstance(split, Split):
                raise TypeError(f"Data({name}=…) takes a raybench.Split of inputs and targets, not a {_name(split)}")


def _array(name: str, value: Any) -> Array:
    """A value as an array; one generated as it is read (`raybench.datasets.synthetic_scenes`) stays as it is."""
    import numpy as np

    if isinstance(value, np.ndarray) or _is_lazy(value):
        array: Array = value
    elif hasattr(value, "__array__") or isinstance(value, (list, tuple)):
        try:
            array = np.asarray(value)
        except (TypeError, ValueError, RuntimeError) as error:
            raise TypeError(f"Split({name}=…) cannot be made an array: {error}") from error
    else:
        raise TypeError(f"Split({name}=…) takes an array with the examples along its first axis, not a {_name(value)}")
    if array.dtype.kind not in "biuf" or not array.shape:
        raise TypeError(f"Split({name}=…) takes an array of numbers, not one of shape {array.shape} and {array.dtype}")
    return array


def _is_lazy(value: Any) -> bool:
    """Whether it is of raybench's own, such as scenes that are made as they are read."""
    return type(value).__module__.startswith("raybench.")


def _name(value: Any) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__.split('.')[0]} {kind.__name__}"


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
