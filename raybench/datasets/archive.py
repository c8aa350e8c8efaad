"""Archives: only the files that are wanted, only when they are regular, whole and official."""

from __future__ import annotations

import gzip
import shutil
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from raybench.datasets.dataset import DataFile
from raybench.datasets.digests import hash_file
from raybench.errors import DataError

SLACK = 2
"""An archive may unpack to this many times the bytes wanted of it, and its names and padding, before it is refused."""
CHUNK = 1 << 20


def unpack(archive: Path, files: Sequence[DataFile], work: Path, limit: int) -> dict[str, Path]:
    """Take files out of a tar archive, under names that this function makes up; nothing else in it is touched.

    Args:
        archive: the archive, compressed or not.
        files: the members wanted, by their exact paths.
        work: where they are put.
        limit: bytes of all members up to the last one wanted; more is refused before it is unpacked.

    Returns:
        For each wanted path, where the file is now.

    Raises:
        DataError: the archive is damaged or too large, or a wanted member is missing, not a regular file or not the
            official one.
    """
    wanted = {file.path: file for file in files}
    found: dict[str, Path] = {}
    try:
        with tarfile.open(archive) as tar:
            for member in _members(tar, limit):
                if member.name in wanted and member.name not in found:
                    found[member.name] = work / f"{len(found)}.part"
                    _take(tar, member, wanted[member.name], found[member.name])
                if len(found) == len(wanted):
                    return found
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise DataError(f"{archive.name} is damaged: {error}") from None
    raise DataError(f"{archive.name} lacks {', '.join(sorted(set(wanted) - set(found)))}")


def _members(tar: tarfile.TarFile, limit: int) -> Iterator[tarfile.TarInfo]:
    size = 0
    for member in tar:
        size += member.size + tarfile.BLOCKSIZE
        if size > limit:
            raise DataError(f"{Path(str(tar.name)).name} unpacks to more than the {limit:,} bytes expected")
        yield member


def _take(tar: tarfile.TarFile, member: tarfile.TarInfo, file: DataFile, goal: Path) -> None:
    opened = tar.extractfile(member) if member.isreg() else None  # a link would be followed
    if opened is None:
        raise DataError(f"{member.name} in the archive is not a regular file")
    if member.size != file.size:
        raise DataError(f"{member.name} in the archive has {member.size:,} bytes where {file.size:,} are expected")
    with opened, goal.open("wb") as out:
        shutil.copyfileobj(opened, out, CHUNK)
    algorithm, official = file.checksum.split(":")
    if hash_file(goal, algorithm) != official:
        raise DataError(f"{member.name} in the archive is not the official file")
