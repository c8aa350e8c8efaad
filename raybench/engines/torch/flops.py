"""FLOPs and memory traffic per example of a PyTorch model.

The TensorFlow engine has a module of the same name with the same function. The model is run on torch's `meta` device,
on which operations have shapes and no values: that takes milliseconds and no memory, for a model of any size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from raybench.datasets.splits import Array


class _Traffic(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Count of the values that operations read and write; views move none."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.values = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not func.is_view:
            self.values += sum(tensor.numel() for tensor in _tensors([args, kwargs or {}, result]))
        return result


def _tensors(tree: Any) -> Iterator[torch.Tensor]:
    if isinstance(tree, torch.Tensor):
        yield tree
    elif isinstance(tree, Mapping):
        yield from _tensors(list(tree.values()))
    elif isinstance(tree, (list, tuple)):
        for branch in tree:
            yield from _tensors(branch)


def count(model: nn.Module, example: Array) -> dict[str, int]:
    """Count one forward pass in evaluation mode; the model is unusable afterwards.

    Args:
        example: one model input, [1, …].

    Returns:
        Per example, `flops`, 2 × the multiply-accumulates of convolutions and matrix products, and `values`, the
        numbers that all operations read and write except the weights; and `parameters`, the number of trained values.

    Raises:
        Exception: any exception of the model on tensors without values, for example if it reads them.
    """
    parameter_count = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    model = model.to("meta").eval()
    (flops, values), (flops_of_two, values_of_two) = (_forward(model, np.repeat(example, n, axis=0)) for n in (1, 2))
    # Weights are read once for any number of examples, so they cancel.
    return {"flops": flops_of_two - flops, "values": values_of_two - values, "parameters": parameter_count}


def _forward(model: nn.Module, inputs: Array) -> tuple[int, int]:
    tensor = torch.from_numpy(inputs).to("meta")
    with torch.no_grad(), FlopCounterMode(display=False) as flops, _Traffic() as traffic:
        model(tensor)
    return flops.get_total_flops(), traffic.values
