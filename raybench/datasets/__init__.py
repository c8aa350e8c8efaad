"""The data sets that raybench knows: where they are, whether they are whole, and how to read them.

Nothing here is downloaded or read before it is asked for, and nothing is ever unpickled.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from raybench.datasets import cifar10, digits, imdb, mnist, scenes
from raybench.datasets.dataset import DataFile, DataSet, DataStatus, Progress, Source
from raybench.datasets.paths import data_root
from raybench.errors import DataError, nearest

_KNOWN: dict[str, DataSet] = {module.DATASET.name: module.DATASET for module in (digits, mnist, imdb, cifar10, scenes)}


def names() -> tuple[str, ...]:
    """The names of all data sets, the smallest first."""
    return tuple(_KNOWN)


def get(name: str) -> DataSet:
    """The data set of that name.

    Raises:
        DataError: there is none; the message has the nearest name.
    """
    if name not in _KNOWN:
        raise DataError(f"unknown data set {name[:100]!r}; {nearest(name, _KNOWN)}")
    return _KNOWN[name]


def ensure(name: str | None, root: Path, fetch: Callable[[DataSet, Path], None]) -> bool:
    """Fetch a data set if it is missing (a workload with its own data has no name); return whether it was.

    Raises:
        DataError: it is neither there nor to be had.
    """
    if name is None or get(name).status(root).state == "ready":
        return False
    fetch(get(name), root)
    return True


__all__ = ["DataFile", "DataSet", "DataStatus", "Progress", "Source", "data_root", "ensure", "get", "names"]
