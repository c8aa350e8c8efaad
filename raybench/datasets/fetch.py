"""Download of a data set: only missing files, verified and installed atomically."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from raybench.datasets.archive import unpack
from raybench.datasets.dataset import DataSet, Progress, Source
from raybench.errors import DataError

TIMEOUT = (10, 60)
"""Timeouts in seconds for the connection, and between received bytes."""
CHUNK = 1 << 18
SLACK = 2
"""Maximum unpacked size of an archive relative to its official files, plus 1 MiB."""


def fetch(dataset: DataSet, root: Path, progress: Progress | None = None) -> None:
    """Download the missing files of a data set into `root`.

    Existing files, official or not, are not changed. Several processes may do this at once: one downloads, the others
    wait for it. RAYBENCH_DATA_MIRROR sets another base address: each file is at `<data set>/<file>` below it.

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
        bytes_before = done

        def report(size: int, bytes_before: int = bytes_before) -> None:
            progress(bytes_before + size, total)

        with tempfile.TemporaryDirectory(prefix=f".{dataset.name}-", dir=root) as folder:
            try:
                file = _download(dataset, source, root, Path(folder), report)
                members = [member for member in dataset.files if member.path in source.files]
                limit = SLACK * sum(member.size for member in members) + (1 << 20)
                members = [member for member in members if member.path in missing]
                files = unpack(file, members, file.parent, limit) if source.is_archive else {source.files[0]: file}
            except DataError as error:
                raise DataError(f"{dataset.name}: {error}") from None
            for path, temporary in files.items():
                _install(temporary, root / path)
        done += source.size


def _download(dataset: DataSet, source: Source, root: Path, folder: Path, report: Callable[[int], None]) -> Path:
    import pooch
    import requests

    url = _address(source, dataset.name)
    parts = urlsplit(url)
    public = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()

    def get(url: str, path: str, _: object) -> None:
        # No compression in transit, because the checksum is that of the exact bytes.
        headers = {"Accept-Encoding": "identity"}
        with Path(path).open("wb") as file:
            pooch.HTTPDownloader(chunk_size=CHUNK, timeout=TIMEOUT, headers=headers)(
                url, _Bounded(file, source.size, report), None
            )

    pooch.get_logger().setLevel(logging.WARNING)  # it logs the address, which may contain a password
    try:
        return Path(pooch.retrieve(url, source.checksum, source.name, folder, downloader=get))
    except _TooLongError:
        reason = f"the server sends more than {source.size:,} bytes"
    # The messages of requests repeat the address with its password, so none of them is shown.
    except requests.HTTPError as error:
        answer = error.response
        reason = (
            f"the server answered {answer.status_code} {answer.reason}" if answer is not None else "it is no web server"
        )
    except requests.Timeout:
        reason = "the server does not answer"
    except requests.exceptions.SSLError:
        reason = "the server's certificate is not trusted"
    except requests.ConnectionError:
        reason = "no connection"
    except requests.RequestException as error:
        reason = f"the transfer was interrupted ({type(error).__name__})"
    except ValueError as error:  # a checksum mismatch
        raise DataError(f"{public} is not the official file: {error}") from None
    raise DataError(
        f"cannot be fetched from {public}: {reason}; try again with `raybench data fetch {dataset.name}`, or copy its "
        f"files to {root} (another folder: RAYBENCH_DATA)"
    )


def _address(source: Source, dataset: str) -> str:
    mirror = os.environ.get("RAYBENCH_DATA_MIRROR")
    if not mirror:
        return source.url
    parts = urlsplit(mirror)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise DataError("RAYBENCH_DATA_MIRROR is not an http:// or https:// address; correct or unset it")
    return f"{mirror.rstrip('/')}/{dataset}/{source.name}"


class _TooLongError(Exception):
    """The server sends more bytes than the official file has."""


class _Bounded:
    """A file for pooch to write to, limited to `size` bytes, with progress reports."""

    def __init__(self, file: IO[bytes], size: int, report: Callable[[int], None]) -> None:
        self._file, self._left, self._report = file, size, report

    def write(self, chunk: bytes) -> None:
        self._left -= len(chunk)
        if self._left < 0:
            raise _TooLongError
        self._file.write(chunk)
        self._report(self._file.tell())

    def flush(self) -> None:
        """Do nothing; pooch calls it after every chunk."""


def _install(temporary: Path, target: Path) -> None:
    """Rename a complete file to its target, once its bytes are on disk."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with temporary.open("r+b") as file:
        os.fsync(file.fileno())
    if not target.exists():  # another program may have created it in the meantime
        temporary.replace(target)
