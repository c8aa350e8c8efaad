from __future__ import annotations

import tarfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from support.small_data import FILES, Server, member

from raybench.datasets import DataSet, get
from raybench.datasets.fetch import fetch
from raybench.errors import DataError

GOOD = [member(path, content) for path, content in FILES.items()]


def visible(root: Path) -> dict[str, bytes]:
    """Every file below a folder but locks, which stay."""
    found = {str(path.relative_to(root)): path for path in root.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in found.items() if not name.endswith(".lock")}


def test_single_files_with_progress(loose: DataSet, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    fetch(loose, tmp_path / "data", lambda done, total: seen.append((done, total)))
    assert visible(tmp_path / "data") == FILES
    total = sum(map(len, FILES.values()))
    assert seen == sorted(seen)
    assert seen[-1] == (total, total)
    status = loose.status(tmp_path / "data")
    assert (status.state, status.official, status.digest) == ("ready", True, loose.official_digest)


def test_files_of_an_archive(packed: Callable[..., DataSet], tmp_path: Path) -> None:
    dataset = packed(member("small", kind=tarfile.DIRTYPE), member("small/readme", b"unwanted"), *GOOD)
    fetch(dataset, tmp_path / "data")
    assert visible(tmp_path / "data") == FILES


@pytest.mark.parametrize("mine", [FILES["small/a.bin"], b"A" * 1000], ids=["official", "unofficial"])
def test_only_what_is_missing_is_fetched(loose: DataSet, server: Server, tmp_path: Path, mine: bytes) -> None:
    (tmp_path / "small").mkdir()
    (tmp_path / "small/a.bin").write_bytes(mine)
    fetch(loose, tmp_path)
    assert server.asked == ["/small/b.bin"]
    assert visible(tmp_path)["small/a.bin"] == mine
    assert visible(tmp_path)["small/b.bin"] == FILES["small/b.bin"]


def test_damaged_file_is_named_and_kept(loose: DataSet, server: Server, tmp_path: Path) -> None:
    (tmp_path / "small").mkdir()
    (tmp_path / "small/a.bin").write_bytes(b"short")
    with pytest.raises(DataError, match=r"small: .*small/a\.bin has the wrong size.*raybench data fetch small"):
        fetch(loose, tmp_path)
    assert visible(tmp_path) == {"small/a.bin": b"short"}
    assert server.asked == []


def test_unofficial_download_is_refused(loose: DataSet, server: Server, tmp_path: Path) -> None:
    server.content["/small/a.bin"] = b"b" * 1000
    with pytest.raises(DataError, match=r"a\.bin is not the official file: SHA256 hash .* does not match"):
        fetch(loose, tmp_path)
    assert visible(tmp_path) == {}


def test_interrupted_transfer_leaves_nothing(loose: DataSet, server: Server, tmp_path: Path) -> None:
    server.cut = 500
    with pytest.raises(DataError, match=r"Error|not the official file"):
        fetch(loose, tmp_path)
    assert visible(tmp_path) == {}


def test_file_missing_on_the_server(loose: DataSet, server: Server, tmp_path: Path) -> None:
    server.content.clear()
    with pytest.raises(DataError, match="404 Not Found"):
        fetch(loose, tmp_path)


def test_offline_message_without_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://me:secret@127.0.0.1:9")  # nothing listens there
    with pytest.raises(DataError) as caught:
        fetch(get("cifar10"), tmp_path / "data")
    message = str(caught.value)
    assert "secret" not in message + capfd.readouterr().err
    for part in ("cs.toronto.edu", "no connection", str(tmp_path / "data"), "RAYBENCH_DATA", "data fetch cifar10"):
        assert part in message


def test_folder_that_is_a_file(loose: DataSet, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(DataError, match=r"small: cannot write to .*data"):
        fetch(loose, tmp_path / "data")


def test_concurrent_fetches_download_once(loose: DataSet, server: Server, tmp_path: Path) -> None:
    server.hold = threading.Event()
    errors: list[BaseException] = []

    def in_a_thread() -> None:
        try:
            fetch(loose, tmp_path / "data")
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=in_a_thread) for _ in range(3)]
    for thread in threads:
        thread.start()
    server.hold.set()
    for thread in threads:
        thread.join()
    assert errors == []
    assert sorted(server.asked) == ["/small/a.bin", "/small/b.bin"]
    assert visible(tmp_path / "data") == FILES
