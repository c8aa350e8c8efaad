"""Environments for frameworks that conflict with the newest torch: lists of requirements, built by uv or pip."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from raybench.datasets.paths import user_cache, user_path
from raybench.devices import KINDS
from raybench.errors import ExecutionError, UsageError, nearest

NEEDED_BY_TRIALS = ("numpy>=1.26,<3", "scikit-learn>=1.3,<2")
"""Requirements of every trial in addition to a framework; scikit-learn has the digits data set."""

STAMP = "built.json"
"""File with the digest of the installed requirements, written last: an environment without it is incomplete."""

OF_ONE_INTERPRETER = ("PYTHONPATH", "PYTHONHOME", "PYTHONEXECUTABLE", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__")
"""Variables with module paths of one interpreter, which would mislead a different one."""

PIP_TARGETS = ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_PYTHON", "PIP_USER")
"""Variables that would install packages elsewhere."""


@dataclass(frozen=True)
class EnvironmentRecipe:
    """An environment that raybench builds.

    Attributes:
        framework: of its trials.
        extra: the requirements of raybench's extra of the same name.
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
        return self.extra + NEEDED_BY_TRIALS

    @property
    def folder(self) -> Path:
        """Its folder on this machine."""
        return environments_root() / self.name

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "venv" / "bin" / "python"

    @property
    def state(self) -> str:
        """`ready`, `not built`, or `stale` if its requirements have changed since."""
        try:
            built = (self.folder / STAMP).read_text(encoding="utf-8")
        except (OSError, ValueError):
            return "not built"
        return "ready" if built == self.stamp else "stale"

    @property
    def stamp(self) -> str:
        """The content of its `STAMP`."""
        digest = hashlib.sha256(json.dumps(self.requirements).encode()).hexdigest()[:12]
        return json.dumps({"recipe": digest})

    def create(self, rebuild: bool = False) -> None:
        """Build it if it is missing or stale; a second process waits for the first.

        The installer writes its progress and errors to this process's output.

        Raises:
            UsageError: its folder is not writable.
            ExecutionError: the installer failed.
        """
        from filelock import FileLock

        try:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(self.folder.parent / f".{self.name}.lock"):  # the system releases it if its holder dies
                if rebuild or self.state != "ready":
                    shutil.rmtree(self.folder, ignore_errors=True)
                    self.folder.mkdir()
                    try:
                        self._install()
                    except BaseException:
                        shutil.rmtree(self.folder, ignore_errors=True)  # an unusable environment may take gigabytes
                        raise
        except OSError as error:
            reason = error.strerror or error
            raise UsageError(f"{self.folder}: cannot write there ({reason}); change RAYBENCH_ENVIRONMENTS") from None

    def _install(self) -> None:
        venv, python = str(self.folder / "venv"), str(self.python)
        make, install = [sys.executable, "-P", "-m", "venv", venv], [python, "-P", "-m", "pip", "install", "--no-input"]
        if uv := shutil.which("uv"):
            make, install = [uv, "venv", "--python", sys.executable, venv], [uv, "pip", "install", "--python", python]
        environ = {name: value for name, value in clean_environ().items() if name not in PIP_TARGETS}
        for command in (make, [*install, *self.requirements]):
            status = subprocess.run(command, env=environ, stdin=subprocess.DEVNULL, check=False).returncode
            if status:
                problem = f"environment {self.name} could not be built: exit status {status} of {command[0]}"
                raise ExecutionError(problem)
        (self.folder / STAMP).write_text(self.stamp, encoding="utf-8")


_ALL = (
    # torch_xla 2.9 is built for torch 2.9 and declares no torch dependency, so the version is pinned here.
    EnvironmentRecipe(
        "xla", "torch_xla", ("torch>=2.9,<2.10", "torch_xla>=2.9,<2.10"), "torch_xla on the CPU: kind xla_cpu"
    ),
    EnvironmentRecipe("tpu", "torch_xla", ("torch>=2.9,<2.10", "torch_xla[tpu]>=2.9,<2.10"), "torch_xla on a TPU host"),
    EnvironmentRecipe("torch_tpu", "torch_tpu", ("torch_tpu>=0.2,<0.3",), "PyTorch on a TPU host, by TorchTPU"),
    EnvironmentRecipe("tensorflow", "tensorflow", ("tensorflow>=2.20",), "TensorFlow and Keras 3", True),
)

RECIPES = {recipe.name: recipe for recipe in _ALL}


def environments_root() -> Path:
    """The folder of the built environments: RAYBENCH_ENVIRONMENTS, else `environments` in the user's cache folder."""
    setting = os.environ.get("RAYBENCH_ENVIRONMENTS")
    return user_path(setting).absolute() if setting else user_cache() / "environments"


def get(name: str) -> EnvironmentRecipe:
    """Look up a recipe by name.

    Raises:
        UsageError: there is none; the message has the nearest name.
    """
    if name not in RECIPES:
        raise UsageError(f"unknown environment {name!r}; {nearest(name, RECIPES)}")
    return RECIPES[name]


def recipe_for(framework: str, kind: str) -> EnvironmentRecipe | None:
    """The recipe for a framework on a device kind; otherwise any recipe for the framework; None if there is none."""
    name = KINDS[kind].environments.get(framework) if kind in KINDS else None
    return next((recipe for recipe in _ALL if recipe.framework == framework and name in (None, recipe.name)), None)


def built_names() -> list[str]:
    """Names of the environments that were built on this machine, ready or stale."""
    return [name for name, recipe in RECIPES.items() if recipe.state != "not built"]


def python_of(name: str) -> Path | None:
    """The interpreter of a recipe's environment; None unless it is ready."""
    recipe = get(name)
    return recipe.python if recipe.state == "ready" else None


def clean_environ() -> dict[str, str]:
    """This process's environment variables without those of its own interpreter."""
    return {name: value for name, value in os.environ.items() if name not in OF_ONE_INTERPRETER}
