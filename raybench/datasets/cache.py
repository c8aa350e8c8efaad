"""File cache of arrays that take long to make."""

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
    """Load the arrays of `save_arrays`.

    Returns:
        None if there is no readable file, or an array in it has another shape.
    """
    import numpy as np

    errors = (OSError, ValueError, KeyError, zlib.error, zipfile.BadZipFile)
    with suppress(*errors), np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in shapes}
        if all(arrays[name].shape == shape for name, shape in shapes.items()):
            return arrays
    return None


def save_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Save arrays to a file atomically.

    If the folder is not writable, nothing is saved and the arrays are made again later.
    """
    import numpy as np

    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=path.name, suffix=".part", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                np.savez(file, **arrays)
            Path(temporary).chmod(0o644)  # the folder may be shared with other users
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
