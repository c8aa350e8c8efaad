"""Environment keys: text forms of the environments in device profiles.

A key is empty for raybench's own interpreter, the name of a recipe, the path of a Python or of a virtual environment's
folder, or the JSON of a Ray `runtime_env`. Each node resolves it to an interpreter (`interpreter`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from raybench.environments.recipes import RECIPES


def is_path(text: str) -> bool:
    """Return whether a text is a path, not a name: ./venv, ~/venv and /opt/venv."""
    return "/" in text or text.startswith(("~", "."))


def key_of(environment: str | Mapping[str, Any] | None, base: Path) -> str:
    """The key of a profile's environment; relative to `base`, the grid file's folder.

    `~` is resolved on each node, in the home folder of the user who runs trials there.
    """
    if environment is None:
        return ""
    if not isinstance(environment, str):
        return json.dumps(environment, sort_keys=True)
    if environment in RECIPES or environment.startswith("~"):
        return environment
    return str((base / environment).absolute())


def runtime_env_of(key: str) -> dict[str, Any] | None:
    """The Ray `runtime_env` of a key; None for other keys."""
    if not key.startswith("{"):
        return None
    runtime_env: dict[str, Any] = json.loads(key)
    return runtime_env


def environment_label(key: str) -> str:
    """Display name of the environment of a non-empty key.

    Of a `runtime_env`, which may contain secrets, only the names of its entries are shown.
    """
    runtime_env = runtime_env_of(key)
    if runtime_env is not None:
        return f"runtime_env {{{', '.join(runtime_env)}}}"
    return f"environment {key}" if key in RECIPES else key
