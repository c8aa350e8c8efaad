import errno
import json
import os
import platform
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from raybench.errors import ResultsLockedError, UsageError
from raybench.tracking import lock
from raybench.tracking.driver import this_driver
from raybench.tracking.lock import BEAT, HOLDER, STALE, locked

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


def note(folder, seconds_ago, **other):
    """What a driver leaves, as another host sees it where flock does not reach."""
    driver = replace(this_driver(), host="node-7", boot="another", pid=4711, **other)
    path = folder / HOLDER
    path.write_text(json.dumps({"driver": driver.to_json(), "what": "the grid mine", "since": "09:00"}))
    os.utime(path, (time.time() - seconds_ago,) * 2)


def test_a_driver_on_another_host_is_seen_where_flock_does_not_reach(tmp_path):
    note(tmp_path, 30)
    with pytest.raises(ResultsLockedError) as caught, locked(tmp_path):
        pass
    says = str(caught.value)
    assert "the grid mine is running here since 09:00 (process 4711 on node-7)" in says
    assert "heard of 30 s ago: without it the folder is free in 90 s" in says or "31 s ago" in says
    assert (tmp_path / HOLDER).exists(), "it is still the other's"
    note(tmp_path, STALE + 5)
    with locked(tmp_path):
        assert this_driver().to_json() == json.loads((tmp_path / HOLDER).read_text())["driver"]
    assert not (tmp_path / HOLDER).exists()


def test_a_killed_container_of_this_host_leaves_no_lock(tmp_path):
    note(tmp_path, 0, space="pid:[1]")
    told = json.loads((tmp_path / HOLDER).read_text())
    told["driver"] = replace(this_driver(), host="container", space="pid:[1]").to_json()
    (tmp_path / HOLDER).write_text(json.dumps(told))
    with locked(tmp_path):
        pass


@pytest.mark.parametrize("refusal", [errno.ENOLCK, errno.ENOTSUP])
def test_without_flock_the_note_does(tmp_path, monkeypatch, refusal):
    import fcntl

    def flock(fd, operation):
        raise OSError(refusal, os.strerror(refusal))

    monkeypatch.setattr(fcntl, "flock", flock)
    with locked(tmp_path), pytest.raises(ResultsLockedError, match=f"process {os.getpid()} on"), locked(tmp_path):
        pass
    with locked(tmp_path):
        pass


def test_a_holder_shows_that_it_lives(tmp_path, monkeypatch):
    assert 3 * BEAT < STALE
    monkeypatch.setattr(lock, "BEAT", 0.05)
    with locked(tmp_path):
        os.utime(tmp_path / HOLDER, (0, 0))
        deadline = time.monotonic() + 30
        while (tmp_path / HOLDER).stat().st_mtime < 1:
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_a_folder_that_is_taken_away_meanwhile_is_let_go_of(tmp_path):
    with locked(tmp_path / "results"):
        (tmp_path / "results").rename(tmp_path / "moved")
