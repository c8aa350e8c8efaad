"""Temporary folders: gone with their maker, or with whoever makes the next one."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress

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


def _is_killed(path, ignore_errors):
    raise SystemExit


def _leaves_a_file(path, ignore_errors):
    (path / "late.log").touch()


@pytest.mark.parametrize("remove", [_is_killed, _leaves_a_file])
def test_folder_that_was_not_removed_whole_is_removed_later(tmp_path, monkeypatch, remove):
    scratch = Scratch()
    (scratch.path / "deep").mkdir()
    with monkeypatch.context() as patch, suppress(SystemExit):
        patch.setattr(shutil, "rmtree", remove)
        scratch.close()
    os.close(scratch._lock) if remove is _is_killed else None
    assert (scratch.path / "deep").exists()
    sweep()
    assert list(tmp_path.iterdir()) == []
