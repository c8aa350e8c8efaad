"""A data set: its files, whether they are here, whether they are the official ones, and how they are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from raybench.datasets.digests import Digests, digest_of
from raybench.datasets.splits import Data
from raybench.errors import DataError

State = Literal["ready", "missing", "incomplete"]
Progress = Callable[[int, int], object]
"""Called with the bytes that are here and the bytes there will be."""


@dataclass(frozen=True)
class DataFile:
    """One file of a data set.

    Attributes:
        path: where it lies below the data folder, with slashes.
        size: bytes of the official file.
        checksum: of the official file, `sha256:<hex>` or, where that is not known, `md5:<hex>`.
        size_may_differ: a compressed file may have been packed anew and still hold the same.
    """

    path: str
    size: int
    checksum: str
    size_may_differ: bool = False

    def is_official(self, path: Path, digests: Digests) -> bool:
        """Whether the file at `path` has the official checksum."""
        algorithm, expected = self.checksum.split(":")
        return digests.of(path, algorithm) == expected

    def is_damaged(self, path: Path) -> bool:
        """Whether the size alone tells that the file at `path` cannot be read."""
        size = path.stat().st_size
        return size == 0 or (size != self.size and not self.size_may_differ)


@dataclass(frozen=True)
class Source:
    """One download: a file of the data set itself, or a tar archive that holds some of them under their own paths.

    Attributes:
        url: the official address.
        size: bytes.
        checksum: `sha256:<hex>` or `md5:<hex>`.
        files: the paths of the files that come with it.
    """

    url: str
    size: int
    checksum: str
    files: tuple[str, ...]

    @property
    def name(self) -> str:
        """The file's name at its address."""
        return self.url.rsplit("/", 1)[-1]

    @property
    def is_archive(self) -> bool:
        """Whether the files are inside a tar archive, and not the archive itself the file that is wanted."""
        return self.name.endswith((".tar.gz", ".tgz", ".tar")) and self.files != (self.name,)


@dataclass(frozen=True)
class DataStatus:
    """What is here of a data set.

    Attributes:
        state: `ready`: every file is here; `missing`: none is; `incomplete`: some are, or one has a wrong size.
        digest: `sha256:` and 8 hex digits over all files; None unless ready.
        official: whether every file is the official one.
        missing, damaged, unofficial: paths of the files that are not here, have an impossible size, or are readable
            but not the official ones.
    """

    state: State
    digest: str | None = None
    official: bool = False
    missing: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()
    unofficial: tuple[str, ...] = ()


def below(root: Path) -> Path:
    """The folder that a data set's paths start from, where that is the data folder itself."""
    return root


@dataclass(frozen=True)
class DataSet:
    """A data set that raybench knows.

    Attributes:
        name: as a workload names it.
        description: one line for people.
        files: in the order that its digest is made in.
        examples: how many examples each split has.
        read: from the folder that the files' paths start from to arrays.
        sources: where it is downloaded from; none where it comes with a package.
        locate: from the data folder to the folder that the files' paths start from.
        hint: what to do where it is missing and cannot be downloaded.
        generator: of a data set that is made, not read: what makes it, and in which version. It has no files.
    """

    name: str
    description: str
    files: tuple[DataFile, ...]
    examples: Mapping[str, int]
    read: Callable[[Path], Data]
    sources: tuple[Source, ...] = ()
    locate: Callable[[Path], Path] = below
    hint: str = ""
    generator: str = ""

    @property
    def official_digest(self) -> str | None:
        """The digest that the official files have; None where one of their SHA-256s is not known."""
        if self.generator:
            return self._made()
        checksums = [file.checksum.partition(":") for file in self.files]
        if any(algorithm != "sha256" for algorithm, _, _ in checksums):
            return None
        return digest_of([value for _, _, value in checksums])

    def status(self, root: Path) -> DataStatus:
        """What is here of it. Reads every byte the first time, none after that.

        Raises:
            DataError: a file is here and cannot be read.
        """
        if self.generator:
            return DataStatus("ready", self._made(), official=True)
        folder = self.locate(root)
        try:
            present = {file: folder / file.path for file in self.files if (folder / file.path).is_file()}
            missing = tuple(file.path for file in self.files if file not in present)
            damaged = tuple(file.path for file, path in present.items() if file.is_damaged(path))
            if missing or damaged:
                return DataStatus("incomplete" if present else "missing", missing=missing, damaged=damaged)
            with Digests() as digests:
                digest = digest_of([digests.of(path) for path in present.values()])
                unofficial = tuple(file.path for file, path in present.items() if not file.is_official(path, digests))
        except OSError as error:
            raise DataError(f"{self.name}: cannot read {error.filename}: {error.strerror}") from None
        return DataStatus("ready", digest, official=not unofficial, unofficial=unofficial)

    def _made(self) -> str:
        return digest_of([self.generator])

    def load(self, root: Path) -> Data:
        """Read it into memory.

        Raises:
            DataError: a file is missing or damaged.
        """
        folder = self.locate(root)
        missing = [file.path for file in self.files if not (folder / file.path).is_file()]
        if missing:
            advice = (
                self.hint or f"fetch it with `raybench data fetch {self.name}`, or set RAYBENCH_DATA to where it is"
            )
            raise DataError(f"{self.name}: {', '.join(missing)} not found in {folder}; {advice}")
        try:
            return self.read(folder)
        except OSError as error:
            raise DataError(f"{self.name}: cannot read {error.filename}: {error.strerror}") from None
