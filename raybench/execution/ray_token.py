"""Private token for a local Ray; without one, Ray's servers would run any user's code."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray._raylet

NAME = "token"

_VARIABLES = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")


@contextmanager
def own_token(folder: Path) -> Iterator[None]:
    """Make a Ray that starts in this context accept only a new token.

    The shell's settings are ignored.

    The token is in a file, so that it appears neither on a command line nor in a trial's environment, and Ray writes
    none into the home folder, which may be read-only.

    Args:
        folder: a folder that no other user can read.

    Raises:
        OSError: the file cannot be written.
    """
    path = folder / NAME
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(secrets.token_hex(32))
    old_values = {name: os.environ.pop(name, None) for name in _VARIABLES}
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(path)}
    _read_again()
    try:
        yield
    finally:
        for name, value in old_values.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        _read_again()


def _read_again() -> None:
    """Reload Ray's authentication settings and token.

    Ray reads the settings once, on import, and the token on first use.
    """
    raylet: Any = ray._raylet
    raylet.Config.initialize("")
    raylet.AuthenticationTokenLoader.instance().reset_cache()
