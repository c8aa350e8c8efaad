"""Folders for compiled programs: only those to which nobody else can write."""

import os
import stat
import tempfile

import pytest

from raybench.trial.compile_caches import use_private_caches

NAMES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The system's temporary folder, open to all."""
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp").chmod(0o1777)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    for name in NAMES:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    return tmp_path / "tmp"


def used(spare):
    """What torch is to use for what it compiles."""
    use_private_caches("torch", spare)
    return os.environ["TORCHINDUCTOR_CACHE_DIR"]


def mode(path):
    return stat.S_IMODE(path.lstat().st_mode)


def test_cache_folder_is_shared_and_private(place, tmp_path):
    before = os.umask(0)
    try:
        first = used(tmp_path)
        del os.environ["TORCHINDUCTOR_CACHE_DIR"]
        assert used(tmp_path) == first
    finally:
        os.umask(before)
    (folder,) = place.iterdir()
    assert (str(folder), mode(folder)) == (first, 0o700)
    assert "TRITON_CACHE_DIR" not in os.environ, "by itself it is below the other"


def open_to_others(path):
    path.mkdir()
    path.chmod(0o777)


def link(path):
    path.with_name("elsewhere").mkdir(mode=0o700)
    path.symlink_to(path.with_name("elsewhere"))


def of_another(path):
    if os.getuid():
        pytest.skip("only root can make a folder of another user's")
    path.mkdir(mode=0o700)
    os.chown(path, 65534, 65534)


def a_file(path):
    path.touch()


@pytest.mark.parametrize("make", [open_to_others, link, of_another, a_file])
@pytest.mark.parametrize("named", [False, True])
def test_cache_folder_writable_by_others(place, tmp_path, monkeypatch, make, named):
    path = place / f"raybench-torchinductor-{os.getuid()}"
    make(path)
    if named:
        for name in NAMES:
            monkeypatch.setenv(name, str(path))
    spare = tmp_path / "spare"
    assert used(spare) == str(spare / "torchinductor_cache_dir")
    if named:
        assert os.environ["TRITON_CACHE_DIR"] == str(spare / "triton_cache_dir")


def test_a_folder_that_the_user_names_is_used(place, tmp_path, monkeypatch):
    named = tmp_path / "mine" / "compiled"
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(named))
    assert used(tmp_path / "spare") == str(named)
    assert named.is_dir() and list(place.iterdir()) == []
