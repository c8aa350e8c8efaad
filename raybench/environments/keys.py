"""Which environment a device's profile means, as one text that travels: its key.

A key is empty for the interpreter raybench runs in, the name of a recipe, the path of a Python or of a virtual
environment's folder, or the JSON of a Ray `runtime_env`. What it comes to is each node's own to say (`interpreter`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from raybench.environments.recipes import RECIPES


def is_path(text: str) -> bool:
    """Whether a text means a path, not a name: ./venv, ~/venv and /opt/venv are paths."""
    return "/" in text or text.startswith(("~", "."))


def key_of(environment: str | Mapping[str, Any] | None, base: Path) -> str:
    """The key of what a profile says; a relative path is relative to the folder `base`, the grid file's.

    `~` is left for each node: a path in a home folder is there in the home of whoever runs trials.
    """
    if environment is None:
        return ""
    if not isinstance(environment, str):
        return json.dumps(environment, sort_keys=True)
    if environment in RECIPES or environment.startswith("~"):
        return environment
    return str((base / environment).absolute())


def runtime_env_of(key: str) -> dict[str, Any] | None:
    """The Ray `runtime_env` that a key stands for; None where it stands for something else."""
    if not key.startswith("{"):
        return None
    runtime_env: dict[str, Any] = json.loads(key)
    return runtime_env


def environment_label(key: str) -> str:
    """What a person calls the environment of a key that is not empty; of a `runtime_env`, which may hold secrets, only
    the names of its entries."""
    runtime_env = runtime_env_of(key)
    if runtime_env is not None:
        return f"runtime_env {{{', '.join(runtime_env)}}}"
    return f"environment {key}" if key in RECIPES else key
