"""Where data and caches lie on this machine."""

from __future__ import annotations

import os
from pathlib import Path


def user_path(text: str) -> Path:
    """A path as a user writes it, with `~` expanded; the home folder of an unknown user stays `~name`."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        return Path(text)


def data_root() -> Path:
    """The folder that holds the data sets: RAYBENCH_DATA, else `data` in the user's cache folder."""
    setting = os.environ.get("RAYBENCH_DATA")
    return user_path(setting).absolute() if setting else user_cache() / "data"


def user_cache() -> Path:
    """raybench's cache folder, where the system keeps caches; it may not exist yet.

    Raises:
        ImportError: in the environment of a trial that lacks platformdirs.
        RuntimeError: the user has no home folder.
    """
    from platformdirs import user_cache_path

    return user_cache_path("raybench", appauthor=False)
