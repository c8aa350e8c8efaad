"""Counts of what the host dispatches in a training step: operations, waits for the device, copies and marks.

On the CPU nothing is copied and nothing waits; on `meta` tensors have no values, so that a model of any size is fast,
and every copy between the host and the device is seen, as on a GPU.
"""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from raybench.core.job import Recipe
from raybench.core.ledger import Ledger
from raybench.datasets.splits import Data, Split
from raybench.devices import Assignment
from raybench.devices.cpu import TorchHost
from raybench.engines.base import EngineParts
from raybench.engines.step_timer import StepTimer
from raybench.engines.torch.engine import TorchEngine
from raybench.engines.user_loop import open_loop
from raybench.training.clock import TrainingClock
from raybench.training.trial import Trial, TrialOptions
from raybench.workloads.base import Workload
from support.recorded_trial import Kept

KINDS = ("cpu", "meta")
STEPS = 3
"""Steps of an epoch and batches of an evaluation, of which the second is counted."""

COLUMNS = ("operations", "views", "waits", "copies", "marks")

aten = torch.ops.aten
WAITING = {aten._local_scalar_dense.default, aten.nonzero.default, aten.equal.default, aten.masked_select.default}
COPYING = {aten._to_copy.default, aten.copy_.default}
INDEXED = {aten.index.Tensor, aten.index_put_.default, aten.index_put.default}


@dataclass(frozen=True)
class Counts:
    """Numbers per step.

    Attributes:
        operations: all operations that torch dispatches, except for views.
        views: tensors that share the memory of others; a GPU does nothing for them.
        waits: operations for which the host waits: a value that is read, a copy to the host, a copy to the device from
            memory that may not be pinned, a selection by a mask, and calls of `synchronize`.
        copies: copies between the host and the device, in both directions.
        marks: points in the device's stream, whose times are read later.
    """

    operations: float = 0
    views: float = 0
    waits: float = 0
    copies: float = 0
    marks: float = 0


class CountedDevice(TorchHost):
    """A device for torch without hardware of its own: `cpu`, or `meta` with the properties of a GPU."""

    def __init__(self, name: str) -> None:
        super().__init__(Assignment([], (), torch.get_num_threads()))
        self.torch_name = name
        self.synchronous, self.own_clock = name == "cpu", name != "cpu"
        self.pins_memory = name != "cpu"
        self.marks = self.waits = 0

    def synchronize(self) -> None:
        """Count a wait."""
        self.waits += 1

    def mark(self) -> int:  # type: ignore[override]
        """Count a mark."""
        self.marks += 1
        return time.perf_counter_ns()


class DispatchCounter(TorchDispatchMode):
    """Counts what is dispatched while it is active.

    Values that the host reads from `meta` are zeros.

    Attributes:
        by_name: the number of dispatches of each operation.
        before, names_before: the counts at each begin of a step.
    """

    def __init__(self, device: CountedDevice) -> None:
        super().__init__()
        self._device, self._kind = device, device.torch_name
        self._operations = self._views = self._waits = self._copies = 0
        self.by_name: Counter[str] = Counter()
        self.before: list[Counts] = []
        self.names_before: list[Counter[str]] = []

    def now(self) -> Counts:
        """The counts since the beginning."""
        device = self._device
        return Counts(self._operations, self._views, self._waits + device.waits, self._copies, device.marks)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        """Count one operation and execute it."""
        given = dict(kwargs or {})
        with self:  # in inference mode, operations arrive that are made of others
            result = func.decompose(*args, **given)
        if result is not NotImplemented:
            return result
        self.by_name[str(func)] += 1
        if func.is_view or func.namespace == "profiler":
            self._views += 1
        else:
            self._operations += 1
        on_meta = self._kind == "meta" and any(is_meta(leaf) for leaf in tree_leaves((args, given)))
        if func in COPYING:
            to_meta = torch.device(given["device"]).type == "meta" if given.get("device") else is_meta(args[0])
            if func is aten._to_copy.default and is_meta(args[0]) and not to_meta:
                self._copies += 1
                self._waits += 1
                return torch.zeros(args[0].shape, dtype=given.get("dtype") or args[0].dtype)
            if func is aten._to_copy.default and to_meta and not is_meta(args[0]):
                self._copies += 1
                self._waits += not given.get("non_blocking")
            if func is aten.copy_.default and is_meta(args[0]) != is_meta(args[1]):
                self._copies += 1
                self._waits += is_meta(args[1]) or not given.get("non_blocking", len(args) > 2 and args[2])
                if is_meta(args[1]):
                    return args[0]
        elif func in WAITING and on_meta == (self._kind == "meta"):  # a counter of an optimizer is on the host
            self._waits += 1
            if on_meta and func is aten._local_scalar_dense.default:
                return 0.0 if args[0].is_floating_point() else 0
        elif func in INDEXED and any(is_mask(index) for index in args[1]):
            self._waits += 1
            if on_meta:  # as if the mask selected everything
                whole = [torch.arange(len(i), device="meta") if is_mask(i) else i for i in args[1]]
                args = (args[0], whole, *args[2:])
        return func(*args, **given)


def is_meta(value: Any) -> bool:
    """Whether it is a tensor on `meta`."""
    return isinstance(value, torch.Tensor) and value.device.type == "meta"


def is_mask(index: Any) -> bool:
    """Whether it is an index that selects by true and false."""
    return isinstance(index, torch.Tensor) and index.dtype in (torch.bool, torch.uint8)


@contextmanager
def counting(kind: str) -> Iterator[tuple[CountedDevice, DispatchCounter]]:
    """Count what is dispatched to a device, and note where each step begins."""
    device = CountedDevice(kind)
    counter = DispatchCounter(device)
    begin = StepTimer.begin

    def noted(timer: StepTimer, *args: Any, **options: Any) -> None:
        counter.before.append(counter.now())
        counter.names_before.append(counter.by_name.copy())
        begin(timer, *args, **options)

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(StepTimer, "begin", noted))
        if kind == "meta":  # which torch's optimizers do not treat as a GPU, and which has no autocast
            supported = "torch.optim.optimizer._get_foreach_kernels_supported_devices"
            stack.enter_context(mock.patch(supported, lambda: ["meta"]))
            stack.enter_context(mock.patch.object(torch, "autocast", lambda *_, **__: nullcontext()))
            stack.enter_context(mock.patch.object(torch.Tensor, "pin_memory", lambda tensor: tensor))
            stack.enter_context(warnings.catch_warnings())
            warnings.filterwarnings("ignore", "for .*: copying from a non-meta parameter")
        stack.enter_context(counter)
        yield device, counter


def mean_of(before: list[Counts], first: int, count: int) -> Counts:
    """The mean over steps: each lasts until the next one begins."""
    start, end = before[first], before[first + count]
    return Counts(*((getattr(end, name) - getattr(start, name)) / count for name in COLUMNS))


def pictures(examples: int) -> Data:
    """Random pictures of the size of CIFAR-10's."""
    random = np.random.default_rng(0)
    inputs = random.integers(0, 256, (examples, 32, 32, 3), np.uint8)
    split = Split(inputs, random.integers(0, 10, examples))
    return Data(split, split)


@dataclass(frozen=True)
class EngineCounts:
    """The counts of a declared workload.

    Attributes:
        step: a training step.
        epoch: what an epoch of training has in addition to its steps.
        evaluation_batch: a batch of an evaluation.
        evaluation: what an evaluation has in addition to its batches.
        by_name: the operations of a training step, by name.
    """

    step: Counts
    epoch: Counts
    evaluation_batch: Counts
    evaluation: Counts
    by_name: Mapping[str, int]


def of_engine(workload: Workload, kind: str, batch: int = 2, **changes: Any) -> EngineCounts:
    """Count an epoch and an evaluation of a declared workload, after a first step and evaluation.

    Args:
        workload: its own settings are used, except for the sizes.
        kind: `cpu` or `meta`.
        batch: examples in a step.
        changes: fields of the recipe that differ.
    """
    settings = {**workload.defaults, "batch_size": batch, "steps_per_epoch": STEPS, "epochs": 2}
    recipe = replace(Recipe.of(settings), **changes)
    with counting(kind) as (device, counter):
        engine = TorchEngine(EngineParts(recipe, workload, device, Ledger(), seed=0))
        engine.load(pictures(batch * STEPS))
        engine.build()
        engine.evaluation_batch = batch
        engine.profile(1)  # a first step makes the state of the optimizer
        engine._is_new("train", batch)
        engine.evaluate()
        step, epoch, by_name = _of_pass(counter, lambda: engine.train_epoch(1))
        evaluation_batch, evaluation, _ = _of_pass(counter, engine.evaluate)
    return EngineCounts(step, epoch, evaluation_batch, evaluation, by_name)


def _of_pass(counter: DispatchCounter, run: Callable[[], object]) -> tuple[Counts, Counts, dict[str, int]]:
    """The counts of the second step of a pass, and what the pass has in addition to its steps."""
    counter.before.clear()
    counter.names_before.clear()
    start = counter.now()
    run()
    whole, step = mean_of([start, counter.now()], 0, 1), mean_of(counter.before, 1, 1)
    rest = Counts(*(getattr(whole, name) - STEPS * getattr(step, name) for name in COLUMNS))
    return step, rest, dict(counter.names_before[2] - counter.names_before[1])


def of_function(train: Callable[..., None], kind: str, steps: int, first: int, **settings: Any) -> Counts:
    """Count the steps of a training function, in one epoch.

    Args:
        train: gets a trial, and the settings.
        kind: `cpu` or `meta`.
        steps: how many are counted.
        first: the number of the first one that is counted, from 0.
        settings: of the function.
    """
    with counting(kind) as (device, counter):
        clock = TrainingClock(Ledger(), device, open_loop("torch", device), lambda phase: None)
        options = TrialOptions(1, Path("/nowhere"), Path("/nowhere"), steps_per_epoch=first + steps + 1)
        trial = Trial(options, Kept(), lambda: clock)
        with mock.patch.object(Trial, "device", kind):
            train(trial, **settings)
        clock.loop.close()
    return mean_of(counter.before, first, steps)
