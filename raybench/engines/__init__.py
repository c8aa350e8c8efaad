"""Training engines, one per framework.

A new framework is one new folder and one line here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from raybench.core.settings import SETTINGS
from raybench.engines.base import Engine, EngineParts

_ENGINES = {
    "torch": "raybench.engines.torch.engine:TorchEngine",
    "torch_xla": "raybench.engines.torch_xla.engine:XlaEngine",
    "torch_tpu": "raybench.engines.torch.engine:TorchEngine",
    "tensorflow": "raybench.engines.tensorflow.engine:TensorFlowEngine",
}

FRAMEWORKS = tuple(_ENGINES)
"""The frameworks supported by this release."""


MODELS = {"torch": "torch", "torch_xla": "torch", "torch_tpu": "torch", "tensorflow": "tensorflow"}
"""The framework in which the models of each framework are written."""

CHANNELS_FIRST = frozenset({"torch", "torch_xla", "torch_tpu"})
"""Frameworks whose models receive images as [batch, channels, height, width]."""

PRECISIONS: Mapping[str, tuple[str, ...]] = {
    "torch": ("fp32", "tf32", "bf16", "fp16"),
    "torch_xla": ("fp32", "bf16"),
    "torch_tpu": ("fp32", "bf16"),
    "tensorflow": ("fp32", "tf32", "bf16"),
}
"""Precisions that a framework's engine supports, on a device that supports them."""

COMPILE_MODES: Mapping[str, tuple[bool | str, ...]] = {
    "torch": (False, True, *SETTINGS["compile"].names),
    "torch_tpu": (False, True, "default"),
    "tensorflow": (False, True, "default"),
}
"""Values of the setting `compile` that a framework's engine supports, if it has an effect."""

REPLICATIONS: Mapping[str, tuple[str, ...]] = {
    "torch": ("grouped", "devices"),
    "torch_xla": ("grouped", "devices", "spmd"),
    "torch_tpu": ("grouped",),
    "tensorflow": ("grouped", "devices"),
}
"""Replication modes that a framework's engine supports."""

SPREAD_ON_HOST: Mapping[str, tuple[str, ...]] = {
    "torch": ("devices",),
    "torch_xla": ("spmd",),
    "torch_tpu": (),
    "tensorflow": ("devices",),
}
"""Replication modes that work over several devices made of the host's cores."""

RANKED = frozenset({"torch", "torch_xla"})
"""Frameworks with one process per replica on its own device.

Other frameworks use several devices from one process."""

WITHOUT_EFFECT: Mapping[str, frozenset[str]] = {
    framework: frozenset(name for name, one in SETTINGS.items() if framework in one.ignored_by)
    for framework in FRAMEWORKS
}
"""Settings without effect under a framework, which are not part of its cells."""

WITHOUT: Mapping[str, frozenset[str]] = {
    framework: frozenset(
        name for name, one in SETTINGS.items() if one.engines is not None and framework not in one.engines
    )
    for framework in FRAMEWORKS
}
"""Settings that a framework's engine does not support.

A cell that sets one of them cannot be run with it."""

PACKAGES = {"torch": "torch", "torch_xla": "torch_xla", "torch_tpu": "torch_tpu", "tensorflow": "tensorflow"}
"""The distribution whose version is the framework's."""

BESIDE: Mapping[str, tuple[str, ...]] = {"torch_xla": ("torch",), "torch_tpu": ("torch",), "tensorflow": ("keras",)}
"""Other distributions whose versions affect the results of a package."""

_TORCH = ("torch", "torch._dynamo", "torch.optim", "raybench.engines.torch.engine", "raybench.trial.record")

PRELOAD = {
    "torch": _TORCH,
    "torch_xla": ("torch_xla", "torch._dynamo", "raybench.engines.torch_xla.engine", "raybench.trial.record"),
    "torch_tpu": _TORCH,
    "tensorflow": ("raybench.engines.tensorflow.engine", "raybench.trial.record"),
    # JAX starts threads, and a process with threads cannot be forked safely.
    "jax": ("raybench.trial.record",),
    "none": ("raybench.trial.record",),
}
"""Modules that a fork template loads, so that no trial pays for their import.

None of them initialises a device."""

_COMPILED = {"TORCHINDUCTOR_CACHE_DIR": "torchinductor", "TRITON_CACHE_DIR": ""}

CACHES: Mapping[str, Mapping[str, str]] = dict.fromkeys(("torch", "torch_xla", "torch_tpu"), _COMPILED)
"""Folders of compiled programs that a framework keeps for later trials.

By environment variable, the name of the folder; empty if the framework's own default is private. All other temporary
files are removed with their trial."""


def open_engine(framework: str, parts: EngineParts) -> Engine:
    """Create the engine of a framework for one trial; import the framework.

    Raises:
        LookupError: this release has no engine for that framework.
    """
    if framework not in _ENGINES:
        raise LookupError(f"no engine for {framework}; this release has {', '.join(FRAMEWORKS)}")
    module, name = _ENGINES[framework].split(":")
    engine: Engine = getattr(import_module(module), name)(parts)
    return engine


def open_inspection(framework: str) -> ModuleType:
    """Import the `inspection` module of a framework's engine.

    It reads and writes weights, and computes outputs and gradients of a model.
    """
    return import_module(f"raybench.engines.{MODELS[framework]}.inspection")


def open_counts(framework: str) -> ModuleType:
    """Import the `flops` module of a framework's engine, which counts a model's work."""
    return import_module(f"raybench.engines.{MODELS[framework]}.flops")


def open_operations(framework: str) -> Callable[..., Any]:
    """Import the device-probe operations of a framework (`device_probes.py` of its engine)."""
    package = _ENGINES[framework].partition(":")[0].rpartition(".")[0]
    operations: Callable[..., Any] = import_module(f"{package}.device_probes").Operations
    return operations


__all__ = [
    "BESIDE",
    "CACHES",
    "CHANNELS_FIRST",
    "COMPILE_MODES",
    "FRAMEWORKS",
    "MODELS",
    "PACKAGES",
    "PRECISIONS",
    "PRELOAD",
    "RANKED",
    "REPLICATIONS",
    "SPREAD_ON_HOST",
    "WITHOUT",
    "WITHOUT_EFFECT",
    "Engine",
    "EngineParts",
    "open_counts",
    "open_engine",
    "open_inspection",
    "open_operations",
]
