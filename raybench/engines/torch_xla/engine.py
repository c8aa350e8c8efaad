"""The PyTorch/XLA training loop: torch's, with the same graph in every step.

torch_xla records the operations; `torch_xla.sync()` at the end of a step compiles the graph, the first time it occurs,
and starts it without waiting. Everything that would change the graph is kept out of it: a Python index or number that
changes, a shape that changes, a state that exists only from the second step on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import torch
import torch_xla
from torch_xla import runtime
from torch_xla.core import xla_model
from torch_xla.debug import metrics
from torch_xla.distributed.spmd import Mesh, mark_sharding

from raybench.core.job import SPMD
from raybench.core.ledger import COMPILATION
from raybench.datasets.splits import Array
from raybench.engines.base import EngineParts, EpochResult
from raybench.engines.step_timer import StepTimer
from raybench.engines.torch.checkpoint_state import RandomStates
from raybench.engines.torch.engine import TorchEngine
from raybench.engines.torch.images import AugmentationDraws
from raybench.engines.torch.metric_sums import MetricSums
from raybench.engines.torch_xla.distributed import XlaProcessGroup
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


def compilations() -> tuple[int, int]:
    """Number of compiled graphs in this process and their nanoseconds, as counted by XLA."""
    data = metrics.metric_data("CompileTime")
    return (int(data[0]), int(data[1])) if data else (0, 0)


class XlaEngine(TorchEngine):
    """The `torch_xla` engine, on a TPU or on the host's cores.

    XLA counts compilations: `new_shapes` is the number of graphs compiled in an epoch, `compile` their time. The
    setting `compile` has no effect, since everything is compiled; nor has `channels_last`, as XLA chooses layouts.
    """

    _optimizer: XlaOptimizer
    _group: XlaProcessGroup
    _mesh: Mesh | None = None
    _row: torch.Tensor
    """The number of the step in its epoch, on the device [1]."""
    _without_gradients = torch.no_grad  # torch_xla cannot make a view of a weight in inference mode

    def __init__(self, parts: EngineParts) -> None:
        super().__init__(parts)
        if self._recipe.replication == SPMD:
            self._mesh = one_program(self._recipe.devices)

    def build(self) -> None:
        """Build the model and the optimiser; the first step has the trial's seed, for example for dropout."""
        self._random = self._seed
        super().build()
        if self._mesh:  # from the start, as the second step would otherwise be a different graph
            states = [tensor for state in self._optimizer.state.values() for tensor in state.values()]
            for tensor in (*self._model.parameters(), *self._model.buffers(), *states):
                mark_sharding(tensor, self._mesh, (None,) * tensor.dim())

    def _join_group(self) -> XlaProcessGroup:
        return XlaProcessGroup(self._rank)

    def _steps(self, epoch: AugmentationDraws) -> Iterator[AugmentationDraws]:
        row = torch.zeros(1, dtype=torch.int64).to("xla")
        for _ in range(len(epoch.index)):
            self._row, row = row, row + 1  # before the step, so that its graph has the addition, too
            yield epoch.each(self._select)

    def _select(self, table: torch.Tensor) -> torch.Tensor:
        """The step's row of a table [steps, …]: a Python index would be a constant, and each step a different graph."""
        return table.index_select(0, self._row)[0]

    def restore(self, state: Mapping[str, Array], epochs: int) -> None:
        """Restore a state after a number of epochs.

        Raises:
            ValueError: it is not the state of such a model, or the model is spread over devices; nothing was changed.
        """
        if self._mesh:
            raise ValueError("a model that XLA spreads over devices cannot go on from one")
        super().restore(state, epochs)

    def _random_states(self) -> RandomStates:
        def read() -> torch.Tensor:
            return torch.tensor(list(self._random.to_bytes(8, "big")), dtype=torch.uint8)

        def write(state: torch.Tensor) -> None:
            self._random = int.from_bytes(bytes(state.tolist()), "big")

        return {"host": (torch.get_rng_state, torch.set_rng_state), "device": (read, write)}

    def _make_optimizer(self) -> XlaOptimizer:
        recipe = self._recipe
        return build_optimizer(self._model.parameters(), recipe.optimizer_settings, recipe.acting_decay, recipe.decay)

    def train_epoch(self, epoch: int) -> EpochResult:
        """Train one epoch, with its rates on the device in one table."""
        before = compilations()
        with self._ledger.section("train"):
            rate = self._recipe.learning_rate
            steps = range(self._step, self._step + self._order.next_steps)
            rows = [self._optimizer.numbers(rate * self._factor(step), step) for step in steps]
            self._numbers = torch.tensor(rows, dtype=torch.float32).to(self._on)
        result = super().train_epoch(epoch)
        return replace(result, new_shapes=self._compiled(before, "train"))

    def evaluate(self) -> tuple[Mapping[str, float], int]:
        """Evaluate the whole validation set in batches of one shape, without the padding."""
        before = compilations()
        means, _ = super().evaluate()
        return means, self._compiled(before, "evaluate")

    def _compiled(self, previous: tuple[int, int], section: str) -> int:
        """Charge new compilations to a section's compilation; return the number of graphs."""
        (count, total_ns), (count_before, previous_ns) = compilations(), previous
        self._ledger.move(total_ns - previous_ns, section, COMPILATION[section])
        return count - count_before

    def _charge(self, steps: StepTimer, section: str) -> None:
        """Do nothing, because XLA counts compilations itself."""

    def _compile_evaluation(self) -> None:
        """Do nothing, for the same reason."""

    def _forward(self, inputs: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, Mapping[str, torch.Tensor]]:
        if self._mesh:
            for tensor in (inputs, targets):
                mark_sharding(tensor, self._mesh, ("batch", *[None] * (tensor.dim() - 1)))
        return super()._forward(inputs, targets)

    def _train_step(self, inputs: torch.Tensor, targets: torch.Tensor, sums: MetricSums, check: bool) -> None:
        xla_model.set_rng_state(self._random)  # not what is left of it by other graphs, of which waiting makes some
        super()._train_step(inputs, targets, sums, check)
        self._optimizer.zero_grad(set_to_none=True)  # tensors alive at the end of a graph have to be written out
        torch_xla.sync()
        self._random = (INCREMENT + self._random * MULTIPLIER) % 2**64

    def _update(self) -> None:
        self._group.average_gradients(self._model.parameters())
        self._optimizer.step(self._select(self._numbers))
        self._step += 1

    def _evaluation_step(self, inputs: torch.Tensor, targets: torch.Tensor, counts: int, sums: MetricSums) -> None:
        _, values = self._forward(inputs, targets)
        mask = (torch.arange(len(targets)) < counts).to(self._on)
        sums.add({name: torch.where(mask, value, 0) for name, value in values.items()})
        torch_xla.sync()
