"""The frameworks that raybench knows, and the training engines of those that declared workloads run in.

A new framework is one record here, and one folder if it has an engine.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from raybench.core.settings import SETTINGS

if TYPE_CHECKING:
    from raybench.engines.base import Engine, EngineParts

NONE = "none"
"""The name of no framework: a loop in Python or NumPy, or one of a library that raybench does not know."""


@dataclass(frozen=True)
class Framework:
    """A framework.

    Attributes:
        package: the distribution whose version is the framework's.
        preload: modules that are loaded before a trial's process starts, so that no trial pays for their import. None
            of them initializes a device.
        folder: its package in `raybench.engines`, with its user loop and device probes; empty if it has none.
        engine: "module:class" of its engine; empty if only training functions and commands run in it.
        models: the framework in which its models are written.
        other_packages: distributions whose versions affect its results, too.
        precisions: those of its engine, on a device that supports them.
        compile_modes: values of the setting `compile` of its engine, if it has an effect.
        groups: whether a device may have several replicas, each with its own batch statistics.
        spreads: whether it trains on several devices, also on a CPU.
        has_ranks: whether each of those has a process; otherwise one process uses all devices.
    """

    package: str
    preload: tuple[str, ...] = ("raybench.trial.record",)
    folder: str = ""
    engine: str = ""
    models: str = "torch"
    other_packages: tuple[str, ...] = ()
    precisions: tuple[str, ...] = ()
    compile_modes: tuple[bool | str, ...] = ()
    groups: bool = True
    spreads: bool = False
    has_ranks: bool = False


_TORCH_PRELOAD = ("torch", "torch._dynamo", "torch.optim", "raybench.engines.torch.engine", "raybench.trial.record")

FRAMEWORKS: Mapping[str, Framework] = {
    "torch": Framework(
        package="torch",
        preload=_TORCH_PRELOAD,
        folder="torch",
        engine="raybench.engines.torch.engine:TorchEngine",
        precisions=("fp32", "tf32", "bf16", "fp16"),
        compile_modes=(False, True, *SETTINGS["compile"].names),
        spreads=True,
        has_ranks=True,
    ),
    "torch_xla": Framework(
        package="torch_xla",
        preload=("torch_xla", "torch._dynamo", "raybench.engines.torch_xla.engine", "raybench.trial.record"),
        folder="torch_xla",
        engine="raybench.engines.torch_xla.engine:XlaEngine",
        other_packages=("torch",),
        precisions=("fp32", "bf16"),
        spreads=True,
    ),
    "torch_tpu": Framework(
        package="torch_tpu",
        preload=_TORCH_PRELOAD,
        folder="torch",
        engine="raybench.engines.torch.engine:TorchEngine",
        other_packages=("torch",),
        precisions=("fp32", "bf16"),
        compile_modes=(False, True, "default"),
    ),
    "tensorflow": Framework(
        package="tensorflow",
        preload=("raybench.engines.tensorflow.engine", "raybench.trial.record"),
        folder="tensorflow",
        engine="raybench.engines.tensorflow.engine:TensorFlowEngine",
        models="tensorflow",
        groups=False,
        other_packages=("keras",),
        precisions=("fp32", "tf32", "bf16"),
        compile_modes=(False, True, "default"),
    ),
    # Nothing of JAX is preloaded: it starts threads, and a process with threads cannot be forked safely.
    "jax": Framework(package="jax", spreads=True),
    NONE: Framework(package="numpy"),
}

ENGINES = tuple(name for name, framework in FRAMEWORKS.items() if framework.engine)
"""The frameworks that declared workloads run in."""


def ignored_settings(framework: str) -> frozenset[str]:
    """Settings without effect under a framework, which are not part of its cells."""
    return frozenset(name for name, setting in SETTINGS.items() if framework in setting.ignored_by)


def open_engine(framework: str, parts: EngineParts) -> Engine:
    """Create the engine of a framework for one trial; import the framework."""
    engine: Engine = pkgutil.resolve_name(FRAMEWORKS[framework].engine)(parts)
    return engine


def open_inspection(framework: str) -> ModuleType:
    """Import the `inspection` module of a framework's models, which reads and writes weights and computes outputs."""
    return import_module(f"raybench.engines.{FRAMEWORKS[framework].models}.inspection")


def open_counts(framework: str) -> ModuleType:
    """Import the `flops` module of a framework's models, which counts a model's work."""
    return import_module(f"raybench.engines.{FRAMEWORKS[framework].models}.flops")


def open_operations(framework: str) -> Callable[..., Any]:
    """Import the device-probe operations of a framework (`device_probes.py` in its folder)."""
    module = import_module(f"raybench.engines.{FRAMEWORKS[framework].folder}.device_probes")
    operations: Callable[..., Any] = module.Operations
    return operations
