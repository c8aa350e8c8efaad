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


def count(model: nn.Module, example: Array) -> dict[str, int | None]:
    """Count one forward pass and one training step in evaluation mode; the model is unusable afterwards.

    Args:
        example: one model input, [1, …].

    Returns:
        Per example, `flops`, 2 × the multiply-accumulates of convolutions and matrix products in a forward pass,
        `train_flops`, those in a forward and backward pass (None if the backward pass cannot be run without values),
        and `values`, the numbers that all operations read and write in a forward pass except the weights; and
        `parameters`, the number of trained values. Attention counts every pair of positions, also if it is causal.

    Raises:
        Exception: any exception of the model on tensors without values, for example if it reads them.
    """
    parameter_count = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    model = model.to("meta").eval()
    one, two = (_passes(model, torch.from_numpy(np.repeat(example, n, axis=0)).to("meta")) for n in (1, 2))
    # Weights are read once for any number of examples, so they cancel.
    forward, backward, values = (None if b is None or a is None else b - a for a, b in zip(one, two, strict=True))
    assert forward is not None
    # A backward pass has at most two products for each of the forward pass; more are recomputed activations.
    train = None if backward is None else forward + min(backward, 2 * forward)
    return {"flops": forward, "train_flops": train, "values": values, "parameters": parameter_count}


def _passes(model: nn.Module, inputs: torch.Tensor) -> tuple[int, int | None, int]:
    """FLOPs of a forward and of a backward pass, None if that fails, and values moved by the forward pass."""
    with FlopCounterMode(display=False) as forward, _Traffic() as traffic:
        outputs = model(inputs)
    try:
        with FlopCounterMode(display=False) as backward:
            sums = [tensor.sum() for tensor in _tensors(outputs) if tensor.requires_grad]
            torch.autograd.backward(sums)
    except Exception:
        return forward.get_total_flops(), None, traffic.values
    return forward.get_total_flops(), backward.get_total_flops(), traffic.values
