"""A small disk of a test's own, which can be filled and made larger."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


class Disk:
    """A file system in memory, mounted on a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def mount(self, options: str) -> str:
        """Mount it, or mount it anew with other options; what the system said where it would not."""
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "raybench-test", str(self.folder)], capture_output=True, text=True
        )
        return done.stderr.strip() if done.returncode else ""

    def fill(self, leave: int) -> Path:
        """Fill it up to so many bytes (whole pages of 4 KiB); the file that does is removed to make room."""
        filler = self.folder / "filler"
        with filler.open("wb", buffering=0) as file, suppress(OSError):
            while file.write(bytes(4096)):
                pass
        with filler.open("r+b") as file:
            file.truncate(max(0, filler.stat().st_size - leave))
        return filler


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Disk]:
    """A disk of a size such as 256k; skips the test where nothing can be mounted."""
    folder.mkdir(parents=True)
    disk = Disk(folder)
    try:
        refused = disk.mount(f"size={size}")
    except OSError as error:
        refused = str(error)
    if refused:
        pytest.skip(f"a small disk cannot be had: {refused}")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
