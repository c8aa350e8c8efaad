"""Download of a data set: only missing files, verified and installed atomically."""

from __future__ import annotations

import logging
import tarfile
import tempfile
from pathlib import Path

from raybench.datasets.dataset import DataSet, Download, FetchProgress
from raybench.errors import DataError

TIMEOUTS_S = (10, 60)  # for the connection, and between received bytes
CHUNK_BYTES = 1 << 18


def fetch(dataset: DataSet, root: Path, progress: FetchProgress | None = None) -> None:
    """Download the missing files of a data set into `root`.

    Existing files, official or not, are not changed. Several processes may do this at once: one downloads, the others
    wait for it.

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


def _fetch_missing(dataset: DataSet, root: Path, progress: FetchProgress) -> None:
    missing = set(dataset.status(root).missing)
    sources = [source for source in dataset.sources if missing & set(source.files)]
    total, done = sum(source.size for source in sources), 0
    for source in sources:
        with tempfile.TemporaryDirectory(prefix=f".{dataset.name}-", dir=root) as temporary:
            folder = Path(temporary)
            file = folder / (source.name if source.is_archive else source.files[0])
            _download(dataset, source, root, file, _ProgressBar(progress, done, total))
            if source.is_archive:  # its checksum was verified
                with tarfile.open(file) as tar:
                    tar.extractall(folder, [member for member in tar if member.name in missing], filter="data")
            for path in missing & set(source.files):
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).replace(root / path)
        done += source.size


def _download(dataset: DataSet, source: Download, root: Path, file: Path, bar: _ProgressBar) -> None:
    import pooch
    import requests

    # No compression in transit, because the checksum is that of the exact bytes.
    downloader = pooch.HTTPDownloader(bar, CHUNK_BYTES, timeout=TIMEOUTS_S, headers={"Accept-Encoding": "identity"})
    pooch.get_logger().setLevel(logging.WARNING)
    try:
        pooch.retrieve(source.url, source.checksum, file.name, file.parent, downloader=downloader)
        return
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

    def __init__(self, progress: FetchProgress, bytes_before: int, total_bytes: int) -> None:
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
