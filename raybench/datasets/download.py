"""One file over HTTP: bounded, checked, and its failures in plain words."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from raybench.datasets.dataset import Source
from raybench.datasets.digests import hash_file
from raybench.errors import DataError

CONNECT_SECONDS = 10
SILENCE_SECONDS = 60
"""After so long without a byte a server counts as gone."""
CHUNK = 1 << 18


class UnreachableError(Exception):
    """The file cannot be had now; the message says why, in a few words."""


def address(source: Source, dataset: str) -> str:
    """Where a source is downloaded from: its official address, or `<RAYBENCH_DATA_MIRROR>/<data set>/<file>`.

    Raises:
        DataError: the mirror is not an http or https address.
    """
    mirror = os.environ.get("RAYBENCH_DATA_MIRROR")
    if not mirror:
        return source.url
    parts = urlsplit(mirror)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise DataError("RAYBENCH_DATA_MIRROR has to be an http:// or https:// address")
    return f"{mirror.rstrip('/')}/{dataset}/{source.name}"


def public(url: str) -> str:
    """An address as it may be shown: without user, password and query."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def download(url: str, source: Source, goal: Path, report: Callable[[int], object]) -> None:
    """Download one file and check it.

    Args:
        url: from where.
        source: its size and checksum.
        goal: where to write it; what is there after an error is not to be used.
        report: called with the bytes that are here.

    Raises:
        UnreachableError: it cannot be had.
        DataError: it is not the official file.
        OSError: it cannot be written.
    """
    with goal.open("wb") as file:
        _get(url, _Bounded(file, source.size, report))
        file.flush()
        os.fsync(file.fileno())
    algorithm, official = source.checksum.split(":")
    digest = hash_file(goal, algorithm)
    if digest != official:
        raise DataError(
            f"what {public(url)} sends is not the official file: its {algorithm.upper()} is {digest}, not {official}; "
            "nothing of it was kept"
        )


class _Bounded:
    """A file to write to that counts, reports, and takes no more bytes than are expected."""

    def __init__(self, file: IO[bytes], size: int, report: Callable[[int], object]) -> None:
        self._file, self._size, self._report = file, size, report
        self._here = 0

    def write(self, chunk: bytes) -> None:
        """Take the next bytes."""
        self._here += len(chunk)
        if self._here > self._size:
            raise UnreachableError(f"it sends more than the {self._size:,} bytes expected")
        self._file.write(chunk)
        self._report(self._here)

    def flush(self) -> None:
        """Nothing: the downloader asks for it after every chunk, and once at the end is enough."""


def _get(url: str, into: _Bounded) -> None:
    import requests
    from pooch import HTTPDownloader

    # Nothing may pack or unpack on the way: the bytes themselves are what is checked.
    headers = {"Accept-Encoding": "identity"}
    get = HTTPDownloader(chunk_size=CHUNK, timeout=(CONNECT_SECONDS, SILENCE_SECONDS), headers=headers)
    # The library's own messages repeat the address with the password that may be in it, so none of them is shown.
    try:
        get(url, into, None)
    except requests.HTTPError as error:
        answer = error.response
        says = f"{answer.status_code} {answer.reason}" if answer is not None else "something that is not HTTP"
        raise UnreachableError(f"the server says {says}") from None
    except requests.Timeout:
        raise UnreachableError("the server does not answer") from None
    except requests.exceptions.SSLError:
        raise UnreachableError("the server's certificate cannot be trusted") from None
    except requests.ConnectionError:
        raise UnreachableError("no connection") from None
    except requests.RequestException as error:
        raise UnreachableError(f"the transfer broke off ({type(error).__name__})") from None
