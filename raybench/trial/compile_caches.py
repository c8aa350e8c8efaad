"""Caches of compiled programs, used only if no other user can write to them."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from raybench.engines import FRAMEWORKS


def use_private_caches(framework: str, spare: Path) -> None:
    """Point a framework, before it is loaded, to private caches of compiled programs.

    Files in such a folder are executed without a check, and the framework's default may be a predictable name in the
    system's temporary folder, which any user can create first. A folder set in the user's environment stays in use,
    unless others can write to it.

    Args:
        framework: by its name.
        spare: a private folder, used instead of a folder that is not private.
    """
    for variable, name in FRAMEWORKS[framework].caches.items():
        default = Path(tempfile.gettempdir()) / f"raybench-{name}-{os.getuid()}"
        if variable in os.environ or name:
            folder = Path(os.environ.get(variable) or default)
            os.environ[variable] = str(folder if make_private(folder) else spare / variable.lower())


def make_private(folder: Path) -> bool:
    """Make a folder if it is missing, and return whether it is private.

    A private folder belongs to this user, is no symbolic link, and is not writable by others.
    """
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True)
    try:
        info = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(info.st_mode) and info.st_uid == os.getuid() and not info.st_mode & 0o022
