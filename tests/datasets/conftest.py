"""A cache of its own for every test, and a real server on this machine to fetch from."""

from __future__ import annotations

import io
import tarfile
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from support.small_data import FILES, Member, Server, sha256, small

from raybench.datasets.dataset import DataSet, Download


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("RAYBENCH_DATA", raising=False)


@pytest.fixture
def server() -> Iterator[Server]:
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


@pytest.fixture
def loose(server: Server) -> DataSet:
    """A data set whose files are downloaded one by one."""
    server.content = {f"/{path}": content for path, content in FILES.items()}
    sources = [
        Download(f"{server.url}/{path}", len(content), sha256(content), (path,)) for path, content in FILES.items()
    ]
    return small(*sources)


@pytest.fixture
def packed(server: Server) -> Callable[..., DataSet]:
    """A data set whose files are downloaded as one archive of the given members."""

    def make(*members: Member, damage: bool = False) -> DataSet:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
            for info, content in members:
                tar.addfile(info, io.BytesIO(content))
        archive = buffer.getvalue()
        if damage:
            archive = archive[: len(archive) // 2]
        server.content = {"/small.tar.gz": archive}
        return small(Download(f"{server.url}/small.tar.gz", len(archive), sha256(archive), tuple(FILES)))

    return make
