"""A cache of its own for every test, and a real server on this machine to fetch from."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import small_data
from support.small_data import FILES, Member, Server, serving, sha256, small

from raybench.datasets.dataset import DataSet, Download


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("RAYBENCH_DATA", raising=False)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as site:
        yield site


@pytest.fixture
def loose(server: Server) -> DataSet:
    return small_data.loose(server)


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
