"""Ghost batch norm: the batch statistics of n replicas, computed on one device."""

from __future__ import annotations

from typing import Any, Literal, cast

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from raybench.devices.base import TorchDevice

Form = Literal["eager", "batched", "traced"]
"""How groups are normalised: in few passes, in few operations, or by a formula that a compiler fuses."""

KERNEL_FROM = 1024
"""Minimum values per group and channel for torch's CPU kernel.

With fewer, the kernel does not run along the memory and is ten times slower."""


def form_on(device: TorchDevice) -> Form:
    """The fastest form on a device, without `torch.compile`.

    Where work is asynchronous, few operations keep the device from waiting for the host.
    """
    if device.lazy:
        return "traced"
    return "eager" if device.synchronous else "batched"


def use_ghost_batch_norm(model: nn.Module, groups: int, form: Form = "eager") -> nn.Module:
    """Replace each batch norm by one with statistics per contiguous group of the batch.

    Group r of a batch of B has the examples r·B/groups to (r + 1)·B/groups − 1: the slice of replica r under real
    replication. Parameters, buffers and their names stay; with one group the model is unchanged.

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
            replacements[module] = GhostBatchNorm(module, groups, form)
        if not name:
            return replacements[module]
        parent, _, child = name.rpartition(".")
        setattr(model.get_submodule(parent), child, replacements[module])
    return model


class GhostBatchNorm(_BatchNorm):
    """Batch norm with the mean and variance of each group of examples.

    The running statistics are updated by the mean over the groups of their means and unbiased variances: the same as an
    average of real replicas' buffers, since the update is linear. Evaluation is that of the replaced batch norm.
    """

    def __init__(self, module: _BatchNorm, groups: int, form: Form) -> None:
        if type(module).forward is not _BatchNorm.forward:
            raise TypeError(f"{type(module).__name__} has a forward of its own: its statistics cannot be grouped")
        super().__init__(
            module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats, device="meta"
        )
        self._replaced, self.groups, self._form = type(module), groups, form
        self._statistics: torch.Tensor | None = None
        for name in ("weight", "bias"):
            self.register_parameter(name, getattr(module, name))
        for name in ("running_mean", "running_var", "num_batches_tracked"):
            self.register_buffer(name, getattr(module, name))
        self.train(module.training)

    def _check_input_dim(self, inputs: torch.Tensor) -> None:
        cast(Any, self._replaced)._check_input_dim(self, inputs)

    def extra_repr(self) -> str:
        """The batch norm's representation, and the number of groups."""
        return f"{super().extra_repr()}, groups={self.groups}"  # type: ignore[no-untyped-call]

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Normalise [batch, features, …] to the same shape.

        Raises:
            ValueError: in training, a batch that is not divisible by the groups, or one value in each.
        """
        if not self.training:
            return super().forward(inputs)
        self._check_input_dim(inputs)
        if len(inputs) % self.groups:
            raise ValueError(f"a batch of {len(inputs)} does not divide into {self.groups} replicas")
        count = inputs.numel() // (self.groups * self.num_features)
        if count < 2:
            raise ValueError(f"batch norm needs more than one value per channel in each of {self.groups} replicas")
        is_tracked = self.running_mean is not None
        form: Form = "traced" if torch.compiler.is_compiling() else self._form
        if form == "batched":
            statistics = self._statistics_like(inputs) if is_tracked else None
            outputs = _Batched.apply(inputs, self.weight, self.bias, statistics, self.groups, self.eps)  # type: ignore[no-untyped-call]
            if statistics is not None:
                self._update(*statistics.view(2, self.groups, -1).mean(1))
            return cast(torch.Tensor, outputs)
        outputs, mean, var = normalise(inputs, self.weight, self.bias, self.groups, self.eps, form == "traced")
        if is_tracked:
            self._update(mean.mean(0), var.mean(0).mul(count / (count - 1)))
        return outputs

    @torch.no_grad()
    def _update(self, mean: torch.Tensor, var: torch.Tensor) -> None:
        """Update the running statistics by means over the groups: of the mean, and of the unbiased variance."""
        running = [cast(torch.Tensor, self.running_mean), cast(torch.Tensor, self.running_var)]
        batches = cast(torch.Tensor, self.num_batches_tracked).add_(1)
        new = [mean.to(running[0].dtype), var.to(running[1].dtype)]
        if self.momentum is None:
            for old, value in zip(running, new, strict=True):
                old.lerp_(value, 1.0 / batches.to(mean.dtype))
        else:
            torch._foreach_lerp_(running, new, self.momentum)

    def _statistics_like(self, inputs: torch.Tensor) -> torch.Tensor:
        """Memory for means and variances [2, groups · features], the same in each step."""
        known, dtype = self._statistics, _precise(inputs)
        if known is None or (known.dtype, known.device) != (dtype, inputs.device):
            known = inputs.new_zeros(2, self.groups * self.num_features, dtype=dtype)
            self._statistics = known
        return known


class _Batched(torch.autograd.Function):
    """Torch's own batch norm of [batch / groups, groups · features, …]: one copy each way.

    Statistics [2, groups · features], if not None, receive each group's mean and unbiased variance. Autocast changes
    none of the operations.
    """

    @staticmethod
    def forward(
        ctx: Any,
        inputs: torch.Tensor,
        weight: torch.Tensor | None,
        bias: torch.Tensor | None,
        statistics: torch.Tensor | None,
        groups: int,
        eps: float,
    ) -> torch.Tensor:
        examples = _side_by_side(inputs, groups)
        scale = shift = None
        if weight is not None and bias is not None:
            scale, shift = torch.cat([weight] * groups + [bias] * groups).chunk(2)
        mean, var = (None, None) if statistics is None else statistics
        outputs, *saved = torch.native_batch_norm(examples, scale, shift, mean, var, True, 1.0, eps)
        ctx.save_for_backward(examples, scale, *saved)
        ctx.groups, ctx.eps = groups, eps
        return _one_after_another(outputs, groups).data  # no view, which a ReLU in place could not change

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        examples, scale, mean, inverse = ctx.saved_tensors
        groups, needed = ctx.groups, list(ctx.needs_input_grad[:3])
        gradient = _side_by_side(gradients[0], groups)
        results = torch.ops.aten.native_batch_norm_backward.default(
            gradient, examples, scale, None, None, mean, inverse, True, ctx.eps, needed
        )
        of_inputs = _one_after_another(results[0], groups) if needed[0] else None
        of_parameters = (
            result.view(groups, -1).sum(0) if is_needed else None
            for result, is_needed in zip(results[1:], needed[1:], strict=True)
        )
        return of_inputs, *of_parameters, None, None, None


def _side_by_side(values: torch.Tensor, groups: int) -> torch.Tensor:
    """[batch, features, …] as [batch / groups, groups · features, …] of the same memory format.

    It is one copy. `torch.cat` of the groups is one for each of them, if channels are last in memory.
    """
    batch, features, *rest = values.shape
    if _is_channels_last(values):
        rows = values.movedim(1, -1).view(groups, batch // groups, *rest, features).movedim(0, -2).contiguous()
        return rows.view(batch // groups, *rest, groups * features).movedim(-1, 1)
    rows = values.contiguous().view(groups, batch // groups, features, *rest).transpose(0, 1).contiguous()
    return rows.view(batch // groups, groups * features, *rest)


def _one_after_another(values: torch.Tensor, groups: int) -> torch.Tensor:
    """The reverse of `_side_by_side`."""
    batch, features, *rest = values.shape
    if _is_channels_last(values):
        rows = values.movedim(1, -1).view(batch, *rest, groups, features // groups).movedim(-2, 0).contiguous()
        return rows.view(groups * batch, *rest, features // groups).movedim(-1, 1)
    rows = values.contiguous().view(batch, groups, features // groups, *rest).transpose(0, 1).contiguous()
    return rows.view(groups * batch, features // groups, *rest)


def _is_channels_last(values: torch.Tensor) -> bool:
    return not values.is_contiguous() and values.movedim(1, -1).is_contiguous()


def normalise(
    inputs: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    groups: int,
    eps: float,
    traced: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Normalise inputs [batch, features, …] in groups.

    The result also has each group's mean and biased variance [groups, features]. As in torch's own batch norm, the
    outputs have the inputs' dtype and memory format, and the statistics of 16-bit inputs are float32, also under
    autocast.
    """
    with torch.autocast(inputs.device.type, enabled=False):
        if traced:
            return _traced(inputs, weight, bias, groups, eps)
        return cast(tuple[torch.Tensor, torch.Tensor, torch.Tensor], _Eager.apply(inputs, weight, bias, groups, eps))  # type: ignore[no-untyped-call]


def _traced(
    inputs: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, groups: int, eps: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The plain formula, for a compiler that fuses it and derives its gradient."""
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
    """The same on a CPU, with a closed-form gradient, in few passes and one buffer each way.

    Without a compiler, autograd's own chain of small operations would take several times as long as a batch norm. An
    operation is fast only if all its operands have one dtype, so 16-bit activations are combined with 16-bit
    coefficients; the statistics stay float32. The gradients of a bf16 step of DavidNet differ from float32's by 4 to 31
    % (norm of each tensor), and by 4 to 29 % with torch's own batch norm on each group.
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
        if inputs.element_size() == 2:  # inputs rounded by as much as their product with the gradient
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
    """Outputs, means, variances and 1 / √(variance + eps), in three passes.

    The passes centre, square and scale.
    """
    count = inputs.numel() // (groups * inputs.shape[1])
    outputs = torch.empty_like(inputs)
    centred = _grouped(outputs, groups)
    mean = _totals(inputs, groups) / count
    centre = _coefficient(mean, inputs)
    torch.sub(_grouped(inputs, groups), centre, out=centred)
    remainder = mean - centre.view_as(mean)  # the part of the mean that 16 bits could not represent
    var = (_totals(outputs * outputs, groups) / count - remainder * remainder).clamp_(min=0.0)
    inverse = (var + eps).rsqrt()
    scale = inverse if weight is None else inverse * weight
    shift = -remainder * scale if bias is None else bias - remainder * scale
    torch.addcmul(_coefficient(shift, inputs), centred, _coefficient(scale, inputs), out=centred)
    return outputs, mean, var, inverse


def _has_kernel(inputs: torch.Tensor, count: int) -> bool:
    """Return whether `_by_kernel` is accurate and fast.

    Its variance is E[x²] − E[x]², with the accuracy of 16-bit numbers.
    """
    is_channels_last = inputs.movedim(1, -1).is_contiguous()
    return inputs.element_size() == 2 and is_channels_last and count >= KERNEL_FROM


def _by_kernel(
    inputs: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, groups: int, eps: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Outputs, means and 1 / √(variance + eps), in one float32 call.

    With channels last in memory, a group's examples form one tall image, whose instance norm is computed.
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
    """View [batch, features, …] as [groups, batch / groups, features, …].

    Any memory format is supported.
    """
    return values.view(groups, -1, *values.shape[1:])


def _channels(values: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    """Reshape [features] or [groups, features] to broadcast over [groups, batch / groups, features, …]."""
    lead = values.shape[:-1] if values.ndim > 1 else (1,)
    return values.reshape(*lead, 1, -1, *[1] * (reference.ndim - 3))


def _coefficient(values: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
    """Convert [groups, features] for operations with grouped inputs."""
    return values.reshape(len(values), 1, -1, *[1] * (inputs.ndim - 2)).to(inputs.dtype)


def _totals(values: torch.Tensor, groups: int) -> torch.Tensor:
    """Sums of [batch, features, …] over each group: [groups, features], at least float32.

    Each example is summed in its own dtype first (see `_Eager`), which adds up in float32 and rounds once.
    """
    axes = tuple(range(2, values.ndim))
    sums = values.sum(axes) if axes else values
    return _grouped(sums.to(_precise(values)), groups).sum(1)
