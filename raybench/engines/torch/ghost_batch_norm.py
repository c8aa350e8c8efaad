"""Batch statistics in groups: what n replicas of a model do to batch norm, computed at once on one device."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

KERNEL_FROM = 1024
"""Values in a group of a channel from which torch's CPU kernel goes along the memory; below, it is ten times slower."""


def use_ghost_batch_norm(model: nn.Module, groups: int) -> nn.Module:
    """The model with each batch norm taking its statistics in `groups` contiguous groups of the batch.

    Group r of a batch of B are the examples r·B/groups to (r + 1)·B/groups − 1: the slice that replica r gets where
    there are real ones. Parameters, buffers and their names stay; with one group the model stays as it is.

    Raises:
        TypeError: a batch norm with a forward of its own, which cannot be replaced.
    """
    if groups == 1:
        return model
    replacements: dict[nn.Module, GhostBatchNorm] = {}
    for name, module in list(model.named_modules(remove_duplicate=False)):
        if not isinstance(module, _BatchNorm):
            continue
        if module not in replacements:
            replacements[module] = GhostBatchNorm(module, groups)
        if not name:
            return replacements[module]
        parent, _, child = name.rpartition(".")
        setattr(model.get_submodule(parent), child, replacements[module])
    return model


class GhostBatchNorm(_BatchNorm):
    """A batch norm that normalises each group of examples by the group's own mean and variance.

    The running statistics move by the mean over the groups of their means and unbiased variances: what averaging the
    buffers of real replicas comes to, since they move linearly. Evaluation is that of the batch norm it replaces.
    """

    def __init__(self, module: _BatchNorm, groups: int) -> None:
        if type(module).forward is not _BatchNorm.forward:
            raise TypeError(f"{type(module).__name__} has a forward of its own: its statistics cannot be grouped")
        super().__init__(
            module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats, device="meta"
        )
        self._replaced, self.groups = type(module), groups
        for name in ("weight", "bias"):
            self.register_parameter(name, getattr(module, name))
        for name in ("running_mean", "running_var", "num_batches_tracked"):
            self.register_buffer(name, getattr(module, name))
        self.train(module.training)

    def _check_input_dim(self, inputs: torch.Tensor) -> None:
        cast(Any, self._replaced)._check_input_dim(self, inputs)

    def extra_repr(self) -> str:
        """The batch norm's, and the number of groups."""
        return f"{super().extra_repr()}, groups={self.groups}"  # type: ignore[no-untyped-call]

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """[batch, features, …] to the same.

        Raises:
            ValueError: in training, a batch that does not divide into the groups, or one value in each.
        """
        if not self.training:
            return super().forward(inputs)
        self._check_input_dim(inputs)
        if len(inputs) % self.groups:
            raise ValueError(f"a batch of {len(inputs)} does not divide into {self.groups} replicas")
        count = inputs.numel() // (self.groups * self.num_features)
        if count < 2:
            raise ValueError(f"batch norm needs more than one value per channel in each of {self.groups} replicas")
        outputs, mean, var = normalise(inputs, self.weight, self.bias, self.groups, self.eps)
        if self.running_mean is not None and self.running_var is not None and self.num_batches_tracked is not None:
            with torch.no_grad():
                self.num_batches_tracked.add_(1)
                factor = 1.0 / self.num_batches_tracked.to(mean.dtype) if self.momentum is None else self.momentum
                self.running_mean.lerp_(mean.mean(0).to(self.running_mean.dtype), factor)
                self.running_var.lerp_(var.mean(0).mul(count / (count - 1)).to(self.running_var.dtype), factor)
        return outputs


def normalise(
    inputs: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, groups: int, eps: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Inputs [batch, features, …] normalised in groups, and each group's mean and biased variance [groups, features].

    As in torch's own batch norm, the result has the inputs' dtype and memory format, and the statistics of 16-bit
    inputs are float32, also under autocast.
    """
    with torch.autocast(inputs.device.type, enabled=False):
        if torch.compiler.is_compiling() or inputs.device.type == "xla":
            return _traced(inputs, weight, bias, groups, eps)
        return cast(tuple[torch.Tensor, torch.Tensor, torch.Tensor], _Eager.apply(inputs, weight, bias, groups, eps))  # type: ignore[no-untyped-call]


def _traced(
    inputs: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, groups: int, eps: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The formula as it is written down, for a compiler that fuses it and finds its gradient."""
    examples = _grouped(inputs, groups).to(_precise(inputs))
    axes = (1, *range(3, examples.ndim))
    var, mean = torch.var_mean(examples, axes, correction=0, keepdim=True)
    outputs = (examples - mean) * (var + eps).rsqrt()
    if weight is not None:
        outputs = outputs * _channels(weight, outputs)
    if bias is not None:
        outputs = outputs + _channels(bias, outputs)
    return outputs.flatten(0, 1).to(inputs.dtype), mean.detach().flatten(1), var.detach().flatten(1)


class _Eager(torch.autograd.Function):
    """The same with its gradient in closed form, in few passes over memory and one buffer each way.

    Without a compiler, autograd's own chain of small operations would take several times a batch norm's time. On a
    CPU an operation is fast only where all its operands have one dtype, so that 16-bit activations meet 16-bit
    coefficients there; the statistics stay float32. A bf16 step of DavidNet has gradients that are off float32's by
    4 to 31 % (each tensor's norm), and by 4 to 29 % with torch's own batch norm on each group.
    """

    @staticmethod
    def forward(
        ctx: Any,
        inputs: torch.Tensor,
        weight: torch.Tensor | None,
        bias: torch.Tensor | None,
        groups: int,
        eps: float,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        count = inputs.numel() // (groups * inputs.shape[1])
        if _has_kernel(inputs, count):
            outputs, mean, inverse = _by_kernel(inputs, weight, bias, groups, eps)
            var = (inverse**-2 - eps).clamp_(min=0.0)
        else:
            outputs, mean, var, inverse = _by_passes(inputs, weight, bias, groups, eps)
        ctx.save_for_backward(inputs, weight, mean, inverse)
        ctx.groups = groups
        ctx.mark_non_differentiable(mean, var)
        return outputs, mean, var

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        inputs, weight, mean, inverse = ctx.saved_tensors
        groups, gradient = ctx.groups, gradients[0]
        count = inputs.numel() // (groups * inputs.shape[1])
        examples, arriving = _grouped(inputs, groups), _grouped(gradient, groups)
        result = torch.empty_like(inputs)
        buffer = _grouped(result, groups)
        total = _totals(gradient, groups)
        if inputs.element_size() == 2:  # inputs that are rounded by as much as their product with the gradient
            torch.mul(examples, arriving, out=buffer)
            aligned = (_totals(result, groups) - total * mean) * inverse
        else:
            torch.sub(examples, _coefficient(mean, inputs), out=buffer)
            buffer.mul_(arriving)
            aligned = _totals(result, groups) * inverse
        of_weight = aligned.sum(0) if ctx.needs_input_grad[1] else None
        of_bias = total.sum(0) if ctx.needs_input_grad[2] else None
        if not ctx.needs_input_grad[0]:
            return None, of_weight, of_bias, None, None
        scale = inverse if weight is None else inverse * weight
        slope = -scale * inverse * aligned / count
        shift = -scale * total / count - slope * mean
        torch.addcmul(_coefficient(shift, inputs), arriving, _coefficient(scale, inputs), out=buffer)
        buffer.addcmul_(examples, _coefficient(slope, inputs))
        return result, of_weight, of_bias, None, None


def _by_passes(
    inputs: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, groups: int, eps: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Outputs, means, variances and 1 / √(variance + eps): centre, square, scale."""
    count = inputs.numel() // (groups * inputs.shape[1])
    outputs = torch.empty_like(inputs)
    centred = _grouped(outputs, groups)
    mean = _totals(inputs, groups) / count
    centre = _coefficient(mean, inputs)
    torch.sub(_grouped(inputs, groups), centre, out=centred)
    remainder = mean - centre.view_as(mean)  # what 16 bits could not hold of the mean
    var = (_totals(outputs * outputs, groups) / count - remainder * remainder).clamp_(min=0.0)
    inverse = (var + eps).rsqrt()
    scale = inverse if weight is None else inverse * weight
    shift = -remainder * scale if bias is None else bias - remainder * scale
    torch.addcmul(_coefficient(shift, inputs), centred, _coefficient(scale, inputs), out=centred)
    return outputs, mean, var, inverse


def _has_kernel(inputs: torch.Tensor, count: int) -> bool:
    """Whether `_by_kernel` is right and quick: its variance is E[x²] − E[x]², as exact as 16-bit numbers are."""
    is_channels_last = inputs.movedim(1, -1).is_contiguous()
    return inputs.device.type == "cpu" and inputs.element_size() == 2 and is_channels_last and count >= KERNEL_FROM


def _by_kernel(
    inputs: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, groups: int, eps: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Outputs, means and 1 / √(variance + eps), in one call and in float32.

    With the channels last in memory, a group's examples are as one tall picture, whose instance norm is asked for.
    """
    channels = inputs.shape[1]
    count = inputs.numel() // (groups * channels)
    scale = torch.ones(channels) if weight is None else weight  # float32, or the statistics would have 16 bits
    shift = torch.zeros(channels) if bias is None else bias
    tall = inputs.movedim(1, -1).view(groups, count, 1, channels).permute(0, 3, 1, 2)
    normalized, mean, inverse = torch.native_group_norm(tall, scale, shift, groups, channels, count, channels, eps)
    outputs = inputs.new_empty(0).set_(normalized.untyped_storage(), 0, inputs.shape, inputs.stride())
    return outputs, mean, inverse


def _precise(values: torch.Tensor) -> torch.dtype:
    return torch.promote_types(values.dtype, torch.float32)


def _grouped(values: torch.Tensor, groups: int) -> torch.Tensor:
    """[batch, features, …] as [groups, batch / groups, features, …], in whatever memory format it has."""
    return values.view(groups, -1, *values.shape[1:])


def _channels(values: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    """[features] or [groups, features] so that it broadcasts over [groups, batch / groups, features, …]."""
    lead = values.shape[:-1] if values.ndim > 1 else (1,)
    return values.reshape(*lead, 1, -1, *[1] * (reference.ndim - 3))


def _coefficient(values: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
    """[groups, features] ready to be combined with grouped inputs."""
    on_cpu = inputs.device.type == "cpu"
    return values.reshape(len(values), 1, -1, *[1] * (inputs.ndim - 2)).to(inputs.dtype if on_cpu else values.dtype)


def _totals(values: torch.Tensor, groups: int) -> torch.Tensor:
    """Sums of [batch, features, …] over each group, [groups, features], in float32 at least.

    On a CPU, each example is summed in its own dtype first (see `_Eager`), which adds up in float32 and rounds once.
    """
    axes = tuple(range(2, values.ndim))
    dtype = None if values.device.type == "cpu" else _precise(values)
    sums = values.sum(axes, dtype=dtype) if axes else values
    return _grouped(sums.to(_precise(values)), groups).sum(1)
