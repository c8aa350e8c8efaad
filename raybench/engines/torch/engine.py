"""The PyTorch training loop, timed at its edges and without `.item()` inside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, cast

import torch

from raybench.core.job import DEVICES
from raybench.core.ledger import COMPILATION
from raybench.datasets.splits import Array, Data, Split
from raybench.devices.base import TorchDevice
from raybench.engines.base import EngineParts, EpochResult, check_per_example
from raybench.engines.batch_order import Augmentation, BatchSampler, EpochPlan
from raybench.engines.images import is_images, reflect
from raybench.engines.learning_rate import schedule
from raybench.engines.step_timer import SETTLING, StepTimer
from raybench.engines.torch.checkpoint_state import (
    RandomStates,
    random_states,
    read_state,
    write_random_states,
    write_state,
)
from raybench.engines.torch.distributed import ProcessGroup
from raybench.engines.torch.ghost_batch_norm import use_ghost_batch_norm
from raybench.engines.torch.images import AugmentationDraws, ImageAugmenter, steps_of
from raybench.engines.torch.inputs import DeviceInput, HostInput, Input
from raybench.engines.torch.losses import accuracy, cross_entropy
from raybench.engines.torch.metric_sums import MetricSums
from raybench.engines.torch.optimizers import build_optimizer
from raybench.engines.torch.precision import LOW_PRECISION, lower_precision

Metrics = Callable[[Any, Any], Mapping[str, torch.Tensor]]


REPLAYING_MODES = frozenset({"reduce-overhead", "max-autotune"})
"""Modes of `torch.compile` that record the kernels of a step in CUDA graphs, and replay them."""


def graphs() -> int:
    """Number of graphs that `torch.compile` has compiled in this process, by its own count."""
    return int(torch._dynamo.utils.counters["stats"]["unique_graphs"])


def compile_ns() -> int:
    """Nanoseconds that `torch.compile` has compiled in this process, by its own clock."""
    spent = torch._dynamo.utils.cumulative_time_spent_ns
    return int(spent["entire_frame_compile"] + spent["entire_backward_compile"])


class TorchEngine:
    """The `torch` engine, for any device kind that torch supports."""

    _without_gradients: type[torch.no_grad | torch.inference_mode] = torch.inference_mode

    def __init__(self, parts: EngineParts) -> None:
        self._recipe, self._workload = parts.recipe, parts.workload
        self._device, self._ledger, self._seed = cast(TorchDevice, parts.device), parts.ledger, parts.seed
        self._on = torch.device(self._device.torch_name)
        self._rank = parts.rank
        self._group = self._join_group()
        self._loss: Callable[[Any, Any], torch.Tensor] = parts.workload.loss_for("torch") or cross_entropy
        smoothing = parts.recipe.label_smoothing
        self._trained_loss = partial(cross_entropy, smoothing=smoothing) if smoothing else self._loss
        self._metrics: Metrics = parts.workload.metrics_for("torch") or accuracy
        self._shapes: set[tuple[str, int]] = set()
        self._step = 0

    def load(self, data: Data) -> None:
        """Prepare both splits, on the device or on the host.

        Raises:
            ValueError: augmentation of data that are not images, a batch that is larger than the training set or not
                divisible by the replicas, or fewer validation examples than ranks.
        """
        recipe, workload = self._recipe, self._workload
        if recipe.batch_size % recipe.replicas:
            raise ValueError(f"batch_size {recipe.batch_size} does not divide into {recipe.replicas} replicas")
        augmentation = Augmentation.from_settings(recipe.augmentation)
        train, augmenter, size = data.train, None, (0, 0)
        if is_images(train.inputs):
            size = (train.inputs.shape[1], train.inputs.shape[2])
            layout, dtype = recipe.channels_last, self._stored_low or torch.float32
            augmenter = ImageAugmenter(workload.mean, workload.std, size, augmentation, self._on, layout, dtype)
            train = Split(reflect(train.inputs, augmentation.crop), train.targets)
        elif augmentation:
            raise ValueError("augmentation is for images: uint8 inputs of shape [N, height, width, channels]")
        steps, epochs = recipe.steps_per_epoch, recipe.epochs
        self._order = BatchSampler(len(train), recipe.batch_size, steps, size, augmentation, self._seed, epochs)
        self._examples = len(data.val)
        val = self._part(data.val)
        self.evaluation_batch = min(recipe.evaluation_batch, len(val))
        if recipe.input == "device":
            self._input: Input = DeviceInput(train, val, augmenter, self._device, self._steps)
        else:
            self._input = HostInput(train, val, augmenter, self._device, self._ledger, self._steps)
        self._synchronize()

    def build(self) -> None:
        """Build the model, initialised from its seed and in its memory format, and its optimiser.

        Raises:
            TypeError: the workload's function returns no module.
        """
        recipe = self._recipe
        torch.manual_seed(self._seed)
        model = self._workload.build_model("torch")
        if not isinstance(built := model, torch.nn.Module):
            raise TypeError(f"the workload's model function returns a {type(built).__name__}, not a torch.nn.Module")
        if recipe.replication != DEVICES:
            model = use_ghost_batch_norm(model, recipe.replicas)
        layout = torch.channels_last if recipe.channels_last else torch.contiguous_format
        self._model: torch.nn.Module = model.to(device=self._on, memory_format=layout)
        lower_precision(self._model, self._stored_low)
        self._trained = [parameter for parameter in self._model.parameters() if parameter.requires_grad]
        self._smallest = min(self._trained, key=torch.Tensor.numel)
        self._optimizer = self._make_optimizer()
        self._factor = schedule(recipe.schedule, self._order.steps, self._order.total / self._order.steps)
        self._autocast = self._make_autocast()
        batch = recipe.batch_size // self._rank.count
        self._loss_weights = torch.full((batch,), self._loss_scale / batch).to(self._on)
        scaled = recipe.precision == "fp16" and recipe.master_weights
        self._scaler = torch.amp.GradScaler(self._on.type, enabled=scaled)
        call = self._group.model(self._model)
        self._call = torch.compile(call, mode=cast(str, recipe.compile)) if recipe.compile else call
        self._captures = recipe.compile in REPLAYING_MODES and self._device.replays_graphs
        self._settling = SETTLING if self._captures else 0
        compiler = (graphs, compile_ns) if recipe.compile else (None, None)
        self._timer = partial(
            StepTimer, self._device, compiled=compiler[0], settling=self._settling, compile_ns=compiler[1]
        )
        self._synchronize()

    @property
    def model(self) -> torch.nn.Module:
        """The trained model."""
        return self._model

    def state(self) -> Mapping[str, Array]:
        """Parameters, buffers, the states of the optimiser and the scaler, and the random states."""
        return read_state(self._model, self._optimizer, self._scaler, self._random_states())

    def restore(self, state: Mapping[str, Array], epochs: int) -> None:
        """Restore a state after a number of epochs.

        Raises:
            ValueError: it is not the state of such a model; nothing was changed.
        """
        random = self._random_states()
        write_state(state, self._model, self._optimizer, self._scaler, random)
        self._step = epochs * self._order.steps
        self._order.skip(epochs)
        self._synchronize()
        write_random_states(state, random)

    def precision(self) -> dict[str, str]:
        """Data types of the weights and of the products.

        The type under autocast is read back, because autocast may refuse a type.
        """
        weights = sorted({str(parameter.dtype).removeprefix("torch.") for parameter in self._model.parameters()})
        types = {"weights": ", ".join(weights), "compute": ", ".join(weights)}
        if self._stored_low:
            types["compute"] = str(self._stored_low).removeprefix("torch.")
        with self._autocast:
            if torch.is_autocast_enabled(self._on.type):
                types["compute"] = str(torch.get_autocast_dtype(self._on.type)).removeprefix("torch.")
        return types

    def _join_group(self) -> ProcessGroup:
        return ProcessGroup(self._rank, self._device.backend, self._on)

    def _part(self, split: Split) -> Split:
        """This rank's share of a validation split; the shares cover all examples."""
        bounds = [len(split) * number // self._rank.count for number in (self._rank.number, self._rank.number + 1)]
        if bounds[0] == bounds[1]:
            raise ValueError(f"{len(split)} examples to evaluate, and {self._rank.count} ranks to do it")
        return Split(split.inputs[slice(*bounds)], split.targets[slice(*bounds)])

    def _synchronize(self) -> None:
        """Wait for the device, and for those of the other ranks."""
        self._group.wait()
        self._device.synchronize()

    def _steps(self, epoch: AugmentationDraws) -> Iterator[AugmentationDraws]:
        return steps_of(epoch)

    def _random_states(self) -> RandomStates:
        return random_states(self._on)

    def _make_optimizer(self) -> torch.optim.Optimizer:
        recipe = self._recipe
        # With a gradient scaler only the fused kernel skips a step without a synchronisation with the host.
        scaled = recipe.precision == "fp16" and recipe.master_weights
        fused = True if scaled and not self._device.synchronous else None
        settings = {**recipe.optimizer_settings, "learning_rate": recipe.learning_rate / self._loss_scale}
        decay, parameters = self._loss_scale * recipe.acting_decay, self._model.parameters()
        return build_optimizer(parameters, settings, decay, recipe.decay, fused)

    @property
    def _loss_scale(self) -> int:
        """Ratio of the gradients to those of the mean loss.

        For weights in 16 bits, the loss is summed.
        """
        return 1 if self._recipe.master_weights else self._recipe.batch_size // self._rank.count

    @property
    def _stored_low(self) -> torch.dtype | None:
        """The 16-bit type of the stored weights, or None."""
        return None if self._recipe.master_weights else LOW_PRECISION.get(self._recipe.precision)

    def _make_autocast(self) -> AbstractContextManager[object]:
        low = LOW_PRECISION.get(self._recipe.precision) if self._recipe.master_weights else None
        return torch.autocast(self._on.type, dtype=low) if low else nullcontext()

    def _outputs(self, inputs: torch.Tensor) -> Any:
        if self._stored_low and inputs.is_floating_point():
            inputs = inputs.to(self._stored_low)
        if self._captures:  # from here on the outputs of the step before are overwritten
            torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]
        with self._autocast:
            outputs = self._call(inputs)
        return outputs.float() if isinstance(outputs, torch.Tensor) else outputs

    def _forward(self, inputs: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, Mapping[str, torch.Tensor]]:
        training = self._model.training
        outputs = self._outputs(inputs)
        losses = (self._trained_loss if training else self._loss)(outputs, targets)
        return losses, {"loss": losses, **self._metrics(outputs, targets)}

    def _is_new(self, kind: str, batch: int) -> bool:
        is_new = (kind, batch) not in self._shapes
        self._shapes.add((kind, batch))
        return is_new

    def _train_step(self, inputs: torch.Tensor, targets: torch.Tensor, sums: MetricSums, check: bool) -> None:
        losses, values = self._forward(inputs, targets)
        if check:
            check_per_example(values, len(targets))
        share = self._scaler.scale(self._loss_weights)
        for parameter in self._trained:  # in less time than by the optimizer
            parameter.grad = None
        torch.autograd.backward(losses, share)
        self._update()
        with torch.no_grad():
            sums.add(values)

    def _update(self) -> None:
        """Take the optimiser's step with the current gradients."""
        rate = self._recipe.learning_rate / self._loss_scale * self._factor(self._step)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        if self._recipe.gradient_clipping is not None:
            self._scaler.unscale_(self._optimizer)
            self._clip(self._recipe.gradient_clipping * self._loss_scale)
        self._scaler.step(self._optimizer)
        self._scaler.update()
        self._step += 1

    def _clip(self, max_norm: float) -> None:
        """Clip gradients to a norm, as `torch.nn.utils.clip_grad_norm_`, with a float32 norm.

        fp16 could not represent the norm.
        """
        gradients = [parameter.grad for parameter in self._model.parameters() if parameter.grad is not None]
        if gradients:
            norms = torch._foreach_norm(gradients, 2, dtype=torch.float32)
            torch.nn.utils.clip_grads_with_norm_(self._model.parameters(), max_norm, torch.stack(norms).norm())

    def _evaluation_step(self, inputs: torch.Tensor, targets: torch.Tensor, counts: int, sums: MetricSums) -> None:
        _, values = self._forward(inputs, targets)
        sums.add({name: value[:counts] for name, value in values.items()})

    def train_epoch(self, epoch: int) -> EpochResult:
        """Train one epoch.

        The first step of a new shape is followed by a wait for the device; its time beyond the epoch's median step is
        `compile`, as is that of the steps that capture CUDA graphs. Other steps are only marked in the device's stream,
        at no cost. If an epoch has no other steps, there is no median to compare with, and `compile` is the time that
        the compiler itself reports.
        """
        self._left_out = False
        sums, check = MetricSums(self._device, self._group), self._is_new("train", self._order.batch)
        steps = self._timer(check)
        self._model.train()
        self._synchronize()
        if check:
            self._device.begin_search()
        with self._ledger.section("train"):
            order = self._order.epoch()
            self._take_steps(order.part(self._rank), sums, check, steps)
            if not self._device.synchronous:
                self._order.prepare()  # while the device works
            means = sums.means(order.index.size)
            self._synchronize()
            steps.over()
        self._charge(steps, "train")
        step_count, examples = len(order.index), order.index.size
        peak_known = not (self._left_out and step_count == 1)
        return EpochResult(step_count, examples, means, steps.compilations, steps.blocks(), peak_known)

    def _take_steps(self, order: EpochPlan, sums: MetricSums, check: bool, steps: StepTimer) -> None:
        """Take all steps of an epoch, and submit their work."""
        for inputs, targets in self._input.train(order):
            steps.begin(at_last_end=not self._input.on_host)
            self._train_step(inputs, targets, sums, check)
            steps.end(wait=True)
            if check:
                check = False
                if self._step < self._order.total:
                    self._left_out = self._device.end_search()

    def _charge(self, steps: StepTimer, section: str) -> None:
        steps.charge(self._ledger, section)

    def settle(self) -> None:
        """Copy the smallest trained weight to the host."""
        self._smallest.detach().cpu()

    def evaluate(self) -> tuple[Mapping[str, float], int]:
        """Evaluate the whole validation set in batches of one shape, without the padding."""
        sums, is_new = MetricSums(self._device, self._group), self._is_new("evaluate", self.evaluation_batch)
        steps = self._timer(is_new)
        self._model.eval()
        if is_new:
            self._device.begin_search()
        if is_new and self.evaluation_batch * (1 + self._settling) >= self._input.evaluated:
            self._compile_evaluation()
            is_new = False
        self._synchronize()
        with self._ledger.section("evaluate"), self._without_gradients():
            self._group.average_buffers(self._model)
            for inputs, targets, counts in self._input.evaluate(self.evaluation_batch):
                steps.begin(at_last_end=not self._input.on_host)
                self._evaluation_step(inputs, targets, counts, sums)
                steps.end()
                if is_new:
                    is_new = False
                    self._device.end_search()
            means = sums.means(self._examples)
            self._synchronize()
            steps.over()
        self._charge(steps, "evaluate")
        return means, steps.compilations

    def _compile_evaluation(self) -> None:
        """Evaluate the few batches before, as `compile_evaluate`: there is no median of others to compare with.

        That is once, or as often as it takes until CUDA graphs are captured.
        """
        self._synchronize()
        with self._ledger.section(COMPILATION["evaluate"]), self._without_gradients():
            for number in range(1 + self._settling):
                for inputs, targets, counts in self._input.evaluate(self.evaluation_batch):
                    self._evaluation_step(inputs, targets, counts, MetricSums(self._device, self._group))
                if number == 0:  # the memory of CUDA graphs is allocated only when they are captured, which follows
                    self._device.end_search()
            self._synchronize()
