"""Facts of PyTorch about a training loop of the user: its optimizers, and the graphs that it compiles."""

from __future__ import annotations

import math
import os
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from raybench.devices.base import Device
from raybench.devices.cpu import TorchDevice
from raybench.engines.loop_facts import LoopFacts, OptimizerSettings


def graphs() -> int:
    """Number of graphs that `torch.compile` has compiled in this process, without loading the compiler."""
    compiler = sys.modules.get("torch._dynamo.utils")
    return int(compiler.counters["stats"]["unique_graphs"]) if compiler else 0


class Loop(LoopFacts):
    """A loop in PyTorch."""

    def __init__(self, device: Device) -> None:
        super().__init__(device)
        self.graphs = graphs
        self._steps: Counter[int] = Counter()
        self._settings: dict[int, list[OptimizerSettings]] = {}
        self._hook = register_optimizer_step_post_hook(self._after_optimizer)

    @property
    def device_name(self) -> str:
        """The name for `torch.device`; of several GPUs that torchrun shares out, that of this process."""
        name = cast(TorchDevice, self._device).torch_name
        if not self._device.own_clock:
            return name
        local = int(os.environ.get("LOCAL_RANK", "0"))
        return f"{name}:{local if local < torch.cuda.device_count() else 0}"

    def on_host(self, array: object) -> bool:
        """Return whether a tensor, or any other array, is in the host's memory."""
        return not isinstance(array, torch.Tensor) or array.device.type == "cpu"

    def compile_ns(self) -> int:
        compiler = sys.modules.get("torch._dynamo.utils")
        spent = compiler.cumulative_time_spent_ns if compiler else {}
        return sum(int(spent.get(part, 0)) for part in ("entire_frame_compile", "entire_backward_compile"))

    def begin_epoch(self) -> None:
        self._steps.clear()
        self._settings = {}

    def optimizer_steps(self) -> int | None:
        """Steps since `begin_epoch` of the optimizer that took most; several may share the parameters out.

        None if there were none, since those of a compiled optimizer are not seen.
        """
        return max(self._steps.values(), default=None)

    def optimizers(self) -> Sequence[OptimizerSettings]:
        """Settings of each optimizer and parameter group in its first step since `begin_epoch`, without duplicates."""
        return tuple(dict.fromkeys(entry for entries in self._settings.values() for entry in entries))

    def close(self) -> None:
        self._hook.remove()

    def _after_optimizer(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if torch.compiler.is_compiling():  # a counter in a compiled step would compile it again each time
            return
        self._steps[id(optimizer)] += 1
        if id(optimizer) not in self._settings:
            name = type(optimizer).__name__
            self._settings[id(optimizer)] = [
                OptimizerSettings(name, _number(group.get("lr")), _number(group.get("weight_decay")))
                for group in optimizer.param_groups
            ]


def _number(value: Any) -> float | None:
    try:
        return float(value) if math.isfinite(value) else None
    except (TypeError, ValueError):
        return None
