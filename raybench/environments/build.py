"""Environments built on this machine, by uv if it is installed, else by venv and pip."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from raybench.datasets.paths import user_cache, user_path
from raybench.environments.recipes import RECIPES, Recipe, get
from raybench.errors import ExecutionError, UsageError

Tell = Callable[[str], object]

STAMP = "built.json"
"""File that is written last; an environment without it is incomplete."""

LOG = "install.log"

VERSIONS = """
import json, platform, sys
from importlib import metadata
packages = {name: metadata.version(name) for name in sys.argv[1:]}
print(json.dumps({"version": platform.python_version(), "packages": packages}))
"""


@dataclass(frozen=True)
class BuiltEnvironment:
    """The state of a recipe's environment on this machine.

    Attributes:
        folder: its folder, with the virtual environment, the installer's output and the stamp.
        state: stale if its recipe has changed since it was built.
        version: of its Python, when it was built.
        packages: distributions that the recipe names, with their versions.
        size: bytes on disk, when it was built.
    """

    recipe: Recipe
    folder: Path
    state: Literal["ready", "stale", "not built"] = "not built"
    version: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)
    size: int = 0

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
    recipe = get(name)
    folder = environments_root() / name
    try:
        stamp = json.loads((folder / STAMP).read_text(encoding="utf-8"))
        state: Literal["ready", "stale"] = "ready" if stamp.pop("recipe") == recipe.digest else "stale"
        return BuiltEnvironment(recipe, folder, state, **stamp)
    except (OSError, ValueError, KeyError, TypeError):
        return BuiltEnvironment(recipe, folder)


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


def create(name: str, tell: Tell, rebuild: bool = False) -> BuiltEnvironment:
    """Build an environment if it is missing or stale; a second process waits for the first.

    Args:
        name: the recipe's.
        tell: receives progress messages of one line.
        rebuild: build it again even if it is ready.

    Raises:
        UsageError: there is no such recipe, or its folder is not writable.
        ExecutionError: it cannot be built; the message names the file with all output.
    """
    from filelock import FileLock

    env = environment_status(name)
    try:
        env.folder.mkdir(parents=True, exist_ok=True)
        with FileLock(env.folder.parent / f".{name}.lock"):  # the system releases it if its holder dies
            if environment_status(name).state != "ready" or rebuild:
                _build(env, tell)
    except OSError as error:
        reason = error.strerror or error
        raise UsageError(f"{env.folder}: cannot write there ({reason}); change RAYBENCH_ENVIRONMENTS") from None
    return environment_status(name)


def _build(env: BuiltEnvironment, tell: Tell) -> None:
    folder, venv, requirements = env.folder, env.folder / "venv", env.recipe.requirements
    (folder / STAMP).unlink(missing_ok=True)
    (folder / LOG).unlink(missing_ok=True)
    shutil.rmtree(venv, ignore_errors=True)
    uv = shutil.which("uv")
    if uv:
        make = [uv, "venv", "--python", sys.executable, str(venv)]
        install = [uv, "pip", "install", "--python", str(env.python)]
    else:
        make = [sys.executable, "-P", "-m", "venv", str(venv)]
        install = [str(env.python), "-P", "-m", "pip", "install", "--no-input", "--progress-bar", "off"]
    try:
        tell("creating a virtual environment")
        _run(make, env, tell)
        tell(f"installing {', '.join(requirements)}")
        _run([*install, *requirements], env, tell)
        names = [re.split(r"[^A-Za-z0-9._-]", text)[0] for text in requirements]
        stamp = json.loads(_run([str(env.python), "-P", "-c", VERSIONS, *names], env, tell)[-1])
        size = sum(path.lstat().st_size for path in venv.rglob("*"))
        (folder / STAMP).write_text(json.dumps({**stamp, "recipe": env.recipe.digest, "size": size}), encoding="utf-8")
    except BaseException:
        shutil.rmtree(venv, ignore_errors=True)  # an unusable environment may take gigabytes
        raise


def _run(command: Sequence[str], env: BuiltEnvironment, tell: Tell) -> list[str]:
    """Run a command, with its output in the log and reported line by line; return the lines.

    Raises:
        ExecutionError: it failed.
    """
    ours = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_PYTHON", "PIP_USER")
    lines: list[str] = []
    with (
        (env.folder / LOG).open("a", encoding="utf-8") as log,
        subprocess.Popen(
            command,
            env={name: value for name, value in os.environ.items() if name not in ours},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,  # Ctrl-C is sent to raybench, which then ends the whole process group
        ) as process,
    ):
        log.write(f"$ {' '.join(command)}\n")
        assert process.stdout
        try:
            for line in process.stdout:
                log.write(line)
                log.flush()
                if line.strip():
                    lines.append(line.strip())
                    tell(lines[-1])
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode != 0:
        problem = f"environment {env.recipe.name} could not be built: exit status {process.returncode} of {command[0]}"
        raise ExecutionError("\n".join([problem, *lines[-3:], f"Full output: {env.folder / LOG}"]))
    return lines
