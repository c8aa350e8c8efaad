"""The number formats below float32, and a model that is kept in one of them."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

LOW_PRECISION = {"bf16": torch.bfloat16, "fp16": torch.float16}


def lower_precision(model: nn.Module, dtype: torch.dtype | None) -> None:
    """Keep a model's weights in a lower precision, in place; None leaves them as they are.

    Batch norms stay in float32, statistics and all: torch computes them so, whatever the type of what they normalise.
    """
    if dtype is None:
        return
    model.to(dtype)
    for module in model.modules():
        if isinstance(module, _BatchNorm):
            module.float()
