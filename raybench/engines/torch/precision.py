"""Number formats below float32, and conversion of a model to one of them."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

LOW_PRECISION = {"bf16": torch.bfloat16, "fp16": torch.float16}


def lower_precision(model: nn.Module, dtype: torch.dtype | None) -> None:
    """Convert a model's weights to a lower precision, in place; None changes nothing.

    Batch norms stay in float32, statistics included: torch computes them so for inputs of any type.
    """
    if dtype is None:
        return
    model.to(dtype)
    for module in model.modules():
        if isinstance(module, _BatchNorm):
            module.float()
