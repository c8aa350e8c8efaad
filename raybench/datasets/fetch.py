"""Fetch a data set: only missing files, each checked, in place as a whole or not at all."""

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
"""Seconds to connect, and without a byte, after which a server counts as gone."""
CHUNK = 1 << 18
SLACK = 2
"""An archive may unpack to this many times the bytes of its official files, and 1 MiB."""


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
        raise DataError(f"{dataset.name}: cannot write to {root}: {error.strerror or error}") from None


def _is_complete(dataset: DataSet, root: Path) -> bool:
    status = dataset.status(root)
    if status.damaged:
        files = ", ".join(str(dataset.locate(root) / path) for path in status.damaged)
        remedy = f"remove it and run `raybench data fetch {dataset.name}`"
        raise DataError(f"{dataset.name}: {files}: not the right size, so it is damaged; {remedy}")
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
        # Nothing may pack or unpack on the way: the bytes themselves are what is checked.
        headers = {"Accept-Encoding": "identity"}
        with Path(path).open("wb") as file:
            pooch.HTTPDownloader(chunk_size=CHUNK, timeout=TIMEOUT, headers=headers)(
                url, _Bounded(file, source.size, report), None
            )

    pooch.get_logger().setLevel(logging.WARNING)  # it logs the address, which may have a password in it
    try:
        return Path(pooch.retrieve(url, source.checksum, source.name, folder, downloader=get))
    except _TooLongError:
        reason = f"it sends more than the {source.size:,} bytes expected"
    # The messages of requests repeat the address, with its password: none of them is shown.
    except requests.HTTPError as error:
        answer = error.response
        reason = (
            f"the server says {answer.status_code} {answer.reason}" if answer is not None else "it is no web server"
        )
    except requests.Timeout:
        reason = "the server does not answer"
    except requests.exceptions.SSLError:
        reason = "the server's certificate cannot be trusted"
    except requests.ConnectionError:
        reason = "no connection"
    except requests.RequestException as error:
        reason = f"the transfer broke off ({type(error).__name__})"
    except ValueError as error:  # the checksum
        raise DataError(f"{public} is not the official file: {error}") from None
    raise DataError(
        f"cannot be fetched from {public}: {reason}; try again with `raybench data fetch {dataset.name}`, or put its "
        f"files into {root} (RAYBENCH_DATA names another folder)"
    )


def _address(source: Source, dataset: str) -> str:
    mirror = os.environ.get("RAYBENCH_DATA_MIRROR")
    if not mirror:
        return source.url
    parts = urlsplit(mirror)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise DataError("RAYBENCH_DATA_MIRROR has to be an http:// or https:// address")
    return f"{mirror.rstrip('/')}/{dataset}/{source.name}"


class _TooLongError(Exception):
    """The server sends more bytes than the official file has."""


class _Bounded:
    """A file for pooch to write to, of at most `size` bytes, which reports its size."""

    def __init__(self, file: IO[bytes], size: int, report: Callable[[int], None]) -> None:
        self._file, self._left, self._report = file, size, report

    def write(self, chunk: bytes) -> None:
        self._left -= len(chunk)
        if self._left < 0:
            raise _TooLongError
        self._file.write(chunk)
        self._report(self._file.tell())

    def flush(self) -> None:
        """Do nothing: pooch asks for it after every chunk."""


def _install(temporary: Path, target: Path) -> None:
    """Give a whole file its name, once its bytes are on disk."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with temporary.open("r+b") as file:
        os.fsync(file.fileno())
    if not target.exists():  # another program may have put one there meanwhile
        temporary.replace(target)
