"""The PyTorch/XLA engine: torch's steps, with the same graph in every step.

torch_xla records the operations; `torch_xla.sync()` at the end of a step compiles the graph, the first time it occurs,
and starts it without waiting. Everything that would change the graph is kept out of it: a Python index or number that
changes, a shape that changes, a state that exists only from the second step on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch_xla
from torch_xla import runtime
from torch_xla.core import xla_model
from torch_xla.distributed.spmd import Mesh, mark_sharding

from raybench.engines.base import EngineParts
from raybench.engines.torch.engine import TorchEngine
from raybench.engines.torch.images import AugmentationDraws
from raybench.engines.torch_xla.optimizers import XlaOptimizer, build_optimizer

INCREMENT, MULTIPLIER = 1012031, 7012063
"""How torch_xla derives the random seed of a step from that of the step before, modulo 2⁶⁴."""


def one_program(devices: int) -> Mesh:
    """Let XLA spread every computation over the devices; return the batch's mesh.

    Raises:
        RuntimeError: the number of devices is different.
    """
    runtime.use_spmd()
    count = runtime.global_runtime_device_count()
    if count != devices:
        raise RuntimeError(f"planned for {devices} devices, and XLA has {count}")
    return Mesh(np.arange(devices), (devices,), ("batch",))


class XlaEngine(TorchEngine):
    """The `torch_xla` engine, on a TPU or on the host's cores.

    The setting `compile` has no effect, since everything is compiled; nor has `channels_last`, as XLA chooses layouts.
    """

    _optimizer: XlaOptimizer
    _mesh: Mesh | None = None
    _row: torch.Tensor
    """The number of the step in its epoch, on the device [1]."""
    _without_gradients = torch.no_grad  # torch_xla cannot make a view of a weight in inference mode

    def __init__(self, parts: EngineParts) -> None:
        super().__init__(parts)
        if self._recipe.devices > 1:
            self._mesh = one_program(self._recipe.devices)

    def build(self) -> None:
        """Build the model and the optimizer; the first step has the trial's seed, for example for dropout."""
        self._random = self._seed
        super().build()
        if self._mesh:  # from the start, as the second step would otherwise be a different graph
            states = [tensor for state in self._optimizer.state.values() for tensor in state.values()]
            for tensor in (*self.model.parameters(), *self.model.buffers(), *states):
                mark_sharding(tensor, self._mesh, (None,) * tensor.dim())

    def _count_compilation(self) -> None:
        """Do nothing, because XLA counts compilations itself."""

    def restore(self, path: Path) -> None:
        """Restore what `save` wrote.

        Raises:
            ValueError: it is not the state of such a model, or the model is spread over devices; nothing was changed.
        """
        if self._mesh:
            raise ValueError("a model that XLA spreads over devices cannot go on from one")
        super().restore(path)

    def _random_states(self) -> dict[str, torch.Tensor]:
        seed = torch.tensor(list(self._random.to_bytes(8, "big")), dtype=torch.uint8)
        return {"host": torch.get_rng_state(), "device": seed}

    def _set_random_states(self, states: Mapping[str, torch.Tensor]) -> None:
        torch.set_rng_state(states["host"])
        self._random = int.from_bytes(bytes(states["device"].tolist()), "big")

    def _make_optimizer(self) -> XlaOptimizer:
        recipe = self._recipe
        return build_optimizer(self.model.parameters(), recipe.optimizer_settings, recipe.acting_decay, recipe.decay)

    def begin_epoch(self) -> Iterable[Any]:
        """Draw the next epoch, with its rates on the device in one table."""
        steps = range(self._step, self._step + self._order.next_steps)
        rows = [self._optimizer.numbers(self._rate(step), step) for step in steps]
        self._numbers = torch.tensor(rows, dtype=torch.float32).to(self._on)
        return super().begin_epoch()

    def _steps(self, epoch: AugmentationDraws) -> Iterable[Any]:
        self._table, self._next_row = epoch, torch.zeros(1, dtype=torch.int64).to("xla")
        return repeat(None, len(epoch.indices))

    def _draws_of(self, step: Any) -> AugmentationDraws:
        self._row, self._next_row = self._next_row, self._next_row + 1
        return self._table.select(self._select)

    def _select(self, table: torch.Tensor) -> torch.Tensor:
        """The step's row of a table [steps, …]: a Python index would be a constant, and each step a different graph."""
        return table.index_select(0, self._row)[0]

    def _forward(self, inputs: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, Mapping[str, torch.Tensor]]:
        if self._mesh:
            for tensor in (inputs, targets):
                mark_sharding(tensor, self._mesh, ("batch", *[None] * (tensor.dim() - 1)))
        return super()._forward(inputs, targets)

    def train_step(self, batch: Any) -> None:
        """Record one step; the clock starts it."""
        xla_model.set_rng_state(self._random)  # not what is left of it by other graphs, of which waiting makes some
        super().train_step(batch)
        self._optimizer.zero_grad(set_to_none=True)  # tensors alive at the end of a graph have to be written out
        self._random = (INCREMENT + self._random * MULTIPLIER) % 2**64

    def _update(self) -> None:
        if self._recipe.gradient_clipping is not None:
            self._clip(self._recipe.gradient_clipping)
        self._optimizer.step(self._select(self._numbers))
        self._step += 1

    def evaluation_step(self, batch: Any) -> None:
        super().evaluation_step(batch)
        torch_xla.sync()

    def _of_examples(self, values: Mapping[str, torch.Tensor], counts: int) -> Mapping[str, torch.Tensor]:
        """The values with zeros for padding, whose number is not a constant of the graph."""
        size = len(next(iter(values.values())))
        mask = (torch.arange(size) < counts).to(self._on)
        return {name: torch.where(mask, value, 0) for name, value in values.items()}
