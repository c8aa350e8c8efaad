"""The frameworks that raybench knows, and the training engines of those that declared workloads run in.

A new framework is one record here, and one folder if it has an engine.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from raybench.core.settings import SETTINGS, TRAINING
from raybench.core.text import format_value, join_words

if TYPE_CHECKING:
    from raybench.engines.base import Engine, EngineParts

NONE = "none"  # the name of no framework: a loop in Python or NumPy, or one of a library that raybench does not know


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
        settings: those that its engine implements, each with the implemented values; () for any. A setting that is
            not here keeps its default: a cell with a different value is skipped.
        ignores: settings without effect in its engine, which are not part of its cells.
        spreads: whether it trains on several devices, also on a CPU.
        has_ranks: whether each of those has a process; otherwise one process uses all devices.
    """

    package: str
    preload: tuple[str, ...] = ("raybench.trial.record",)
    folder: str = ""
    engine: str = ""
    models: str = "torch"
    other_packages: tuple[str, ...] = ()
    settings: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    ignores: frozenset[str] = frozenset()
    spreads: bool = False
    has_ranks: bool = False


_TORCH_PRELOAD = ("torch", "torch._dynamo", "torch.optim", "raybench.engines.torch.engine", "raybench.trial.record")

_OF_ANY_VALUE = """epochs batch_size evaluation_batch_size steps_per_epoch learning_rate weight_decay model momentum
nesterov betas eps label_smoothing gradient_clipping gradient_accumulation"""
_IN_ALL: Mapping[str, tuple[Any, ...]] = dict.fromkeys(_OF_ANY_VALUE.split(), ()) | {
    "optimizer": ("sgd", "adam", "adamw"),
    "decay": ("coupled", "decoupled"),
    "decay_rule": ("mean", "sum_over_replicas"),
    "schedule": ("constant", "piecewise_linear", "exponential", "cosine"),
    "augmentation": ("crop", "flip", "cutout"),
    "input": ("device", "host"),
}
"""The settings that every engine implements."""

FRAMEWORKS: Mapping[str, Framework] = {
    "torch": Framework(
        package="torch",
        preload=_TORCH_PRELOAD,
        folder="torch",
        engine="raybench.engines.torch.engine:TorchEngine",
        settings={
            **_IN_ALL,
            "replicas": (),
            "channels_last": (),
            "precision": ("fp32", "tf32", "bf16", "fp16"),
            "compile": (False, "default", "reduce-overhead", "max-autotune"),
        },
        spreads=True,
        has_ranks=True,
    ),
    "torch_xla": Framework(
        package="torch_xla",
        preload=("torch_xla", "torch._dynamo", "raybench.engines.torch_xla.engine", "raybench.trial.record"),
        folder="torch_xla",
        engine="raybench.engines.torch_xla.engine:XlaEngine",
        other_packages=("torch",),
        settings={**_IN_ALL, "replicas": (), "precision": ("fp32", "bf16")},
        ignores=frozenset({"channels_last", "compile"}),  # XLA chooses layouts, and compiles everything
        spreads=True,
    ),
    "torch_tpu": Framework(
        package="torch_tpu",
        preload=_TORCH_PRELOAD,
        folder="torch",
        engine="raybench.engines.torch.engine:TorchEngine",
        other_packages=("torch",),
        settings={
            **_IN_ALL,
            "replicas": (),
            "channels_last": (),
            "precision": ("fp32", "bf16"),
            "compile": (False, "default"),
        },
    ),
    "tensorflow": Framework(
        package="tensorflow",
        preload=("raybench.engines.tensorflow.engine", "raybench.trial.record"),
        folder="tensorflow",
        engine="raybench.engines.tensorflow.engine:TensorFlowEngine",
        models="tensorflow",
        other_packages=("keras",),
        settings={
            **_IN_ALL,
            "replicas": (1,),
            "precision": ("fp32", "tf32", "bf16"),
            "compile": (False, "default"),
        },
        ignores=frozenset({"channels_last"}),  # TensorFlow's own layout
    ),
    # Nothing of JAX is preloaded: it starts threads, and a process with threads cannot be forked safely.
    "jax": Framework(package="jax", spreads=True),
    NONE: Framework(package="numpy"),
}

ENGINES = tuple(name for name, framework in FRAMEWORKS.items() if framework.engine)
"""The frameworks that declared workloads run in."""


def unimplemented(framework: str, settings: Mapping[str, Any]) -> str:
    """The reason why a framework's engine cannot train with these settings; empty if it can."""
    record = FRAMEWORKS[framework]
    for name in (*TRAINING, "replicas"):
        value = SETTINGS[name].canonical_value(settings.get(name, SETTINGS[name].default))
        if name in record.ignores or value == SETTINGS[name].default:
            continue
        values = record.settings.get(name)
        if values is None:
            return f"raybench's {framework} engine has no {name}; remove it"
        if values and (wrong := [part for part in _names(value) if part not in values]):
            usable = join_words(["false" if value is False else format_value(value) for value in values], "or")
            return f"raybench's {framework} engine has no {name}: {format_value(wrong[0])}; use {usable}"
    return ""


def _names(value: Any) -> list[Any]:
    """The names in a setting's value: of a list those of its parts, of a map its `name` or its keys."""
    if isinstance(value, Mapping):
        return [value["name"]] if "name" in value else [*value]
    return [name for part in value for name in _names(part)] if isinstance(value, (list, tuple)) else [value]


def open_engine(framework: str, parts: EngineParts) -> Engine:
    """Create the engine of a framework for one trial; import the framework."""
    engine: Engine = pkgutil.resolve_name(FRAMEWORKS[framework].engine)(parts)
    return engine


def open_module(framework: str, name: str) -> ModuleType:
    """Import `device_probes` of a framework or, of the framework in which its models are written, `flops`."""
    record = FRAMEWORKS[framework]
    return import_module(f"raybench.engines.{record.models if name == 'flops' else record.folder}.{name}")
