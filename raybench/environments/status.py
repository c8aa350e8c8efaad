"""The environments built on this machine, and whether they can be used."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from raybench.datasets.paths import user_cache, user_path
from raybench.environments.recipes import RECIPES, Recipe, get
from raybench.environments.subprocess_python import NoPythonError, query_python

STAMP = "built.json"
"""File that is written last; an environment without it is incomplete."""

VENV = "venv"
LOG = "install.log"

State = Literal["ready", "stale", "not built"]


@dataclass(frozen=True)
class BuiltEnvironment:
    """The state of a recipe's environment on this machine.

    Attributes:
        folder: its folder, with the virtual environment, pip's output and the stamp.
        reason: why it is stale; empty if it is not.
        version: of its Python, when it was built.
        packages: distributions that the recipe names, with their versions.
        size: bytes on disk, when it was built.
    """

    recipe: Recipe
    folder: Path
    state: State
    reason: str = ""
    version: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)
    size: int = 0

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / VENV / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def environments_root() -> Path:
    """The folder of the built environments: RAYBENCH_ENVIRONMENTS, else `environments` in the user's cache folder."""
    setting = os.environ.get("RAYBENCH_ENVIRONMENTS")
    return user_path(setting).absolute() if setting else user_cache() / "environments"


def environment_status(name: str) -> BuiltEnvironment:
    """The state of a recipe's environment.

    Its Python is run to read the version; no package is imported.

    Raises:
        UsageError: there is no such recipe.
    """
    recipe = get(name)
    folder = environments_root() / name
    missing = BuiltEnvironment(recipe, folder, "not built")
    try:
        stamp = json.loads((folder / STAMP).read_text(encoding="utf-8"))
        version, packages, size = str(stamp["python"]), dict(stamp["packages"]), int(stamp["size"])
        reason = "its recipe has changed" if stamp["recipe"] != recipe.digest else ""
    except (OSError, ValueError, KeyError, TypeError):
        return missing
    reason = reason or _python_changed(missing.python, version)
    return BuiltEnvironment(recipe, folder, "stale" if reason else "ready", reason, version, packages, size)


def built_names() -> list[str]:
    """Names of the environments that were built on this machine, ready or stale."""
    return [name for name in RECIPES if (environments_root() / name / STAMP).is_file()]


def _python_changed(python: Path, version: str) -> str:
    """The reason if an environment's Python has changed; empty if it has not.

    Packages are installed for one minor version of Python, and a virtual environment links to the Python it was made
    with.
    """
    try:
        current = query_python(python)["python"]
    except NoPythonError as error:
        return f"its Python {version}: {error}"
    unchanged = current.split(".")[:2] == version.split(".")[:2]
    return "" if unchanged else f"built for Python {version}, but its Python is now {current}"


def python_of(name: str) -> Path | None:
    """The interpreter of a built environment; None unless it is ready.

    Raises:
        UsageError: there is no such recipe.
    """
    env = environment_status(name)
    return env.python if env.state == "ready" else None
