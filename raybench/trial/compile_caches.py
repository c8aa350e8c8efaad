"""Folders in which a framework keeps compiled programs from one trial for the next: nobody else may write to them."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from raybench.engines import CACHES


def use_private_caches(framework: str, spare: Path) -> None:
    """Have a framework that is not loaded yet look for compiled programs only where nobody but this user can write.

    What lies in such a folder is run without a question, and the framework's own choice may be a name in the system's
    temporary folder that anybody can take first. A folder that the user's environment names stays in use, unless
    others can write to it.

    Args:
        framework: by its name.
        spare: a private folder, for what would lie in a folder that is not.
    """
    for variable, name in CACHES.get(framework, {}).items():
        default = Path(tempfile.gettempdir()) / f"raybench-{name}-{os.getuid()}"
        if variable in os.environ or name:
            folder = Path(os.environ.get(variable) or default)
            os.environ[variable] = str(folder if make_private(folder) else spare / variable.lower())


def make_private(folder: Path) -> bool:
    """Make a folder if there is none; whether it is this user's, no link, and nobody else can write to it."""
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True)
    try:
        info = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(info.st_mode) and info.st_uid == os.getuid() and not info.st_mode & 0o022
