"""Weights and outputs of a PyTorch model as NumPy arrays.

The TensorFlow engine has a module of the same name with the same functions. Weights are in the form of
`raybench.engines.weights`; images are float32 [N, height, width, channels], normalized.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import nn
from torch.nn.modules.dropout import _DropoutNd

from raybench.datasets.splits import Array
from raybench.engines.weights import Weights, renamed, role


def _on_host(tensors: Mapping[str, torch.Tensor]) -> dict[str, Array]:
    """Copies of float tensors in one transfer; several would be several graphs under XLA."""
    flat = torch.cat([tensor.detach().reshape(-1).to(torch.float32) for tensor in tensors.values()]).cpu().numpy()
    ends = np.cumsum([tensor.numel() for tensor in tensors.values()])
    parts = np.split(flat, ends[:-1])
    return {
        name: part.reshape(tensor.shape).copy() for (name, tensor), part in zip(tensors.items(), parts, strict=True)
    }


def _floats(model: nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and statistics, except an RNN's second bias, frozen at zero: other frameworks have one bias."""
    frozen = {name for name, parameter in model.named_parameters() if not parameter.requires_grad}
    return {
        name: tensor
        for name, tensor in model.state_dict().items()
        if tensor.is_floating_point() and not (name in frozen and role(name).startswith("bias_hh"))
    }


def read_weights(model: nn.Module) -> dict[str, Array]:
    """Every parameter and every running statistic, as float32."""
    return _on_host(_floats(model))


def write_weights(model: nn.Module, weights: Weights) -> None:
    """Set every parameter and running statistic, in the model's device and memory format.

    Raises:
        Mismatch: the weights are those of a different model.
    """
    tensors = _floats(model)
    template = {name: np.empty(tensor.shape, np.float32) for name, tensor in tensors.items()}
    with torch.no_grad():
        for name, array in renamed(weights, template).items():
            tensors[name].copy_(torch.from_numpy(np.array(array)))


def without_dropout(model: nn.Module) -> None:
    """Disable every dropout layer, and the dropout between the layers of an RNN, permanently."""
    for module in model.modules():
        if isinstance(module, _DropoutNd):
            module.p = 0.0
        elif isinstance(module, nn.RNNBase):
            module.dropout = 0.0


def parameter_count(model: nn.Module) -> int:
    """Number of trained values."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def _tensor(model: nn.Module, values: Array) -> torch.Tensor:
    """Move an array to the model's device."""
    tensor = torch.from_numpy(np.ascontiguousarray(values))
    parameter = next(model.parameters())
    return tensor.to(parameter.device, parameter.dtype if tensor.is_floating_point() else None)


def outputs(model: nn.Module, inputs: Array) -> Array:
    """Outputs of the model for a batch, in evaluation mode: float32."""
    with torch.no_grad():
        result: torch.Tensor = model.eval()(_tensor(model, inputs))
    return np.array(result.float().cpu().numpy())


def smallest() -> nn.Module:
    """The smallest model with all kinds of optimized tensors, a matrix and a vector: [batch, 2] to [batch, 4]."""
    return nn.Linear(2, 4)
