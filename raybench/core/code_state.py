"""What a command of raybench was: its words, the commit of a folder, and the installed packages."""

from __future__ import annotations

import shlex
import subprocess
import sys
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from raybench.core.secret_masking import mask

DIRTY = "-dirty"
"""The end of a commit in whose folder something was changed."""


@cache
def commit_of(folder: str) -> str:
    """Return the commit of the git repository that a folder is in, with `DIRTY` after changes; empty without one."""
    with suppress(OSError, subprocess.SubprocessError):
        command = ["git", "-C", folder, "describe", "--always", "--exclude=*", f"--dirty={DIRTY}"]
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    return ""


def made_with(folder: str) -> dict[str, Any]:
    """Return the command that runs now, the commit of the code in a folder, and the packages."""
    return {"command": command_line(), "commit": commit_of(folder or "."), "packages": packages()}


def packages() -> list[str]:
    """Return the installed packages as `pip freeze` lists them: `torch==2.13.0`."""
    packages = reversed([*metadata.distributions()])  # of two installations, the first is imported
    versions = {name: package.version for package in packages if (name := package.name)}
    return [f"{name}=={versions[name]}" for name in sorted(versions, key=str.lower)]


def command_line() -> str:
    """Return the command of raybench that this process runs, without credentials; empty in a program of the user."""
    program, *words = sys.argv or [""]
    is_own = Path(program).stem == "raybench" or Path(program).parent.name == "raybench"
    return mask(shlex.join(["raybench", *words])) if is_own else ""
