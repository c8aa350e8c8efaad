"""A data set: its files, their status and verification, and how they are read."""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from raybench.datasets.digests import Digests, digest_of
from raybench.datasets.splits import Data
from raybench.errors import DataError

DataState = Literal["ready", "missing", "incomplete"]
FetchProgress = Callable[[int, int], object]  # callback that receives the bytes done and the total bytes


@dataclass(frozen=True)
class DataFile:
    """One file of a data set.

    Attributes:
        path: relative to the data folder, with slashes.
        size: bytes of the official file.
        checksum: of the official file, `sha256:<hex>` or, if that is not known, `md5:<hex>`.
        size_may_differ: whether a compressed file may have been repacked with the same content.
    """

    path: str
    size: int
    checksum: str
    size_may_differ: bool = False

    def is_official(self, path: Path, digests: Digests) -> bool:
        """Return whether the file at `path` has the official checksum."""
        algorithm, expected = self.checksum.split(":")
        return digests.of(path, algorithm) == expected

    def is_damaged(self, path: Path) -> bool:
        """Return whether the size alone shows that the file at `path` is damaged."""
        size = path.stat().st_size
        return size == 0 or (size != self.size and not self.size_may_differ)


@dataclass(frozen=True)
class Download:
    """One download: a file of the data set, or a tar archive.

    A tar archive contains some of the files under their own paths.

    Attributes:
        url: the official address.
        size: bytes.
        checksum: `sha256:<hex>` or `md5:<hex>`.
        files: the paths of the included files.
    """

    url: str
    size: int
    checksum: str
    files: tuple[str, ...]

    @property
    def name(self) -> str:
        """The file name in the URL."""
        return self.url.rsplit("/", 1)[-1]

    @property
    def is_archive(self) -> bool:
        """Return whether it is a tar archive to extract; a data set may also have an archive as one of its files."""
        return self.name.endswith((".tar.gz", ".tgz", ".tar")) and self.files != (self.name,)


@dataclass(frozen=True)
class DataStatus:
    """The local status of a data set.

    Attributes:
        state: `ready`: every file is present; `missing`: none is; `incomplete`: some are, or one has a wrong size.
        digest: `sha256:` and 8 hex digits over all files; None unless ready.
        official: whether every file is the official one.
        missing, damaged: paths of the files that are absent, or have an impossible size.
    """

    state: DataState
    digest: str | None = None
    official: bool = False
    missing: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()


@dataclass(frozen=True)
class DataSet:
    """A built-in data set.

    Attributes:
        name: as in a workload.
        description: one line for the user.
        files: in the order of its digest.
        examples: number of examples of each split.
        read: reads arrays from the base folder of the files' paths.
        sources: downloads; none if it comes with a package.
        locate: from the data folder to the base folder of the files' paths.
        hint: remedy if it is missing and cannot be downloaded.
        generator: for a generated data set, which has no files, a function that returns the name and version of its
            generator, or a digest of what it is made from.
    """

    name: str
    description: str
    files: tuple[DataFile, ...]
    examples: Mapping[str, int]
    read: Callable[[Path], Data]
    sources: tuple[Download, ...] = ()
    locate: Callable[[Path], Path] = lambda root: root
    hint: str = ""
    generator: Callable[[], str] | None = None

    @property
    def official_digest(self) -> str | None:
        """The digest of the official files; None if one of their SHA-256s is not known."""
        if self.generator:
            return digest_of([self.generator()])
        checksums = [file.checksum.partition(":") for file in self.files]
        if any(algorithm != "sha256" for algorithm, _, _ in checksums):
            return None
        return digest_of([value for _, _, value in checksums])

    def status(self, root: Path) -> DataStatus:
        """The local status; reads every byte the first time, none after that.

        Raises:
            DataError: a file is present and cannot be read.
        """
        if self.generator:
            return DataStatus("ready", self.official_digest, official=True)
        folder = self.locate(root)
        try:
            present = {file: folder / file.path for file in self.files if (folder / file.path).is_file()}
            missing = tuple(file.path for file in self.files if file not in present)
            damaged = tuple(file.path for file, path in present.items() if file.is_damaged(path))
            if missing or damaged:
                return DataStatus("incomplete" if present else "missing", missing=missing, damaged=damaged)
            with Digests() as digests:
                digest = digest_of([digests.of(path) for path in present.values()])
                official = all(file.is_official(path, digests) for file, path in present.items())
        except OSError as error:
            raise DataError(f"{self.name}: cannot read {error.filename}: {error.strerror}") from None
        return DataStatus("ready", digest, official)

    def load(self, root: Path) -> Data:
        """Read the data set into memory.

        Raises:
            DataError: a file is missing or damaged.
        """
        folder = self.locate(root)
        missing = [file.path for file in self.files if not (folder / file.path).is_file()]
        if missing:
            fetch = f"run `raybench data fetch {self.name}`, or set RAYBENCH_DATA to the folder that has it"
            advice = self.hint or fetch
            raise DataError(f"{self.name}: {', '.join(missing)} not found in {folder}; {advice}")
        try:
            return self.read(folder)
        # What the file system, and readers of archives, numbers and text raise for damaged content.
        except (OSError, EOFError, ValueError, LookupError, zlib.error, tarfile.TarError) as error:
            remedy = f"if its files are damaged, remove them and run `raybench data fetch {self.name}`"
            raise DataError(f"{self.name}: cannot be read from {folder}: {error}; {remedy}") from None
