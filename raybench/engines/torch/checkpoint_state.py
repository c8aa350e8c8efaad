"""Conversion of PyTorch's training state to named arrays and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from raybench.datasets.splits import Array

RandomStates = Mapping[str, tuple[Callable[[], torch.Tensor], Callable[[torch.Tensor], object]]]
"""Random generators of a model, such as for dropout: by name, the functions that read and set the state."""


def random_states(device: torch.device) -> RandomStates:
    """The host's generator, and the device's own if it has one."""
    accessors: dict[str, Any] = {"host": (torch.get_rng_state, torch.set_rng_state)}
    module = torch.get_device_module(device)
    if hasattr(module, "get_rng_state"):
        accessors["device"] = (module.get_rng_state, module.set_rng_state)
    return accessors


def as_array(tensor: torch.Tensor) -> Array:
    """Convert a tensor to a host array; NumPy has no bfloat16, so its bits are stored as int16."""
    host = tensor.detach().cpu()
    return np.asarray((host.view(torch.int16) if host.dtype == torch.bfloat16 else host).numpy())


def as_tensor(array: Array, dtype: torch.dtype) -> torch.Tensor:
    """Convert an array from `as_array` back to a tensor of its type."""
    tensor = torch.from_numpy(array)
    return tensor.view(dtype) if dtype == torch.bfloat16 and tensor.dtype == torch.int16 else tensor


def read_state(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler, random: RandomStates
) -> dict[str, Array]:
    """Read the training state as arrays by name.

    It has every parameter and buffer, the optimiser's state of each parameter by index, and the rest by name.
    """
    arrays = {f"model/{name}": as_array(tensor) for name, tensor in _tensors(model).items()}
    for index, parameter in enumerate(_trained(optimizer)):
        slots = optimizer.state.get(parameter, {})
        arrays |= {f"optimizer/{index}/{name}": as_array(value) for name, value in slots.items() if value is not None}
    arrays |= {f"scaler/{name}": np.array(value) for name, value in scaler.state_dict().items()}
    return arrays | {f"random/{name}": as_array(getter()) for name, (getter, _) in random.items()}


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
    tensors, parameters = _tensors(model), _trained(optimizer)
    shapes = {name.removeprefix("model/"): array.shape for name, array in state.items() if name.startswith("model/")}
    if shapes != {name: tuple(tensor.shape) for name, tensor in tensors.items()}:
        raise ValueError("it belongs to a model of a different shape")
    slots: dict[int, dict[str, torch.Tensor]] = {}
    others = {f"scaler/{name}" for name in scaler.state_dict()} | {f"random/{name}" for name in random}
    for path, array in state.items():
        part, *names = path.split("/")
        if part == "optimizer" and len(names) == 2 and names[0].isdecimal() and int(names[0]) < len(parameters):
            slots.setdefault(int(names[0]), {})[names[1]] = _slot(array, parameters[int(names[0])])
        elif part != "model" and path not in others:
            raise ValueError(f"it has {path}: it was made on a different device, in a different precision or optimizer")
    if missing := others - state.keys():
        raise ValueError(f"it lacks {min(missing)}: it was made on a different device or in a different precision")
    with torch.no_grad():
        for name, tensor in tensors.items():
            tensor.copy_(as_tensor(state[f"model/{name}"], tensor.dtype))
    optimizer.load_state_dict({**optimizer.state_dict(), "state": slots})
    scaler.load_state_dict({name: state[f"scaler/{name}"].item() for name in scaler.state_dict()})


def write_random_states(state: Mapping[str, Array], random: RandomStates) -> None:
    """Restore the states of the random generators.

    Must be the last step of a restore, because work on a device may advance them.
    """
    for name, (_, setter) in random.items():
        setter(torch.from_numpy(state[f"random/{name}"]))


def _tensors(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def _trained(optimizer: torch.optim.Optimizer) -> list[torch.nn.Parameter]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _slot(array: Array, parameter: torch.nn.Parameter) -> torch.Tensor:
    """An optimiser's state tensor of a parameter, on the host, in the parameter's memory format if it has its shape."""
    tensor = as_tensor(array, parameter.dtype)
    if tensor.shape != parameter.shape:
        return tensor
    return torch.empty_like(parameter, device="cpu", dtype=tensor.dtype, requires_grad=False).copy_(tensor)
