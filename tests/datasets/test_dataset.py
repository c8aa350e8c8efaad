from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from support.small_data import FILES, small

from raybench import datasets
from raybench.datasets.digests import Digests, hash_file
from raybench.datasets.paths import data_root, user_cache
from raybench.errors import DataError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A data folder with both small files, written a while ago."""
    folder = tmp_path / "data"
    for path, content in FILES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


def test_ready_and_official(root: Path) -> None:
    status = small().status(root)
    assert (status.state, status.official) == ("ready", True)
    assert status.digest == small().official_digest == "sha256:0f43190b"


@pytest.mark.parametrize("path", FILES)
def test_changed_byte_changes_the_digest(root: Path, path: str) -> None:
    before = small().status(root).digest
    content = bytearray(FILES[path])
    content[-1] ^= 1
    (root / path).write_bytes(content)
    status = small().status(root)
    assert status.state == "ready"
    assert status.digest != before
    assert not status.official


def test_missing_and_incomplete(root: Path, tmp_path: Path) -> None:
    assert small().status(tmp_path / "nowhere").state == "missing"
    (root / "small/b.bin").unlink()
    status = small().status(root)
    assert (status.state, status.missing, status.digest) == ("incomplete", ("small/b.bin",), None)
    (root / "small/b.bin").write_bytes(b"torn")
    status = small().status(root)
    assert (status.state, status.damaged) == ("incomplete", ("small/b.bin",))


def test_repacked_file_of_a_different_size(root: Path) -> None:
    files = tuple(replace(file, size_may_differ=True) for file in small().files)
    dataset = replace(small(), files=files)
    (root / "small/b.bin").write_bytes(b"repacked")
    assert not dataset.status(root).official
    (root / "small/b.bin").write_bytes(b"")
    assert dataset.status(root).damaged == ("small/b.bin",)


def test_load_names_what_is_missing(root: Path) -> None:
    assert len(small().load(root).train) == 1000
    (root / "small/a.bin").unlink()
    with pytest.raises(DataError, match=r"^small: small/a\.bin not found in .*`raybench data fetch small`"):
        small().load(root)


def test_unknown_name() -> None:
    with pytest.raises(DataError, match="unknown data set 'cifar-10'; did you mean cifar10"):
        datasets.get("cifar-10")
    with pytest.raises(DataError, match="use one of digits, python-code, mnist, imdb, cifar10, mnist-synthetic"):
        datasets.get("zzz")
    assert [datasets.get(name).name for name in datasets.names()] == list(datasets.names())


# The memory of digests


def old(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    read: list[Path] = []

    def counted(path: Path, algorithm: str = "sha256") -> str:
        read.append(path)
        return hash_file(path, algorithm)

    monkeypatch.setattr("raybench.datasets.digests.hash_file", counted)
    return read


def test_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = old(tmp_path / "file", b"abc")
    read = count_reads(monkeypatch)
    for _ in range(3):
        with Digests() as digests:
            assert digests.of(path).startswith("ba7816bf")
    assert read == [path]


def test_changed_file_with_its_old_time(tmp_path: Path) -> None:
    path = old(tmp_path / "file", b"abc")
    with Digests() as digests:
        before = digests.of(path)
    time = path.stat().st_mtime_ns
    path.write_bytes(b"abd")
    os.utime(path, ns=(time, time))
    with Digests() as digests:
        assert digests.of(path) != before


@pytest.mark.parametrize("memory", [b"", b"{", b"[]", b"\xff\xfe", b'{"sha256:%s": "x"}', b'{"sha256:%s": [1, 2]}'])
def test_damaged_cache_of_digests(tmp_path: Path, memory: bytes) -> None:
    path = old(tmp_path / "file", b"abc")
    place = tmp_path / "memory.json"
    place.write_bytes(memory.replace(b"%s", str(path).encode()))
    with Digests(place) as digests:
        assert digests.of(path).startswith("ba7816bf")
    assert json.loads(place.read_text())[f"sha256:{path}"][-1].startswith("ba7816bf")
    assert sorted(tmp_path.glob(".digests-*")) == []


# Folders


def test_data_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert data_root() == user_cache() / "data"
    monkeypatch.setenv("RAYBENCH_DATA", str(tmp_path))
    assert data_root() == tmp_path
    monkeypatch.setenv("RAYBENCH_DATA", "~/data")
    assert data_root() == Path.home() / "data"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAYBENCH_DATA", "here")
    assert data_root() == tmp_path / "here"
