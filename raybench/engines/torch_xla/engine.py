"""The training loop in PyTorch/XLA: torch's, with one graph a step that is the same graph in every step.

torch_xla writes down what torch would compute; `torch_xla.sync()` at the end of a step compiles the graph, the first
time it is seen, and starts it without waiting. What would make a graph another one is kept out of it: a Python index or
number that changes, a shape that changes, a state that is there in the second step only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
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


def picks(steps: int) -> Iterator[Callable[[torch.Tensor], torch.Tensor]]:
    """For each step, what takes its row of a table [steps, …].

    The row is found by a counter on the device: a Python index would be a constant, and each step another graph.
    """
    next_row = torch.zeros(1, dtype=torch.int64).to("xla")
    for _ in range(steps):
        row, next_row = next_row, next_row + 1

        def pick(table: torch.Tensor, row: torch.Tensor = row) -> torch.Tensor:
            return table.index_select(0, row)[0]

        yield pick


def one_program(devices: int) -> Mesh:
    """Have XLA spread every computation of this process over its devices; the mesh in which a batch is divided.

    Raises:
        RuntimeError: there are more devices, or fewer.
    """
    runtime.use_spmd()
    count = runtime.global_runtime_device_count()
    if count != devices:
        raise RuntimeError(f"planned for {devices} devices, and XLA has {count}")
    return Mesh(np.arange(devices), (devices,), ("batch",))


def compilations() -> tuple[int, int]:
    """How many graphs this process has compiled, and for how many nanoseconds: as XLA counts them."""
    data = metrics.metric_data("CompileTime")
    return (int(data[0]), int(data[1])) if data else (0, 0)


class XlaEngine(TorchEngine):
    """`torch_xla` on a TPU, or on the host's cores through XLA.

    Compilations are counted by XLA itself: `new_shapes` is the graphs an epoch compiled, `compile` the time that took.
    The setting `compile` makes no difference, since everything is compiled; nor `channels_last`: XLA chooses layouts.
    """

    _optimizer: XlaOptimizer
    _together: XlaProcessGroup
    _mesh: Mesh | None = None
    _without_gradients = torch.no_grad  # torch_xla cannot take a view of a weight in inference mode

    def __init__(self, parts: EngineParts) -> None:
        super().__init__(parts)
        if self._recipe.replication == SPMD:
            self._mesh = one_program(self._recipe.devices)

    def build(self) -> None:
        """The model and the optimiser, and the seed of what XLA draws itself, such as dropout."""
        xla_model.set_rng_state(self._seed)
        super().build()
        if self._mesh:  # said of everything from the start, or the second step would be another graph than the first
            states = [tensor for state in self._optimizer.state.values() for tensor in state.values()]
            for tensor in (*self._model.parameters(), *self._model.buffers(), *states):
                mark_sharding(tensor, self._mesh, (None,) * tensor.dim())

    def _meet(self) -> XlaProcessGroup:
        return XlaProcessGroup(self._rank)

    def _steps(self, epoch: AugmentationDraws) -> Iterator[AugmentationDraws]:
        for self._pick in picks(len(epoch.index)):
            yield epoch.each(self._pick)

    def restore(self, state: Mapping[str, Array], epochs: int) -> None:
        """Go on from a state after so many epochs.

        Raises:
            ValueError: it is not the state of such a model, or the model is spread over devices; nothing was changed.
        """
        if self._mesh:
            raise ValueError("a model that XLA spreads over devices cannot go on from one")
        super().restore(state, epochs)

    def _random_states(self) -> RandomStates:
        def read() -> torch.Tensor:
            return torch.tensor(list(xla_model.get_rng_state().to_bytes(8, "big")), dtype=torch.uint8)

        def write(state: torch.Tensor) -> None:
            xla_model.set_rng_state(int.from_bytes(bytes(state.tolist()), "big"))

        return RandomStates({"host": (torch.get_rng_state, torch.set_rng_state), "device": (read, write)})

    def _make_optimizer(self) -> XlaOptimizer:
        recipe = self._recipe
        return build_optimizer(self._model.parameters(), recipe.optimizer_settings, recipe.acting_decay, recipe.decay)

    def train_epoch(self, epoch: int) -> EpochResult:
        """One epoch; its rates and the like go to the device in one table."""
        before = compilations()
        with self._ledger.section("train"):
            rate = self._recipe.learning_rate
            steps = range(self._step, self._step + self._order.next_steps)
            rows = [self._optimizer.numbers(rate * self._factor(step), step) for step in steps]
            self._numbers = torch.tensor(rows, dtype=torch.float32).to(self._on)
        result = super().train_epoch(epoch)
        return replace(result, new_shapes=self._compiled(before, "train"))

    def evaluate(self) -> tuple[Mapping[str, float], int]:
        """The whole validation set in batches of one shape; padding does not count."""
        before = compilations()
        means, _ = super().evaluate()
        return means, self._compiled(before, "evaluate")

    def _compiled(self, previous: tuple[int, int], section: str) -> int:
        """Charge what was compiled since as the compilation of a section; the number of graphs."""
        (count, total_ns), (count_before, previous_ns) = compilations(), previous
        self._ledger.move(total_ns - previous_ns, section, COMPILATION[section])
        return count - count_before

    def _charge(self, steps: StepTimer, section: str) -> None:
        """Nothing to work out from the steps: XLA tells."""

    def _forward(self, inputs: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, Mapping[str, torch.Tensor]]:
        if self._mesh:
            for tensor in (inputs, targets):
                mark_sharding(tensor, self._mesh, ("batch", *[None] * (tensor.dim() - 1)))
        return super()._forward(inputs, targets)

    def _train_step(self, inputs: torch.Tensor, targets: torch.Tensor, sums: MetricSums, check: bool) -> None:
        super()._train_step(inputs, targets, sums, check)
        self._optimizer.zero_grad(set_to_none=True)  # what still lives at the end of a graph has to be written out
        torch_xla.sync()

    def _update(self) -> None:
        self._together.average_gradients(self._model.parameters())
        self._optimizer.step(self._pick(self._numbers))
        self._step += 1

    def _evaluation_step(self, inputs: torch.Tensor, targets: torch.Tensor, counts: int, sums: MetricSums) -> None:
        _, values = self._forward(inputs, targets)
        mask = (torch.arange(len(targets)) < counts).to(self._on)
        sums.add({name: torch.where(mask, value, 0) for name, value in values.items()})
        torch_xla.sync()
