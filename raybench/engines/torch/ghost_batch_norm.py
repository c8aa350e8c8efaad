"""Ghost batch norm: the batch statistics of n replicas, computed on one device."""

from __future__ import annotations

from typing import cast

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm


def use_ghost_batch_norm(model: nn.Module, groups: int) -> nn.Module:
    """Give each batch norm of a model separate statistics for each group of the batch, in place.

    Group r of a batch of B has the examples r·B/groups to (r + 1)·B/groups − 1: the slice of replica r under real
    replication. Parameters, buffers and their names stay; with one group the model is unchanged.

    Raises:
        TypeError: a batch norm with a forward of its own.
    """
    for module in model.modules() if groups > 1 else ():
        if not isinstance(module, _BatchNorm):
            continue
        kind = type(module)
        if kind.forward is not _BatchNorm.forward:
            raise TypeError(f"{kind.__name__} has a forward of its own: its statistics cannot be grouped")
        module.__class__ = type(f"Ghost{kind.__name__}", (GhostBatchNorm, kind), {})
        cast(GhostBatchNorm, module).groups = groups
    return model


class GhostBatchNorm(_BatchNorm):
    """Batch norm with the mean and variance of each group of examples.

    The running statistics are the mean over the groups of what each alone would make of them, which equals an average
    over real replicas. Evaluation is that of plain batch norm.
    """

    groups: int

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Normalize [batch, features, …] to the same shape.

        Raises:
            ValueError: in training, a batch that is not divisible by the groups, or one value in each.
        """
        if not self.training:
            return super().forward(inputs)
        self._check_input_dim(inputs)  # type: ignore[no-untyped-call]
        if len(inputs) % self.groups:
            raise ValueError(f"a batch of {len(inputs)} does not divide into {self.groups} replicas")
        shape = [1, 1, self.num_features, *[1] * (inputs.ndim - 2)]
        with torch.autocast(inputs.device.type, enabled=False):
            # Statistics of 16-bit activations are float32, as in torch's own batch norm.
            # One computation: of parts one after another, XLA would exchange examples between devices.
            values = inputs.reshape(self.groups, -1, *inputs.shape[1:])
            values = values.to(torch.promote_types(inputs.dtype, torch.float32))
            count = values[0, :, 0].numel()
            if count < 2:
                raise ValueError(f"batch norm needs more than one value per channel in each of {self.groups} replicas")
            var, mean = torch.var_mean(values, (1, *range(3, values.ndim)), correction=0, keepdim=True)
            outputs: torch.Tensor = (values - mean) * (var + self.eps).rsqrt()
            if self.affine:
                outputs = outputs * self.weight.view(shape) + self.bias.view(shape)
            self._update(mean.flatten(1).mean(0), var.flatten(1).mean(0) * (count / (count - 1)))
        return outputs.flatten(0, 1).to(inputs.dtype)

    @torch.no_grad()
    def _update(self, mean: torch.Tensor, unbiased_var: torch.Tensor) -> None:
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return
        self.num_batches_tracked.add_(1)
        momentum = 1.0 / self.num_batches_tracked.to(mean.dtype) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), momentum)
        self.running_var.lerp_(unbiased_var.to(self.running_var.dtype), momentum)
