"""Download of a data set: only missing files, verified and installed atomically."""

from __future__ import annotations

import logging
import os
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from raybench.datasets.dataset import DataSet, Progress, Source
from raybench.errors import DataError

TIMEOUTS_S = (10, 60)
"""For the connection, and between received bytes."""
CHUNK_BYTES = 1 << 18


def fetch(dataset: DataSet, root: Path, progress: Progress | None = None) -> None:
    """Download the missing files of a data set into `root`.

    Existing files, official or not, are not changed. Several processes may do this at once: one downloads, the others
    wait for it.

    Args:
        dataset: the data set to fetch.
        root: the data folder; created if it does not exist.
        progress: called with the bytes done and the total bytes.

    Raises:
        DataError: it cannot be downloaded, is not the official data, or a file that is present is damaged.
    """
    if _is_complete(dataset, root):
        return
    if not dataset.sources:
        raise DataError(f"{dataset.name}: nothing to download; {dataset.hint}")
    from filelock import FileLock

    try:
        root.mkdir(parents=True, exist_ok=True)
        with FileLock(root / f".{dataset.name}.lock"):
            if not _is_complete(dataset, root):
                _fetch_missing(dataset, root, progress or (lambda done, total: None))
    except OSError as error:
        raise DataError(
            f"{dataset.name}: cannot write to {root} ({error.strerror or error}); change RAYBENCH_DATA"
        ) from None


def _is_complete(dataset: DataSet, root: Path) -> bool:
    status = dataset.status(root)
    if status.damaged:
        files = ", ".join(str(dataset.locate(root) / path) for path in status.damaged)
        remedy = f"remove it and run `raybench data fetch {dataset.name}`"
        raise DataError(f"{dataset.name}: {files} has the wrong size; {remedy}")
    return status.state == "ready"


def _fetch_missing(dataset: DataSet, root: Path, progress: Progress) -> None:
    missing = dataset.status(root).missing
    sources = [source for source in dataset.sources if set(missing) & set(source.files)]
    total, done = sum(source.size for source in sources), 0
    for source in sources:
        with tempfile.TemporaryDirectory(prefix=f".{dataset.name}-", dir=root) as temporary:
            folder = Path(temporary)
            file = _download(dataset, source, root, folder, _ProgressBar(progress, done, total))
            if source.is_archive:
                _unpack(file, [path for path in source.files if path in missing], folder)
            else:
                (folder / source.files[0]).parent.mkdir(parents=True, exist_ok=True)
                file.replace(folder / source.files[0])
            for path in source.files:
                if path in missing:
                    _install(folder / path, root / path)
        done += source.size


def _unpack(archive: Path, paths: Sequence[str], folder: Path) -> None:
    """Extract members of an archive, whose checksum was verified."""
    with tarfile.open(archive) as tar:
        for member in tar:
            if member.name in paths:
                tar.extract(member, folder, filter="data")


def _download(dataset: DataSet, source: Source, root: Path, folder: Path, bar: _ProgressBar) -> Path:
    import pooch
    import requests

    # No compression in transit, because the checksum is that of the exact bytes.
    downloader = pooch.HTTPDownloader(bar, CHUNK_BYTES, timeout=TIMEOUTS_S, headers={"Accept-Encoding": "identity"})
    pooch.get_logger().setLevel(logging.WARNING)
    try:
        return Path(pooch.retrieve(source.url, source.checksum, source.name, folder, downloader=downloader))
    except requests.RequestException as error:
        answer = error.response
        reason = type(error).__name__ if answer is None else f"{answer.status_code} {answer.reason}"
        reason = "no connection" if isinstance(error, requests.ConnectionError) else reason
    except ValueError as error:  # a checksum mismatch
        raise DataError(f"{dataset.name}: {source.url} is not the official file: {error}") from None
    raise DataError(
        f"{dataset.name}: cannot be fetched from {source.url}: {reason}; try again with `raybench data fetch "
        f"{dataset.name}`, or copy its files to {root} (or set RAYBENCH_DATA to a different folder)"
    )


class _ProgressBar:
    """A progress bar as pooch uses it, for one of several downloads."""

    def __init__(self, progress: Progress, bytes_before: int, total_bytes: int) -> None:
        self._progress, self._done, self._total = progress, bytes_before, total_bytes
        self.total = 0

    def update(self, count: int) -> None:
        """Report more bytes."""
        self._done = min(self._done + count, self._total)
        self._progress(self._done, self._total)

    def reset(self) -> None:
        """Do nothing; pooch calls it at the end."""

    def close(self) -> None:
        """Do nothing."""


def _install(temporary: Path, target: Path) -> None:
    """Rename a complete file to its target, once its bytes are on disk."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with temporary.open("r+b") as file:
        os.fsync(file.fileno())
    if not target.exists():  # another program may have created it in the meantime
        temporary.replace(target)
