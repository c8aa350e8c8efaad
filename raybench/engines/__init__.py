"""Engines: one training loop a framework. A new framework is one new folder and one line here."""

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
    "tensorflow": "raybench.engines.tensorflow.engine:TensorFlowEngine",
}

FRAMEWORKS = tuple(_ENGINES)
"""The frameworks this release can train with."""

VERSIONS = {"torch": 1, "torch_xla": 1, "tensorflow": 1}
"""Raised when the same cell would give other results or other times."""

MODELS = {"torch": "torch", "torch_xla": "torch", "tensorflow": "tensorflow"}
"""In which framework the models are written that a framework trains."""

PRECISIONS: Mapping[str, tuple[str, ...]] = {
    "torch": ("fp32", "tf32", "bf16", "fp16"),
    "torch_xla": ("fp32", "bf16"),
    "tensorflow": ("fp32", "tf32", "bf16"),
}
"""The precisions a framework's engine can compute in, on a device that has them."""

REPLICATIONS: Mapping[str, tuple[str, ...]] = {
    "torch": ("grouped", "devices"),
    "torch_xla": ("grouped", "devices", "spmd"),
    "tensorflow": ("grouped", "devices"),
}
"""How a framework's engine can make replicas."""

SPREAD_ON_HOST: Mapping[str, tuple[str, ...]] = {
    "torch": ("devices",),
    "torch_xla": ("spmd",),
    "tensorflow": ("devices",),
}
"""Those of its forms that work over several devices made of the host's cores."""

RANKED = frozenset({"torch", "torch_xla"})
"""The frameworks that take a process for each replica that has a device of its own; others spread over them in one."""

WITHOUT_EFFECT: Mapping[str, frozenset[str]] = {
    framework: frozenset(name for name, one in SETTINGS.items() if framework in one.ignored_by)
    for framework in FRAMEWORKS
}
"""Settings that change nothing under a framework, and so are no part of its cells."""

ONE_GRAPH = frozenset({"torch_xla", "tensorflow"})
"""The frameworks that compile a whole training step into one program, so that its sections cannot be timed: in pieces
it would be another program."""

WITHOUT: Mapping[str, frozenset[str]] = {
    framework: frozenset(
        name for name, one in SETTINGS.items() if one.engines is not None and framework not in one.engines
    )
    for framework in FRAMEWORKS
}
"""Settings that a framework's engine does not have: a cell that sets one of them cannot be run with it."""

PACKAGES = {"torch": "torch", "torch_xla": "torch_xla", "tensorflow": "tensorflow"}
"""The distribution whose version is the framework's."""

BESIDE: Mapping[str, tuple[str, ...]] = {"torch_xla": ("torch",), "tensorflow": ("keras",)}
"""Further distributions whose versions make a difference to what such a package computes."""

PRELOAD = {
    "torch": ("torch", "torch._dynamo", "torch.optim", "raybench.engines.torch.engine", "raybench.trial.run"),
    "torch_xla": ("torch_xla", "torch._dynamo", "raybench.engines.torch_xla.engine", "raybench.trial.run"),
    "tensorflow": ("raybench.engines.tensorflow.engine", "raybench.trial.run"),
}
"""What a fork template loads, so that no trial pays for it. None of it touches a device."""

_COMPILED = {"TORCHINDUCTOR_CACHE_DIR": "torchinductor", "TRITON_CACHE_DIR": ""}

CACHES: Mapping[str, Mapping[str, str]] = {"torch": _COMPILED, "torch_xla": _COMPILED}
"""Folders in which a framework keeps compiled programs for the next trial: by the variable that says where, what the
folder is called, or nothing if the framework's own choice is a private one. All else that is temporary goes with its
trial."""


def open_engine(framework: str, parts: EngineParts) -> Engine:
    """The engine of a framework, for one trial; imports the framework.

    Raises:
        LookupError: no engine for that framework in this release.
    """
    if framework not in _ENGINES:
        raise LookupError(f"no engine for {framework}; this release has {', '.join(FRAMEWORKS)}")
    module, name = _ENGINES[framework].split(":")
    engine: Engine = getattr(import_module(module), name)(parts)
    return engine


def open_inspection(framework: str) -> ModuleType:
    """The functions that look at a framework's models from outside (`inspection.py` of its engine); imports it."""
    return import_module(f"raybench.engines.{MODELS[framework]}.inspection")


def open_counts(framework: str) -> ModuleType:
    """What counts the work of a framework's models (`flops.py` of its engine); imports the framework."""
    return import_module(f"raybench.engines.{MODELS[framework]}.flops")


def open_operations(framework: str) -> Callable[..., Any]:
    """The operations that probe a device under a framework (`device_probes.py` of its engine); imports it."""
    operations: Callable[..., Any] = import_module(f"raybench.engines.{framework}.device_probes").Operations
    return operations


__all__ = [
    "BESIDE",
    "CACHES",
    "FRAMEWORKS",
    "MODELS",
    "ONE_GRAPH",
    "PACKAGES",
    "PRECISIONS",
    "PRELOAD",
    "RANKED",
    "REPLICATIONS",
    "SPREAD_ON_HOST",
    "VERSIONS",
    "WITHOUT",
    "WITHOUT_EFFECT",
    "Engine",
    "EngineParts",
    "open_counts",
    "open_engine",
    "open_inspection",
    "open_operations",
]
