"""Environments built on this machine, by uv if it is installed, else by venv and pip."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from raybench.datasets.paths import user_cache, user_path
from raybench.environments.recipes import RECIPES, Recipe, get
from raybench.errors import ExecutionError, UsageError

STAMP = "built.json"
"""File that is written last; an environment without it is incomplete."""

OWN_VARIABLES = ("PYTHONPATH", "PYTHONHOME", "PYTHONEXECUTABLE", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__")
"""Variables with module paths of one interpreter, which would mislead a different one."""

PIP_TARGETS = ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_PYTHON", "PIP_USER")
"""Variables that would install packages elsewhere."""


@dataclass(frozen=True)
class BuiltEnvironment:
    """The state of a recipe's environment on this machine; stale if its recipe has changed since it was built."""

    recipe: Recipe
    folder: Path
    state: Literal["ready", "stale", "not built"]

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "venv" / "bin" / "python"


def environments_root() -> Path:
    """The folder of the built environments: RAYBENCH_ENVIRONMENTS, else `environments` in the user's cache folder."""
    setting = os.environ.get("RAYBENCH_ENVIRONMENTS")
    return user_path(setting).absolute() if setting else user_cache() / "environments"


def environment_status(name: str) -> BuiltEnvironment:
    """The state of a recipe's environment.

    Raises:
        UsageError: there is no such recipe.
    """
    recipe, folder = get(name), environments_root() / name
    try:
        digest = json.loads((folder / STAMP).read_text(encoding="utf-8"))["recipe"]
    except (OSError, ValueError, KeyError, TypeError):
        return BuiltEnvironment(recipe, folder, "not built")
    return BuiltEnvironment(recipe, folder, "ready" if digest == recipe.digest else "stale")


def built_names() -> list[str]:
    """Names of the environments that were built on this machine, ready or stale."""
    return [name for name in RECIPES if environment_status(name).state != "not built"]


def python_of(name: str) -> Path | None:
    """The interpreter of a built environment; None unless it is ready.

    Raises:
        UsageError: there is no such recipe.
    """
    env = environment_status(name)
    return env.python if env.state == "ready" else None


def clean_environ() -> dict[str, str]:
    """This process's environment variables without those of its own interpreter."""
    return {name: value for name, value in os.environ.items() if name not in OWN_VARIABLES}


def create(name: str, rebuild: bool = False) -> None:
    """Build the environment of a recipe if it is missing or stale; a second process waits for the first.

    The installer writes its progress and errors to this process's output.

    Raises:
        UsageError: there is no such recipe, or its folder is not writable.
        ExecutionError: the installer failed.
    """
    from filelock import FileLock

    env = environment_status(name)
    try:
        env.folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(env.folder.parent / f".{name}.lock"):  # the system releases it if its holder dies
            if rebuild or environment_status(name).state != "ready":
                shutil.rmtree(env.folder, ignore_errors=True)
                env.folder.mkdir()
                try:
                    _install(env)
                except BaseException:
                    shutil.rmtree(env.folder, ignore_errors=True)  # an unusable environment may take gigabytes
                    raise
    except OSError as error:
        reason = error.strerror or error
        raise UsageError(f"{env.folder}: cannot write there ({reason}); change RAYBENCH_ENVIRONMENTS") from None


def _install(env: BuiltEnvironment) -> None:
    """Create the virtual environment and install the requirements.

    Raises:
        ExecutionError: one of the commands failed.
    """
    venv, python = str(env.folder / "venv"), str(env.python)
    make, install = [sys.executable, "-P", "-m", "venv", venv], [python, "-P", "-m", "pip", "install", "--no-input"]
    if uv := shutil.which("uv"):
        make, install = [uv, "venv", "--python", sys.executable, venv], [uv, "pip", "install", "--python", python]
    environ = {variable: value for variable, value in clean_environ().items() if variable not in PIP_TARGETS}
    for command in (make, [*install, *env.recipe.requirements]):
        status = subprocess.run(command, env=environ, stdin=subprocess.DEVNULL, check=False).returncode
        if status:
            problem = f"environment {env.recipe.name} could not be built: exit status {status} of {command[0]}"
            raise ExecutionError(problem)
    (env.folder / STAMP).write_text(json.dumps({"recipe": env.recipe.digest}), encoding="utf-8")
