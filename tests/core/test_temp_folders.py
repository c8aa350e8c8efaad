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


def test_a_folder_in_use_stays_and_goes_with_its_maker(tmp_path):
    scratch = Scratch()
    (scratch.path / "deep").mkdir()
    sweep()
    assert list(tmp_path.iterdir()) == [scratch.path] and (scratch.path / "deep").is_dir()
    scratch.close()
    scratch.close()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_maker_left_goes_with_the_next_one(tmp_path):
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


def test_what_is_still_written_into_goes_when_that_has_ended(tmp_path):
    """A server that ends writes its last lines: a folder that lost its lock and not its files would stay for ever."""
    code = "import pathlib, sys, time; begun = time.monotonic()\n"
    code += "while time.monotonic() < begun + 0.7:\n try: pathlib.Path(sys.argv[1], str(time.time_ns())).touch()\n"
    code += " except OSError: pass"
    scratch = Scratch()
    with subprocess.Popen([sys.executable, "-c", code, scratch.path]):
        while len(list(scratch.path.iterdir())) < 10:
            pass
        scratch.close()
        assert not scratch.path.exists() or (scratch.path / LOCK).exists()
    sweep()
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


def test_a_folder_that_another_program_removes(tmp_path):
    scratch = Scratch()
    assert not scratch.removed
    shutil.rmtree(scratch.path)
    assert scratch.removed
    scratch.close()
    assert not scratch.removed and list(tmp_path.iterdir()) == []
