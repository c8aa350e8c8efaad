"""Where data and caches lie on this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def data_root() -> Path:
    """The folder that holds the data sets: RAYBENCH_DATA, else `data` in the user's cache folder."""
    named = os.environ.get("RAYBENCH_DATA")
    return Path(named).expanduser().absolute() if named else user_cache() / "data"


def user_cache() -> Path:
    """raybench's folder for what can be had again, where each system keeps such things; it may not exist yet.

    Linux and the like: `$XDG_CACHE_HOME/raybench` (a relative one is to be ignored, says the XDG specification), else
    `~/.cache/raybench`. macOS: `~/Library/Caches/raybench`. Windows: `%LOCALAPPDATA%\\raybench\\Cache`.
    """
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "raybench" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "raybench"
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (named if named.is_absolute() else Path.home() / ".cache") / "raybench"
