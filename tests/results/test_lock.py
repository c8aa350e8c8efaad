"""The lock of a results folder."""

import errno
import os
import platform
import stat
import subprocess
import sys

import pytest

from raybench.errors import ResultsLockedError, UsageError
from raybench.results.lock import HOLDER, LOCK, locked

HOLD = (
    "import sys, pathlib; from raybench.results.lock import locked\n"
    "with locked(pathlib.Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
)


def test_one_driver_a_folder(tmp_path):
    results = tmp_path / "new" / "results"
    with locked(results, "the grid mine"):
        assert stat.S_IMODE((results / LOCK).stat().st_mode) == 0o600, "another user cannot hold it"
        with pytest.raises(ResultsLockedError) as caught, locked(results):
            pass
    message = str(caught.value)
    assert message.startswith(f"{results}: the grid mine has been running here since 2")
    assert message.endswith(
        f"(process {os.getpid()} on {platform.node()}); wait for it or choose a different folder with --results"
    )
    with locked(results):
        pass


def test_a_killed_driver_leaves_no_lock(tmp_path):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(ResultsLockedError, match=f"process {holder.pid} on"), locked(tmp_path):
        pass
    holder.kill()
    holder.communicate()
    with locked(tmp_path):
        pass


def test_a_deleted_lock_is_still_held(tmp_path):
    with locked(tmp_path):
        (tmp_path / LOCK).unlink()
        with pytest.raises(ResultsLockedError, match="has been running here since"), locked(tmp_path):
            pass
    with locked(tmp_path):
        pass


def test_an_unknown_holder_is_still_refused(tmp_path):
    with locked(tmp_path):
        (tmp_path / HOLDER).write_bytes(b"\xff")
        with pytest.raises(ResultsLockedError, match="another raybench command is running here"), locked(tmp_path):
            pass


def test_a_folder_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="Cannot write to"), locked(tmp_path / "file" / "results"):
        pass


def test_a_file_system_without_locks_is_refused(tmp_path, monkeypatch):
    import fcntl

    def flock(fd, operation):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(UsageError, match="No locks available"), locked(tmp_path):
        pass


def test_lock_of_a_removed_folder(tmp_path):
    with locked(tmp_path / "results"):
        (tmp_path / "results").rename(tmp_path / "moved")
