"""Keras's defaults in PyTorch, for models published in Keras."""

from __future__ import annotations

import torch
from torch import nn


def batch_norm(features: int) -> nn.BatchNorm2d:
    """Keras's batch norm of [N, features, height, width]: eps 1e-3, momentum .99, which is .01 in torch."""
    return nn.BatchNorm2d(features, eps=1e-3, momentum=0.01)


def batch_norm_1d(features: int) -> nn.BatchNorm1d:
    """Keras's batch norm of [N, features]."""
    return nn.BatchNorm1d(features, eps=1e-3, momentum=0.01)


def initialize(model: nn.Module) -> nn.Module:
    """Initialize weights in place as Keras does, and return the model.

    Convolutions and dense layers have Glorot-uniform kernels and zero biases, embeddings are uniform within .05. An
    LSTM has Glorot-uniform and orthogonal kernels and a bias of 1 at its forget gate. Keras's LSTM has one bias and
    torch's has two that are added: the second is frozen at zero here.
    """
    for module in model.modules():
        if isinstance(module, (nn.Conv1d, nn.Conv2d, nn.Linear)):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.uniform_(module.weight, -0.05, 0.05)
        elif isinstance(module, nn.LSTM):
            for name, parameter in module.named_parameters():
                _initialize_lstm(name, parameter, module.hidden_size)
    return model


@torch.no_grad()
def _initialize_lstm(name: str, parameter: nn.Parameter, width: int) -> None:
    if name.startswith("weight_ih"):
        nn.init.xavier_uniform_(parameter)
    elif name.startswith("weight_hh"):
        nn.init.orthogonal_(parameter)
    else:
        parameter.zero_()
        if name.startswith("bias_ih"):
            parameter[width : 2 * width] = 1.0  # gates: input, forget, cell, output
        else:
            parameter.requires_grad_(False)
