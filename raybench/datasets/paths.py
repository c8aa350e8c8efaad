"""Paths of data and caches on this machine."""

from __future__ import annotations

import os
from pathlib import Path


def user_path(text: str) -> Path:
    """Expand `~` in a path of the user; `~name` of an unknown user stays."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        return Path(text)


def data_root() -> Path:
    """The folder of the data sets: RAYBENCH_DATA, else `data` in the user's cache folder."""
    setting = os.environ.get("RAYBENCH_DATA")
    return user_path(setting).absolute() if setting else user_cache() / "data"


def user_cache() -> Path:
    """raybench's cache folder, at the system's location of caches.

    It may not exist yet.

    Raises:
        ImportError: in the environment of a trial that lacks platformdirs.
        RuntimeError: the user has no home folder.
    """
    from platformdirs import user_cache_path

    return user_cache_path("raybench", appauthor=False)
