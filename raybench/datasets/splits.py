"""Training and validation data as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy.typing as npt

Array: TypeAlias = "npt.NDArray[Any]"


@dataclass(frozen=True)
class Split:
    """The training or validation examples of a data set.

    `inputs` has the examples along its first axis. uint8 arrays of shape [N, height, width, channels] are images: the
    engine converts them to normalized floats in the framework's own layout. Other inputs reach the model unchanged
    (floats as float32, integers as int64). `targets` has one row per example; classes are integers of shape [N]. Lists
    and tensors become arrays.

    Raises:
        TypeError: one of them cannot be converted to an array.
        ValueError: the two have different numbers of examples, or there are none.
    """

    inputs: Array
    targets: Array

    def __post_init__(self) -> None:
        for name in ("inputs", "targets"):
            object.__setattr__(self, name, _array(name, getattr(self, name)))
        if len(self.inputs) != len(self.targets):
            raise ValueError(f"{len(self.inputs)} inputs but {len(self.targets)} targets; return one target per input")
        if len(self.inputs) == 0:
            raise ValueError("no examples")

    def __len__(self) -> int:
        return len(self.inputs)

    def first(self, n: int) -> Split:
        """The first `n` examples (a view)."""
        return Split(self.inputs[:n], self.targets[:n])


@dataclass(frozen=True)
class Data:
    """The training and validation data of a trial.

    Raises:
        TypeError: one of the two is not a `Split`.
    """

    train: Split
    val: Split

    def __post_init__(self) -> None:
        for name in ("train", "val"):
            split = getattr(self, name)
            if not isinstance(split, Split):
                raise TypeError(f"Data({name}=…) needs a raybench.Split of inputs and targets, not a {_name(split)}")


def _array(name: str, value: Any) -> Array:
    import numpy as np

    if isinstance(value, np.ndarray):
        array: Array = value
    elif hasattr(value, "__array__") or isinstance(value, (list, tuple)):
        try:
            array = np.asarray(value)
        except (TypeError, ValueError, RuntimeError) as error:
            raise TypeError(f"Split({name}=…) cannot be converted to an array: {error}") from error
    else:
        raise TypeError(f"Split({name}=…) needs an array with the examples along its first axis, not a {_name(value)}")
    if array.dtype.kind not in "biuf" or not array.shape:
        raise TypeError(
            f"Split({name}=…) needs an array of numbers, not one of shape {array.shape} and type {array.dtype}"
        )
    return array


def _name(value: Any) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__.split('.')[0]} {kind.__name__}"


def hold_out(train: Split, n: int) -> Data:
    """Use the last `n` examples of a training set as the validation set.

    Raises:
        ValueError: one of the two splits would be empty.
    """
    cut = len(train) - n
    if not 0 < cut < len(train):
        raise ValueError(f"cannot hold out {n} of {len(train)} examples; use a smaller held_out")
    return Data(
        Split(train.inputs[:cut], train.targets[:cut]),
        Split(train.inputs[cut:], train.targets[cut:]),
    )
