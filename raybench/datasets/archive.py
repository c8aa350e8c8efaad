"""Tar archives of data sets."""

from __future__ import annotations

import shutil
import tarfile
import zlib
from collections.abc import Sequence
from pathlib import Path

from raybench.datasets.dataset import DataFile
from raybench.datasets.digests import hash_file
from raybench.errors import DataError


def unpack(archive: Path, files: Sequence[DataFile], folder: Path, limit: int) -> dict[str, Path]:
    """Extract the official files from a tar archive, under temporary names.

    Args:
        archive: the archive, compressed or not.
        files: the members to take, by their exact paths.
        folder: the folder for the files.
        limit: maximum bytes of all members up to the last one extracted; a larger archive is refused.

    Returns:
        The extracted file by path.

    Raises:
        DataError: the archive is damaged or too large, or a member is missing, no regular file or not the official one.
    """
    # Not pooch.Untar: it extracts all members whose path begins with one of the names, has no size limit, follows links
    # on Python 3.11, and decompresses the archive again for each name.
    missing = {file.path: file for file in files}
    unpacked: dict[str, Path] = {}
    size = 0
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                size += member.size + tarfile.BLOCKSIZE
                if size > limit:
                    raise DataError(f"{archive.name} unpacks to more than {limit:,} bytes")
                if file := missing.pop(member.name, None):
                    unpacked[file.path] = folder / f"{len(unpacked)}.part"
                    _take(tar, member, file, unpacked[file.path])
                if not missing:
                    return unpacked
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.errno:  # an error of the disk, not of the archive
            raise
        raise DataError(f"{archive.name} is damaged: {error}") from None
    raise DataError(f"{archive.name} has no {', '.join(sorted(missing))}")


def _take(tar: tarfile.TarFile, member: tarfile.TarInfo, file: DataFile, target: Path) -> None:
    content = tar.extractfile(member) if member.isreg() else None  # a link would be followed
    if content is None:
        raise DataError(f"{member.name} in the archive is not a regular file")
    if member.size != file.size:
        raise DataError(f"{member.name} in the archive has {member.size:,} bytes instead of {file.size:,}")
    with content, target.open("wb") as output:
        shutil.copyfileobj(content, output)
    algorithm, expected = file.checksum.split(":")
    if hash_file(target, algorithm) != expected:
        raise DataError(f"{member.name} in the archive is not the official file")
