"""The data sets that raybench knows: where they are, whether they are whole, and how to read them.

Nothing here is downloaded or read before it is asked for, and nothing is ever unpickled.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from raybench.datasets import cifar10, digits, imdb, mnist, synthetic, synthetic_scenes
from raybench.datasets.dataset import DataFile, DataSet, DataStatus, Progress, Source
from raybench.datasets.paths import data_root
from raybench.errors import DataError, nearest

_KNOWN: dict[str, DataSet] = {
    dataset.name: dataset
    for dataset in (
        *(module.DATASET for module in (digits, mnist, imdb, cifar10, synthetic_scenes)),
        *synthetic.DATASETS,
    )
}


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


def synthetic_name(name: str) -> str:
    """The name of the data set that stands in for another with `--synthetic-data`.

    Itself for one that needs no download: what is made anyway, and the digits that come with scikit-learn.
    """
    return name + synthetic.SUFFIX if name + synthetic.SUFFIX in _KNOWN else name


def is_synthetic(name: str) -> bool:
    """Whether a data set stands in for a real one, so that no accuracy on it says anything about the real one."""
    return name.endswith(synthetic.SUFFIX) and name.removesuffix(synthetic.SUFFIX) in _KNOWN


def ensure(name: str | None, root: Path, fetch: Callable[[DataSet, Path], None]) -> bool:
    """Fetch a data set if it is missing (a workload with its own data has no name); return whether it was.

    Raises:
        DataError: it is neither there nor to be had.
    """
    if name is None or get(name).status(root).state == "ready":
        return False
    try:
        fetch(get(name), root)
    except DataError as error:
        if synthetic_name(name) == name:
            raise
        raise DataError(f"{error}; `--synthetic-data` trains on generated data of the same shape instead") from None
    return True


__all__ = [
    "DataFile",
    "DataSet",
    "DataStatus",
    "Progress",
    "Source",
    "data_root",
    "ensure",
    "get",
    "is_synthetic",
    "names",
    "synthetic_name",
]
