"""Conversion of PyTorch's training state to named arrays and back.

The state has the model, the optimiser, the gradient scaler and the random states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch

from raybench.datasets.splits import Array


@dataclass(frozen=True)
class RandomStates:
    """Random generators of a model, such as for dropout.

    By name, the functions that read and set the state.
    """

    of: Mapping[str, tuple[Callable[[], torch.Tensor], Callable[[torch.Tensor], object]]]

    @classmethod
    def on(cls, device: torch.device) -> RandomStates:
        """The host's generator, and the device's own if it has one."""
        accessors: dict[str, Any] = {"host": (torch.get_rng_state, torch.set_rng_state)}
        module = torch.get_device_module(device)
        if hasattr(module, "get_rng_state"):
            accessors["device"] = (module.get_rng_state, module.set_rng_state)
        return cls(accessors)

    def write(self, state: Mapping[str, Array]) -> None:
        """Restore the states that `read_state` has read.

        Must be the last step of a restore, because work on a device may advance them.
        """
        for name, (_, write) in self.of.items():
            write(torch.from_numpy(state[f"random/{name}"]))


def as_array(tensor: torch.Tensor) -> Array:
    """Convert a tensor to a host array.

    NumPy has no bfloat16, so its bits are stored as int16.
    """
    host = tensor.detach().cpu()
    return np.asarray((host.view(torch.int16) if host.dtype == torch.bfloat16 else host).numpy())


def as_tensor(array: Array, dtype: torch.dtype) -> torch.Tensor:
    """Convert an array from `as_array` back to a tensor of its type."""
    tensor = torch.from_numpy(array)
    return tensor.view(dtype) if dtype == torch.bfloat16 and tensor.dtype == torch.int16 else tensor


def read_state(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler,
    random: RandomStates,
) -> dict[str, Array]:
    """Read the training state as arrays by name.

    It has every parameter and buffer, the optimiser's state of each parameter by index, and the rest by name.
    """
    arrays = {f"model/{name}": as_array(tensor) for name, tensor in _of_model(model)}
    for index, parameter in enumerate(_trained(optimizer)):
        slots = optimizer.state.get(parameter, {})
        arrays |= {f"optimizer/{index}/{name}": as_array(value) for name, value in slots.items() if value is not None}
    arrays |= {f"scaler/{name}": np.array(value) for name, value in scaler.state_dict().items()}
    return arrays | {f"random/{name}": as_array(getter()) for name, (getter, _) in random.of.items()}


def write_state(
    state: Mapping[str, Array],
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler,
    random: RandomStates,
) -> None:
    """Restore the result of `read_state` in a new model and optimiser, except `random`.

    Raises:
        ValueError: it is not the state of such a model; nothing was changed.
    """
    parts: dict[str, dict[str, Array]] = {part: {} for part in ("model", "optimizer", "scaler", "random")}
    for path, array in state.items():
        part, _, name = path.partition("/")
        if part not in parts:
            raise ValueError(f"it has {path}, which no model in PyTorch has")
        parts[part][name] = array
    tensors, parameters = dict(_of_model(model)), _trained(optimizer)
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if shapes != {name: array.shape for name, array in parts["model"].items()}:
        raise ValueError("it belongs to a model of another shape")
    slots: dict[int, dict[str, torch.Tensor]] = {}
    for path, array in parts["optimizer"].items():
        number, _, name = path.partition("/")
        if not number.isdecimal() or int(number) >= len(parameters):
            raise ValueError("it belongs to another optimizer")
        slots.setdefault(int(number), {})[name] = _kept(array, parameters[int(number)])
    if parts["scaler"].keys() != scaler.state_dict().keys() or parts["random"].keys() != random.of.keys():
        raise ValueError("it was made on another device, or in another precision")
    with torch.no_grad():
        for name, tensor in tensors.items():
            tensor.copy_(as_tensor(parts["model"][name], tensor.dtype))
    optimizer.load_state_dict({**optimizer.state_dict(), "state": slots})
    if parts["scaler"]:
        scaler.load_state_dict({name: array.item() for name, array in parts["scaler"].items()})


def _of_model(model: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    return chain(model.named_parameters(), model.named_buffers())


def _trained(optimizer: torch.optim.Optimizer) -> list[torch.nn.Parameter]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _kept(array: Array, parameter: torch.nn.Parameter) -> torch.Tensor:
    """An optimiser's state tensor of a parameter, on the host.

    If it has the parameter's shape, it has its memory format, too.
    """
    tensor = as_tensor(array, parameter.dtype)
    if tensor.shape != parameter.shape:
        return tensor
    return torch.empty_like(parameter, device="cpu", dtype=tensor.dtype, requires_grad=False).copy_(tensor)
