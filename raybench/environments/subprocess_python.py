"""Another Python interpreter: a clean environment for it, and its properties."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from raybench.core.files import PACKAGE

ANSWER_SECONDS = 30.0
"""Seconds after which an interpreter counts as hung.

A cold network disk takes seconds."""

_OURS = ("PYTHONPATH", "PYTHONHOME", "PYTHONEXECUTABLE", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__")
"""Variables with module paths of one interpreter, which would mislead another."""

_ASK = """
import sys
sys.path[:] = [folder for folder in sys.path if folder]
import json, platform
from importlib import metadata
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
print(json.dumps({"python": platform.python_version(), "prefix": sys.prefix, "packages": found}))
"""
"""Program that reads metadata only, on any Python from 3.8 on.

To import a framework would take seconds and might initialise a device."""


class NoPythonError(Exception):
    """The given path is no usable Python; the message has the short reason."""


def clean_environ() -> dict[str, str]:
    """This process's environment variables without those of its own interpreter."""
    return {name: value for name, value in os.environ.items() if name not in _OURS}


def link_package(folder: Path) -> None:
    """Make an empty folder an import path that contains only this raybench.

    An installed raybench is in the same folder as the torch of its own environment, so that folder cannot be the import
    path of another interpreter. The folder gets a link to the package, or a copy if links cannot be made.
    """
    package = PACKAGE
    try:
        (folder / package.name).symlink_to(package, target_is_directory=True)
    except OSError:
        shutil.copytree(package, folder / package.name, ignore=shutil.ignore_patterns("__pycache__"))


def query_python(python: Path, distributions: Iterable[str] = ()) -> dict[str, Any]:
    """Query an interpreter's version (`python`), `prefix`, and `packages` among the given ones.

    Raises:
        NoPythonError: it does not exist, is no Python, or does not answer.
    """
    command = [str(python), "-c", _ASK, *distributions]
    try:
        done = subprocess.run(
            command,
            env=clean_environ(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=ANSWER_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        raise NoPythonError("no such file") from None
    except subprocess.TimeoutExpired:
        raise NoPythonError(f"no answer within {ANSWER_SECONDS:g} s") from None
    except OSError as error:
        raise NoPythonError(f"cannot be run ({error.strerror or error})") from None
    try:
        answer = json.loads(done.stdout.splitlines()[-1])  # site customisation may have printed before it
        return {"python": str(answer["python"]), "prefix": str(answer["prefix"]), "packages": dict(answer["packages"])}
    except (ValueError, LookupError, TypeError):
        stderr_lines = done.stderr.decode(errors="replace").strip().splitlines()
        reason = f": {stderr_lines[-1][:200]}" if stderr_lines else ""
        raise NoPythonError(f"not a working Python{reason}") from None
