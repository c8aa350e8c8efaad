import os
import platform
import subprocess
import sys

import pytest

from raybench.errors import ResultsLockedError, UsageError
from raybench.tracking.lock import locked

HOLD = (
    "import sys, pathlib; from raybench.tracking.lock import locked\n"
    "with locked(pathlib.Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
)


def test_one_driver_a_folder(tmp_path):
    results = tmp_path / "new" / "results"
    with locked(results), pytest.raises(ResultsLockedError) as caught, locked(results):
        pass
    assert f"process {os.getpid()} on {platform.node()}" in str(caught.value)
    assert str(results) in str(caught.value) and "--results" in str(caught.value)
    with locked(results):
        pass


def test_two_folders_are_two(tmp_path):
    with locked(tmp_path / "a"), locked(tmp_path / "b"):
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


def test_who_cannot_be_told_is_no_error(tmp_path):
    with locked(tmp_path):
        (tmp_path / ".lock.json").write_text("[")
        with pytest.raises(ResultsLockedError, match="only just begun"), locked(tmp_path):
            pass


def test_a_folder_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot keep results there"), locked(tmp_path / "file" / "results"):
        pass


def test_an_error_inside_lets_go(tmp_path):
    with pytest.raises(KeyError), locked(tmp_path):
        raise KeyError
    with locked(tmp_path):
        pass
