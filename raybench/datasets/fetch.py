"""Fetching a data set: only what is missing, all of it checked, each file in its place at once or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection
from pathlib import Path

from raybench.datasets.archive import SLACK, unpack
from raybench.datasets.dataset import DataSet, Progress, Source
from raybench.datasets.download import UnreachableError, address, download, public
from raybench.errors import DataError


def fetch(dataset: DataSet, root: Path, progress: Progress | None = None) -> None:
    """Download what is missing of a data set into `root`; what is here, official or not, stays as it is.

    Several processes may do this at once: one downloads, the others wait for it. RAYBENCH_DATA_MIRROR names another
    place to download from: below that address, each file lies at `<data set>/<file>`.

    Args:
        dataset: what to fetch.
        root: the data folder; made where it does not exist.
        progress: called with the bytes that are here and the bytes there will be.

    Raises:
        DataError: it cannot be had, is not what it should be, or a file that is here is damaged.
    """
    if _is_done(dataset, root):
        return
    if not dataset.sources:
        raise DataError(f"{dataset.name}: nothing to download; {dataset.hint}")
    from filelock import FileLock

    try:
        root.mkdir(parents=True, exist_ok=True)
        with FileLock(root / f".{dataset.name}.lock"):
            if not _is_done(dataset, root):
                _fetch_missing(dataset, root, progress or _unseen)
    except OSError as error:
        raise DataError(f"{dataset.name}: cannot write to {root}: {error.strerror or error}") from None


def _unseen(done: int, total: int) -> None:
    """Progress that nobody looks at."""


def _is_done(dataset: DataSet, root: Path) -> bool:
    """Whether every file is here.

    Raises:
        DataError: one is here and has an impossible size.
    """
    status = dataset.status(root)
    if status.damaged:
        files = ", ".join(str(dataset.locate(root) / path) for path in status.damaged)
        mend = f"remove it and run `raybench data fetch {dataset.name}`"
        raise DataError(f"{dataset.name}: {files}: not the right size, so it is damaged; {mend}")
    return status.state == "ready"


def _fetch_missing(dataset: DataSet, root: Path, progress: Progress) -> None:
    missing = dataset.status(root).missing
    sources = [source for source in dataset.sources if set(missing) & set(source.files)]
    total = sum(source.size for source in sources)
    done = 0
    with tempfile.TemporaryDirectory(prefix=f".{dataset.name}-", dir=root) as work:
        for source in sources:
            before = done

            def report(here: int, before: int = before) -> None:
                progress(before + here, total)

            url = address(source, dataset.name)
            here = Path(work, source.name)
            try:
                download(url, source, here, report)
                found = _files(dataset, source, here, missing)
            except UnreachableError as error:
                mend = (
                    f"try again with `raybench data fetch {dataset.name}`, or put its files into {root} "
                    "(RAYBENCH_DATA names another folder)"
                )
                raise DataError(f"cannot fetch {dataset.name} from {public(url)}: {error}; {mend}") from None
            except DataError as error:
                raise DataError(f"{dataset.name}: {error}") from None
            for path, temporary in found.items():
                _install(temporary, root / path)
            done += source.size


def _files(dataset: DataSet, source: Source, here: Path, missing: Collection[str]) -> dict[str, Path]:
    """The missing files that a download brought, and where they are."""
    if not source.is_archive:
        return {source.files[0]: here}
    inside = [file for file in dataset.files if file.path in source.files]
    wanted = [file for file in inside if file.path in missing]
    return unpack(here, wanted, here.parent, SLACK * sum(file.size for file in inside) + (1 << 20))


def _install(temporary: Path, goal: Path) -> None:
    """Give a whole file its name, once its bytes are on disk."""
    goal.parent.mkdir(parents=True, exist_ok=True)
    with temporary.open("r+b") as file:
        os.fsync(file.fileno())
    if not goal.exists():  # somebody may have put one there while this one came
        temporary.replace(goal)
