"""Temporary folders: gone with their maker, or with whoever makes the next one."""

import shutil
import signal
import subprocess
import sys
import tempfile

import pytest

from raybench.core.temp_folders import LOCK, Scratch, sweep


@pytest.fixture(autouse=True)
def own_place(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)


def test_folder_is_removed_with_its_owner(tmp_path):
    scratch = Scratch()
    (scratch.path / "deep").mkdir()
    sweep()
    assert list(tmp_path.iterdir()) == [scratch.path] and (scratch.path / "deep").is_dir()
    scratch.close()
    scratch.close()
    assert list(tmp_path.iterdir()) == []


def test_folder_of_a_killed_owner_is_removed(tmp_path):
    code = (
        "from raybench.core.temp_folders import Scratch; import time; "
        "print(Scratch().path, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as maker:
        path = tmp_path / maker.stdout.readline().strip().rpartition("/")[2]
        Scratch().close()
        assert path.is_dir(), "its maker lives"
        maker.send_signal(signal.SIGKILL)
    Scratch().close()
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_scratch_folder_is_left_alone(tmp_path):
    (tmp_path / "rb-mine").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / LOCK).touch()
    (tmp_path / "rb-link").symlink_to(tmp_path / "other")
    (tmp_path / "rb-file").touch()
    before = sorted(tmp_path.iterdir())
    sweep()
    assert sorted(tmp_path.iterdir()) == before and (tmp_path / "other" / LOCK).exists()


def test_folder_to_which_a_process_still_writes_is_removed_later(tmp_path, monkeypatch):
    def remove_all_but_a_new_file(path, ignore_errors):
        (path / LOCK).unlink()
        (path / "late.log").touch()

    scratch = Scratch()
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", remove_all_but_a_new_file)
        scratch.close()
    assert (scratch.path / "late.log").exists()
    sweep()
    assert list(tmp_path.iterdir()) == []
