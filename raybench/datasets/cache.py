"""Arrays that take long to make, kept in a file."""

from __future__ import annotations

import os
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from raybench.datasets.splits import Array


def load_arrays(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Array] | None:
    """What `save_arrays` wrote; None if there is no file that can be read, or an array of it has another shape."""
    import numpy as np

    errors = (OSError, ValueError, KeyError, zlib.error, zipfile.BadZipFile)
    with suppress(*errors), np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in shapes}
        if all(arrays[name].shape == shape for name, shape in shapes.items()):
            return arrays
    return None


def save_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write a file that is whole or not there; if the folder cannot be written to, the arrays are made again later."""
    import numpy as np

    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=path.name, suffix=".part", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                np.savez(file, **arrays)
            Path(temporary).chmod(0o644)  # others may share the folder
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
