"""Recipes of environments for frameworks that conflict with the newest torch."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from raybench.devices import KINDS
from raybench.errors import UsageError, nearest

TRIALS = ("numpy>=1.26", "scikit-learn>=1.5")
"""Requirements of every trial in addition to a framework; scikit-learn has the digits data set."""


@dataclass(frozen=True)
class Recipe:
    """The contents of an environment.

    Attributes:
        framework: the framework of its trials.
        extra: the requirements that it shares with raybench's extra of the same name.
        in_own_environment: whether the extra can be installed next to raybench and the newest torch.
    """

    name: str
    framework: str
    extra: tuple[str, ...]
    purpose: str
    in_own_environment: bool = False

    @property
    def requirements(self) -> tuple[str, ...]:
        """All requirements, without raybench: a trial's process brings its own copy."""
        return self.extra + TRIALS

    @property
    def digest(self) -> str:
        """Short hash of the requirements: an environment of a changed recipe is stale."""
        return hashlib.sha256(json.dumps(self.requirements).encode()).hexdigest()[:12]


_ALL = (
    # torch_xla 2.9 is built for torch 2.9 and declares no torch dependency, so the version is pinned here.
    Recipe("xla", "torch_xla", ("torch>=2.9,<2.10", "torch_xla>=2.9,<2.10"), "torch_xla on the CPU: kind xla_cpu"),
    Recipe("tpu", "torch_xla", ("torch>=2.9,<2.10", "torch_xla[tpu]>=2.9,<2.10"), "torch_xla on a TPU host"),
    Recipe("torch_tpu", "torch_tpu", ("torch_tpu>=0.2,<0.3",), "PyTorch on a TPU host, by TorchTPU"),
    Recipe("tensorflow", "tensorflow", ("tensorflow>=2.20",), "TensorFlow and Keras 3", True),
)

RECIPES = {recipe.name: recipe for recipe in _ALL}


def get(name: str) -> Recipe:
    """Look up a recipe by name.

    Raises:
        UsageError: there is none; the message has the nearest name.
    """
    if name not in RECIPES:
        raise UsageError(f"unknown environment {name!r}; {nearest(name, RECIPES)}")
    return RECIPES[name]


def recipe_for(framework: str, kind: str) -> Recipe | None:
    """The recipe for a framework on a device kind; otherwise any recipe for the framework; None if there is none."""
    name = KINDS[kind].environments.get(framework) if kind in KINDS else None
    return next((recipe for recipe in _ALL if recipe.framework == framework and name in (None, recipe.name)), None)
