"""The Python interpreter that an environment means on a node, tested there before use.

A grid file names an environment by a recipe, or by the path of a Python or of a virtual environment's folder. Its key
is the name, or the absolute path; the key of raybench's own interpreter is empty.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from raybench.core.files import PACKAGE
from raybench.datasets.paths import user_path
from raybench.environments.recipes import RECIPES, clean_environ

NEEDED = ("numpy",)  # distributions that a trial needs in addition to its framework
ANSWER_TIMEOUT_S = 30.0  # seconds after which an interpreter counts as hung; a cold network disk takes seconds

_QUERY = """
import sys
sys.path[:] = [folder for folder in sys.path if folder]
import hashlib, json, platform
from importlib import metadata
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
installed = sorted(f"{each.name}=={each.version}" for each in metadata.distributions())
lock = hashlib.sha256("\\n".join([sys.version, *installed]).encode()).hexdigest()[:16]
print(json.dumps({"python": platform.python_version(), "prefix": sys.prefix, "packages": found, "lock": lock}))
"""
"""Program that reads metadata only: importing a framework would take seconds and might initialize a device."""


@dataclass(frozen=True)
class Interpreter:
    """A Python interpreter for trials, as tested on its node.

    Attributes:
        python: its path; empty for raybench's own interpreter there.
        version: of Python.
        packages: the installed ones of the requested distributions, with their versions.
        problem: why it cannot be used, as a sentence with the remedy; empty if it can.
        lock: the digest of the names and versions of all that is installed.
    """

    python: str = ""
    version: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""
    lock: str = ""


def is_path(text: str) -> bool:
    """Return whether a text is a path, not a name: ./venv, ~/venv and /opt/venv."""
    return "/" in text or text.startswith(("~", "."))


def key_of(environment: str | None, base: Path) -> str:
    """The key of a profile's environment, relative to the grid file's folder; `~` is resolved on each node."""
    if environment is None or environment in RECIPES or environment.startswith("~"):
        return environment or ""
    return str((base / environment).absolute())


def environment_label(key: str) -> str:
    """Display name of the environment of a non-empty key."""
    return f"environment {key}" if key in RECIPES else key


def find(key: str, node: str, distributions: Iterable[str]) -> Interpreter:
    """Test the environment of a key on this machine, which is called `node`."""
    path = user_path(key)
    if key in RECIPES:
        if (state := RECIPES[key].state) != "ready":
            return Interpreter(problem=f"environment {key} is {state} on {node}; run `raybench env create {key}`")
        path = RECIPES[key].python
    elif path.is_dir():
        path = path / "bin" / "python"
    answer = _query(path, (*distributions, *NEEDED))
    if isinstance(answer, str):
        return Interpreter(problem=f"{key} on {node}: {answer}")
    version = str(answer["python"])
    if tuple(map(int, version.split(".")[:2])) < (3, 11):
        return Interpreter(problem=f"{key} on {node} has Python {version}; trials need 3.11 or later")
    python = "" if answer["prefix"] == sys.prefix else str(path)
    return Interpreter(python, version, answer["packages"], lock=answer["lock"])


def _query(python: Path, distributions: Iterable[str]) -> dict[str, Any] | str:
    """An interpreter's version, prefix, lock, and packages among the given ones; or why it does not work."""
    command = [str(python), "-c", _QUERY, *distributions]
    how: dict[str, Any] = {"env": clean_environ(), "stdin": subprocess.DEVNULL, "timeout": ANSWER_TIMEOUT_S}
    try:
        done = subprocess.run(command, capture_output=True, check=False, **how)
        # Site customization may have printed before the answer.
        answer: dict[str, Any] = {"python": "", "prefix": "", "packages": {}, "lock": ""}
        answer |= json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        return f"no answer within {ANSWER_TIMEOUT_S:g} s"
    except OSError as error:
        return f"{python} cannot be run ({error.strerror or error})"
    except (ValueError, LookupError, TypeError):
        stderr_lines = done.stderr.decode(errors="replace").strip().splitlines()
        return f"not a working Python{f': {stderr_lines[-1][:200]}' if stderr_lines else ''}"
    return answer


def own_environ() -> dict[str, str]:
    """This process's environment variables, so that its interpreter finds this raybench first.

    An installed one is found anyway; on PYTHONPATH, its folder would come before Python's own library.
    """
    environ = dict(os.environ)
    if PACKAGE.parent.name not in ("site-packages", "dist-packages"):
        environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(PACKAGE.parent), environ.get("PYTHONPATH")]))
    return environ


def link_package(folder: Path) -> None:
    """Make an empty folder an import path that contains only this raybench.

    An installed raybench is in the same folder as the torch of its own environment, so that folder cannot be the import
    path of a different interpreter.
    """
    (folder / PACKAGE.name).symlink_to(PACKAGE, target_is_directory=True)
