"""Facts of a framework that are needed to time a training loop.

raybench's own engines know when a step ends, what is compiled and which optimizer they built. In a loop of the user,
the framework has to be asked. `LoopFacts` answers for frameworks that cannot be asked; the others have subclasses.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from importlib import import_module

from raybench.devices import KINDS, Device
from raybench.engines import FRAMEWORKS, NONE
from raybench.engines.step_timer import SETTLING

_BY_MODULE = {
    **{name: name for name in ("torch_xla", "torch_tpu", "jax", "tensorflow", "torch")},
    **dict.fromkeys(("transformers", "lightning", "pytorch_lightning"), "torch"),
    "keras": "tensorflow",
}
"""Modules by which a framework is recognized, the most specific one first."""


@dataclass(frozen=True)
class OptimizerSettings:
    """Settings of an optimizer of this class, or of one of its parameter groups, in the first step of an epoch."""

    name: str
    lr: float | None
    weight_decay: float | None


class LoopFacts:
    """Facts of a framework about a loop of the user.

    Attributes:
        graphs: returns the number of graphs that the framework has compiled; None if it is not known.
        after_step: finishes the work of a step; None if nothing is to be done.
        counts_compilation: whether `compile_ns` knows the time of compilation, so that it is not derived from steps.
        settling: the steps after a compiled one that count as compilation too.
        ranks_in_step: whether all ranks have the same sections in the same order, so that they can begin them together.
    """

    graphs: Callable[[], int] | None = None
    after_step: Callable[[], None] | None = None
    settling = SETTLING
    ranks_in_step = False
    counts_compilation = False

    def __init__(self, device: Device) -> None:
        self._device = device

    @property
    def device_name(self) -> str:
        """The framework's name of the device."""
        return self._device.kind

    def on_host(self, array: object) -> bool:
        """Return whether a batch's array is in the host's memory."""
        return True

    def compile_ns(self) -> int:
        """Nanoseconds of compilation in this process, as counted by the framework; 0 if it does not count them."""
        return 0

    def begin_epoch(self) -> None:
        """Start to count the optimizer's steps and to note its settings."""

    def optimizer_steps(self) -> int | None:
        """Steps since `begin_epoch` of the optimizer that took most; None if they are not counted."""
        return None

    def optimizers(self) -> Sequence[OptimizerSettings]:
        """Settings of the optimizers that took a step since `begin_epoch`; empty if they are not known."""
        return ()

    def misuse(self) -> str:
        """What the program did wrong with its devices, at the end of its training; empty if nothing is known."""
        return ""

    def close(self) -> None:
        """End the counting."""


def recognize(modules: Collection[str]) -> str:
    """The framework of a program, by the names of the modules that it imports; `none` if there is none."""
    return next((framework for name, framework in _BY_MODULE.items() if name in modules), NONE)


def loaded_framework() -> str:
    """The framework that this process has imported."""
    modules = set(sys.modules)
    if "tensorflow" in modules:
        modules.discard("jax")  # TensorFlow imports it, if it is installed
    if "torch_tpu" in modules and not sys.modules["torch"].accelerator.is_available():
        modules.discard("torch_tpu")  # torch imports it, if it is installed
    return recognize(modules)


def available_kind(framework: str) -> str:
    """The kind of device that a framework computes on by default, in this process; empty for an unknown accelerator."""
    module = sys.modules.get(framework)
    if module is None:
        return "cpu"
    # The host last: torch does not know every accelerator, and without one it says that it computes on the CPU.
    kinds = ((kind.name, kind.in_use.get(framework)) for kind in sorted(KINDS.values(), key=lambda kind: kind.on_host))
    return next((name for name, is_in_use in kinds if is_in_use and is_in_use(module)), "")


def open_loop(framework: str, device: Device) -> LoopFacts:
    """Create the facts of a framework; import the framework, if it has its own."""
    folder = FRAMEWORKS[framework].folder
    loop: LoopFacts = (
        import_module(f"raybench.engines.{folder}.loop_facts").Loop(device) if folder else LoopFacts(device)
    )
    return loop
