"""Two small files as a data set, archives of them, and what a test server holds."""

from __future__ import annotations

import hashlib
import tarfile
import threading
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from raybench.datasets.dataset import DataFile, DataSet, Download
from raybench.datasets.splits import Data, Split

FILES = {"small/a.bin": b"a" * 1000, "small/b.bin": bytes(range(256)) * 8}


@dataclass
class Server:
    """What it serves by path, and every path it was asked for."""

    url: str
    content: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    cut: int | None = None
    """Send only so many bytes, though the length says more."""
    hold: threading.Event | None = None
    """Answer only once this is set."""


def sha256(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def read(folder: Path) -> Data:
    values = np.frombuffer((folder / "small/a.bin").read_bytes(), np.uint8)
    split = Split(values, values)
    return Data(split, split)


def small(*sources: Download) -> DataSet:
    files = tuple(DataFile(path, len(content), sha256(content)) for path, content in FILES.items())
    return DataSet("small", "two small files", files, {"train": 1000, "val": 1000}, read, sources)


Member = tuple[tarfile.TarInfo, bytes]


def member(name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, link: str = "") -> Member:
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = len(content), kind, link
    return info, content
