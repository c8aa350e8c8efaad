"""Two small files as a data set, archives of them, and what a test server holds."""

from __future__ import annotations

import hashlib
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
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


@contextmanager
def serving() -> Iterator[Server]:
    """A real server on this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.asked.append(self.path)
            if site.hold:
                site.hold.wait(30)
            content = site.content.get(self.path)
            if content is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: site.cut])

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        site = Server(f"http://127.0.0.1:{http.server_port}")
        thread = threading.Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        yield site
        http.shutdown()
        thread.join()


def sha256(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def read(folder: Path) -> Data:
    values = np.frombuffer((folder / "small/a.bin").read_bytes(), np.uint8)
    split = Split(values, values)
    return Data(split, split)


def small(*sources: Download) -> DataSet:
    files = tuple(DataFile(path, len(content), sha256(content)) for path, content in FILES.items())
    return DataSet("small", "two small files", files, {"train": 1000, "val": 1000}, read, sources)


def loose(server: Server) -> DataSet:
    """A data set whose files are downloaded one by one."""
    server.content = {f"/{path}": content for path, content in FILES.items()}
    return small(*(Download(f"{server.url}/{path}", len(data), sha256(data), (path,)) for path, data in FILES.items()))


Member = tuple[tarfile.TarInfo, bytes]


def member(name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, link: str = "") -> Member:
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = len(content), kind, link
    return info, content
