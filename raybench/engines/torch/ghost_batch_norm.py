"""Ghost batch norm: the batch statistics of n replicas, computed on one device."""

from __future__ import annotations

from typing import Any, cast

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
        """Normalise [batch, features, …] to the same shape.

        Raises:
            ValueError: in training, a batch that is not divisible by the groups, or one value in each.
        """
        if not self.training:
            return super().forward(inputs)
        self._check_input_dim(inputs)  # type: ignore[no-untyped-call]
        if len(inputs) % self.groups:
            raise ValueError(f"a batch of {len(inputs)} does not divide into {self.groups} replicas")
        momentum = self.momentum
        running = list[torch.Tensor]()
        if self.running_mean is not None and self.running_var is not None and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            momentum = 1.0 / float(self.num_batches_tracked) if momentum is None else momentum
            running = [self.running_mean, self.running_var]
        copies = [[statistic.clone() for _ in range(self.groups)] for statistic in running]
        means, variances = copies or cast(Any, [[None] * self.groups] * 2)
        outputs = [
            nn.functional.batch_norm(part, mean, var, self.weight, self.bias, True, momentum or 0.0, self.eps)
            for part, mean, var in zip(inputs.chunk(self.groups), means, variances, strict=True)
        ]
        for statistic, of_groups in zip(running, copies, strict=False):
            statistic.copy_(torch.stack(of_groups).mean(0))
        return torch.cat(outputs)
