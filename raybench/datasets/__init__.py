"""The built-in data sets: status, download and reading. Nothing is fetched unasked, or ever unpickled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from raybench.datasets import cifar10, digits, imdb, mnist, python_code, synthetic
from raybench.datasets.dataset import DataSet as DataSet
from raybench.datasets.paths import data_root as data_root
from raybench.errors import DataError, nearest

_KNOWN: dict[str, DataSet] = {
    dataset.name: dataset
    for dataset in (
        *(module.DATASET for module in (digits, python_code, mnist, imdb, cifar10)),
        *synthetic.DATASETS,
    )
}


def names() -> tuple[str, ...]:
    """The names of all data sets, the smallest first."""
    return tuple(_KNOWN)


def get(name: str) -> DataSet:
    """Look up a data set by name.

    Raises:
        DataError: there is none; the message has the nearest name.
    """
    if name not in _KNOWN:
        raise DataError(f"unknown data set {name[:100]!r}; {nearest(name, _KNOWN)}")
    return _KNOWN[name]


def synthetic_name(name: str) -> str:
    """The name of a data set's synthetic replacement under `--synthetic-data`.

    A data set without a download is its own replacement: generated ones, and the digits that come with scikit-learn.
    """
    return name + synthetic.SUFFIX if name + synthetic.SUFFIX in _KNOWN else name


def is_synthetic(name: str) -> bool:
    """Return whether a data set replaces a real one, to which accuracies on it do not apply."""
    return name.endswith(synthetic.SUFFIX) and name.removesuffix(synthetic.SUFFIX) in _KNOWN


def ensure(name: str | None, root: Path, fetch: Callable[[DataSet, Path], None]) -> bool:
    """Fetch a data set if it is missing; return whether it was.

    A workload with its own data has no name, and nothing is fetched.

    Raises:
        DataError: it is missing and cannot be fetched.
    """
    if name is None or get(name).status(root).state == "ready":
        return False
    try:
        fetch(get(name), root)
    except DataError as error:
        if synthetic_name(name) == name:
            raise
        raise DataError(f"{error}; or use `--synthetic-data`: random data of the same shape") from None
    return True
