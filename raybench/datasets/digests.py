"""File digests with a cache: a file is read again only when it has changed."""

from __future__ import annotations

import errno
import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from raybench.core.files import write_atomic
from raybench.datasets.paths import user_cache


def digest_of(files: Sequence[str]) -> str:
    """One digest of several files, from their SHA-256s (hex) in order: `sha256:` and 8 hex digits."""
    return "sha256:" + hashlib.sha256("".join(files).encode()).hexdigest()[:8]


def hash_file(path: Path, algorithm: str = "sha256") -> str:
    """Compute a file's digest in hex, without the cache.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        # Not for security, so that a machine which forbids MD5 for that can still verify the official checksums.
        return hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest()


class Digests:
    """Cache of digests, one JSON file in the user's cache folder.

    An entry is valid for a file of the same path, size, times and inode. A cache that is missing, damaged or not
    writable costs only time. It is a context manager: the cache is written at the end if there are new entries.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file or user_cache() / "digests.json"
        self._known: dict[str, Any] = {}
        self._new = False

    def __enter__(self) -> Digests:
        with suppress(OSError, ValueError):
            entries = json.loads(self._file.read_bytes())
            self._known = entries if isinstance(entries, dict) else {}
        return self

    def __exit__(self, *_: object) -> None:
        if self._new:
            with suppress(OSError):
                self._file.parent.mkdir(parents=True, exist_ok=True)
                write_atomic(self._file, json.dumps(self._known))

    def of(self, path: Path, algorithm: str = "sha256") -> str:
        """A file's digest in hex.

        Raises:
            OSError: it cannot be read.
        """
        info = path.stat()
        if not path.is_file():  # a named pipe would be read forever
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        key = f"{algorithm}:{path.absolute()}"
        state = [info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino, info.st_dev]
        entry = self._known.get(key)
        if not isinstance(entry, list) or entry[:-1] != state:
            entry = self._known[key] = [*state, hash_file(path, algorithm)]
            self._new = True
        return str(entry[-1])
