"""What raybench can build an environment of: a framework that cannot stand beside the newest torch, and its data."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from raybench.devices import KINDS
from raybench.errors import UsageError, nearest

TRIALS = ("numpy>=1.26", "scikit-learn>=1.5")
"""What raybench's trial layer needs beside a framework; scikit-learn has the digits data set."""


@dataclass(frozen=True)
class Recipe:
    """What an environment is made of.

    Attributes:
        framework: what trials in it train with.
        extra: the requirements that it shares with raybench's extra of the same name.
        purpose: what it is for, in a few words.
        in_own_environment: whether it can be installed beside the newest torch, as its extra of the same name, in
            its own environment.
    """

    name: str
    framework: str
    extra: tuple[str, ...]
    purpose: str
    in_own_environment: bool = False

    @property
    def requirements(self) -> tuple[str, ...]:
        """Everything pip is asked for. raybench itself is not among it: a trial's process brings its own."""
        return self.extra + TRIALS

    @property
    def digest(self) -> str:
        """The first 12 hex digits of the SHA-256 of the requirements: another recipe is another environment."""
        return hashlib.sha256(json.dumps(self.requirements).encode()).hexdigest()[:12]


RECIPES = {
    recipe.name: recipe
    for recipe in (
        # torch_xla 2.9 is built for torch 2.9 and declares no torch dependency, so the pin is ours.
        Recipe(
            "xla",
            "torch_xla",
            ("torch>=2.9,<2.10", "torch_xla>=2.9,<2.10"),
            "torch_xla on the CPU: kind xla_cpu",
        ),
        Recipe("tpu", "torch_xla", ("torch>=2.9,<2.10", "torch_xla[tpu]>=2.9,<2.10"), "torch_xla on a TPU host"),
        Recipe("tensorflow", "tensorflow", ("tensorflow>=2.20",), "TensorFlow and Keras 3", True),
    )
}


def get(name: str) -> Recipe:
    """The recipe of that name.

    Raises:
        UsageError: there is none; the message has the nearest name.
    """
    if name not in RECIPES:
        raise UsageError(f"unknown environment {name!r}; {nearest(name, RECIPES)}")
    return RECIPES[name]


def recipe_for(framework: str, kind: str) -> Recipe | None:
    """The recipe that brings a framework to a device kind, or at least the framework; None where there is none."""
    name = KINDS[kind].environments.get(framework) if kind in KINDS else None
    if name:
        return RECIPES[name]
    return next((recipe for recipe in RECIPES.values() if recipe.framework == framework), None)
