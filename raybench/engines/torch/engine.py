"""The PyTorch engine: steps without `.item()`, so that the host runs ahead of the device."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from itertools import chain, islice
from pathlib import Path
from statistics import median
from typing import Any, cast

import torch

from raybench.datasets.splits import Array, Split
from raybench.devices.cpu import TorchDevice
from raybench.engines.base import Engine, EngineParts, check_per_example
from raybench.engines.batch_order import Augmentation
from raybench.engines.step_timer import SETTLING
from raybench.engines.torch.distributed import ProcessGroup
from raybench.engines.torch.ghost_batch_norm import use_ghost_batch_norm
from raybench.engines.torch.images import AugmentationDraws, ImageAugmenter, steps_of
from raybench.engines.torch.inputs import DeviceInput, HostInput, Input
from raybench.engines.torch.loop_facts import graphs
from raybench.engines.torch.losses import accuracy, cross_entropy
from raybench.engines.torch.metric_sums import MetricSums
from raybench.engines.torch.optimizers import build_optimizer

LOW_PRECISION = {"bf16": torch.bfloat16, "fp16": torch.float16}
"""The number formats of matrix products and convolutions below float32; weights stay in float32."""

REPLAYING_MODES = frozenset({"reduce-overhead", "max-autotune"})
"""Modes of `torch.compile` that record the kernels of a step in CUDA graphs, and replay them."""

COMPARED_STEPS, COMPARED_SECONDS = 12, 10.0
"""Most steps with and without exchange of gradients that are compared, and their time; the first are left out."""


class TorchEngine(Engine):
    """The `torch` engine, for any device kind that torch supports."""

    _without_gradients: type[torch.no_grad | torch.inference_mode] = torch.inference_mode

    def __init__(self, parts: EngineParts) -> None:
        super().__init__(parts, cross_entropy, accuracy)
        self._device = cast(TorchDevice, parts.device)
        self._on = torch.device(self._device.torch_name)
        self._group = ProcessGroup(self._rank, self._device.backend)
        parts.loop.ranks_in_step = True
        self._is_checked, self._exchanges = False, True

    def _open_input(self, train: Split, val: Split, size: tuple[int, int], augmentation: Augmentation) -> None:
        recipe, workload, augmenter = self._recipe, self._workload, None
        if any(size):
            layout = recipe.channels_last
            augmenter = ImageAugmenter(workload.mean, workload.std, size, augmentation, self._on, layout)
        val = self._part(val)
        self.evaluation_batch = min(recipe.evaluation_batch, len(val))
        kind = DeviceInput if recipe.input == "device" else HostInput
        self._input: Input = kind(train, val, augmenter, self._device)

    def build(self) -> None:
        """Build the model, initialized from its seed and in its memory format, and its optimizer.

        Raises:
            TypeError: the workload's function returns no module.
        """
        recipe = self._recipe
        torch.manual_seed(self._seed)
        model = self._workload.build_model("torch")
        if not isinstance(built := model, torch.nn.Module):
            raise TypeError(f"the workload's model function returns a {type(built).__name__}, not a torch.nn.Module")
        use_ghost_batch_norm(model, recipe.replicas // self._rank.count)
        layout = torch.channels_last if recipe.channels_last else torch.contiguous_format
        self.model: torch.nn.Module = model.to(device=self._on, memory_format=layout)
        if self._rank.number:  # with one seed, dropout would have the same masks in all ranks
            torch.manual_seed(self._seed + (self._rank.number << 32))
        self._trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        self._smallest = min(self._trained, key=torch.Tensor.numel)
        self._scaler = torch.amp.GradScaler(self._on.type, enabled=recipe.precision == "fp16")
        self._optimizer = self._make_optimizer()
        low = LOW_PRECISION.get(recipe.precision)
        self._autocast = torch.autocast(self._on.type, dtype=low) if low else nullcontext()
        batch, self._parts = recipe.batch_size // self._rank.count, recipe.gradient_accumulation
        self._loss_weights = torch.full((batch // self._parts,), 1.0 / batch).to(self._on)
        self._call = self._group.model(self.model)
        # Of DistributedDataParallel: without it, every part of a batch would average its gradients over the ranks.
        self._without_average = getattr(self._call, "no_sync", nullcontext)
        # With the loss in the graph, logits of a large vocabulary are not written to memory in float32.
        self._compute = (
            torch.compile(self._forward, mode=cast(str, recipe.compile)) if recipe.compile else self._forward
        )
        self._captures = recipe.compile in REPLAYING_MODES and self._device.replays_graphs
        self._count_compilation()

    def _count_compilation(self) -> None:
        self._loop.graphs = graphs if self._recipe.compile else None
        self._loop.settling = SETTLING if self._captures else 0

    def weights(self) -> list[Array]:
        return [parameter.detach().cpu().numpy().copy() for parameter in self._trained]

    @torch.no_grad()
    def set_weights(self, weights: Sequence[Array]) -> None:
        for parameter, array in zip(self._trained, weights, strict=True):
            parameter.copy_(torch.from_numpy(array))

    def save(self, path: Path) -> None:
        """Save parameters and buffers, the states of the optimizer and the scaler, and the random states."""
        state = {
            "model": self.model.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "scaler": self._scaler.state_dict(),
            "random": self._random_states(),
            "epochs": self._epochs,
        }
        torch.save(_on_host(state), path)

    def restore(self, path: Path) -> None:
        state = torch.load(path, weights_only=True)
        saved, shapes = (
            {name: value.shape for name, value in state_dict.items()}
            for state_dict in (state["model"], self.model.state_dict())
        )
        if saved != shapes:
            raise ValueError("it belongs to a model of a different shape")
        self._optimizer.load_state_dict(state["optimizer"])
        self.model.load_state_dict(state["model"])
        self._scaler.load_state_dict(state["scaler"])
        self._go_on_after(state["epochs"])
        self._device.synchronize()
        self._set_random_states(state["random"])  # last, as work on a device may advance them

    def _random_states(self) -> dict[str, torch.Tensor]:
        """The states of the host's random generator and, if it has one, the device's, such as for dropout."""
        module = torch.get_device_module(self._on)
        of_device = {"device": module.get_rng_state()} if hasattr(module, "get_rng_state") else {}
        return {"host": torch.get_rng_state(), **of_device}

    def _set_random_states(self, states: Mapping[str, torch.Tensor]) -> None:
        torch.set_rng_state(states["host"])
        if "device" in states:
            torch.get_device_module(self._on).set_rng_state(states["device"])

    def _part(self, split: Split) -> Split:
        """This rank's share of a validation split; the shares cover all examples."""
        bounds = [len(split) * number // self._rank.count for number in (self._rank.number, self._rank.number + 1)]
        if bounds[0] == bounds[1]:
            raise ValueError(f"{len(split)} examples to evaluate, and {self._rank.count} ranks to do it")
        return Split(split.inputs[slice(*bounds)], split.targets[slice(*bounds)])

    def _make_optimizer(self) -> torch.optim.Optimizer:
        recipe = self._recipe
        # With a gradient scaler only the fused kernel skips a step without a synchronization with the host.
        fused = True if self._scaler.is_enabled() and not self._device.synchronous else None
        settings, decay = recipe.optimizer_settings, recipe.acting_decay
        return build_optimizer(self.model.parameters(), settings, decay, recipe.decay, fused)

    def _forward(self, inputs: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, Mapping[str, torch.Tensor]]:
        with self._autocast:
            outputs = self._call(inputs)
        outputs = outputs.float() if isinstance(outputs, torch.Tensor) else outputs
        losses = (self._trained_loss if self.model.training else self._loss)(outputs, targets)
        return losses, {"loss": losses, **self._metrics(outputs, targets)}

    def begin_epoch(self) -> Iterable[Any]:
        """Draw the next epoch; its batches are draws, and examples if they come from the host."""
        self.model.train()
        self._sums = MetricSums(self._device, self._group)
        self._drawn, self._first_step = self._order.epoch(), self._step
        order = self._drawn.part(self._rank)
        return self._input.batches(order, self._steps(AugmentationDraws.on(order, self._device)))

    def _steps(self, epoch: AugmentationDraws) -> Iterable[Any]:
        """The draws of each step, for `_draws_of`."""
        return steps_of(epoch)

    def _draws_of(self, step: Any) -> AugmentationDraws:
        return cast(AugmentationDraws, step)

    def train_step(self, batch: Any) -> None:
        step, *examples = batch
        share = self._scaler.scale(self._loss_weights)
        for parameter in self._trained:  # in less time than by the optimizer
            parameter.grad = None
        self._overwrite()
        batch = self._input.take(self._draws_of(step), *examples)
        for number, part in enumerate(zip(*(tensor.chunk(self._parts) for tensor in batch), strict=True), 1):
            with nullcontext() if self._exchanges and number == self._parts else self._without_average():
                losses, values = self._compute(*part)
                if not self._is_checked:
                    check_per_example(values, len(share))
                    self._is_checked = True
                torch.autograd.backward(losses, share)
            with torch.no_grad():
                self._sums.add(values)
        self._update()

    def communication(self) -> float | None:
        """The part of a step that DistributedDataParallel adds: steps with and without it alternate."""
        seconds: dict[bool, list[float]] = {True: [], False: []}
        batches, begin = chain.from_iterable(iter(self.begin_epoch, None)), time.perf_counter()
        for number, batch in enumerate(islice(batches, 2 * COMPARED_STEPS)):
            self._exchanges = number % 2 == 0
            self._device.synchronize()
            if self._rank.meet(time.perf_counter() - begin > COMPARED_SECONDS):  # by the clock of rank 0
                break
            start = time.perf_counter()
            self.train_step(batch)
            self._device.synchronize()
            seconds[self._exchanges].append(time.perf_counter() - start)
        if min(map(len, seconds.values())) < 2:
            return None
        with_exchange, without = (median(seconds[exchanges][1:]) for exchanges in (True, False))
        return max(0.0, 1 - without / with_exchange)

    def _overwrite(self) -> None:
        """Let CUDA graphs overwrite the outputs of the step before from here on."""
        if self._captures:
            torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]

    def _update(self) -> None:
        rate = self._rate(self._step)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        if self._recipe.gradient_clipping is not None:
            self._scaler.unscale_(self._optimizer)
            self._clip(self._recipe.gradient_clipping)
        self._scaler.step(self._optimizer)
        self._scaler.update()
        self._step += 1

    def _clip(self, max_norm: float) -> None:
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), max_norm)

    def train_means(self) -> dict[str, float]:
        if not self._device.synchronous:
            self._order.prepare()  # while the device works
        return self._sums.means(self._trained_examples)

    def settle(self) -> None:
        self._smallest.detach().cpu()

    def validation(self) -> Iterator[Any]:
        """Begin an evaluation with the running statistics of all ranks."""
        self.model.eval()
        self._sums = MetricSums(self._device, self._group)
        with torch.no_grad():
            self._group.average_buffers(self.model)
        return self._input.validation(self.evaluation_batch)

    def evaluation_step(self, batch: Any) -> None:
        self._overwrite()
        with self._without_gradients():
            inputs, targets, counts = batch
            _, values = self._compute(*self._input.validation_examples(inputs, targets))
            self._sums.add(self._of_examples(values, counts))

    def _of_examples(self, values: Mapping[str, torch.Tensor], counts: int) -> Mapping[str, torch.Tensor]:
        return {name: value[:counts] for name, value in values.items()}

    def evaluation_means(self) -> dict[str, float]:
        return self._sums.means(self._examples)


def _on_host(state: Any) -> Any:
    if isinstance(state, Mapping):
        return {name: _on_host(value) for name, value in state.items()}
    return state.detach().cpu() if isinstance(state, torch.Tensor) else state
