"""What Ray needs is checked before it starts, and named with its number."""

import os
import resource
import tempfile
from pathlib import Path

import pytest
from support.disks import small_disk

from raybench.core import temp_folders
from raybench.core.temp_folders import LONGEST, Scratch
from raybench.errors import ExecutionError
from raybench.execution import ray_requirements
from raybench.execution.deferred_ray import DeferredRayExecutor
from raybench.execution.ray_requirements import check_limits, check_settings, ray_folder

TWO_CORES = 104
"""Open files that are asked for on two cores."""


@pytest.fixture
def files(monkeypatch):
    """Sets the hard limit of open files."""
    real = resource.getrlimit

    def limit(hard):
        def getrlimit(kind):
            return (min(hard, 64), hard) if kind == resource.RLIMIT_NOFILE else real(kind)

        monkeypatch.setattr(resource, "getrlimit", getrlimit)
        monkeypatch.setattr(ray_requirements, "_thread_limits", list)

    return limit


def test_too_few_open_files_are_told_with_the_number_needed(files):
    files(TWO_CORES - 1)
    with pytest.raises(ExecutionError, match=rf"needs {TWO_CORES} open files .* the limit is 103.*ulimit -n 104"):
        check_limits(cores=2)
    files(TWO_CORES)
    check_limits(cores=2)
    with pytest.raises(ExecutionError, match="needs 352 open files"):
        check_limits(cores=64)


def test_too_few_threads_are_told_with_where_the_limit_comes_from(monkeypatch):
    monkeypatch.setattr(ray_requirements, "_thread_limits", lambda: [("ulimit -u", 10_000, 50), ("pids.max", 512, 300)])
    with pytest.raises(ExecutionError, match=r"need 216 processes and threads .* 212 of 512 are left \(pids\.max\)"):
        check_limits(cores=2)
    monkeypatch.setattr(ray_requirements, "_thread_limits", lambda: [("pids.max", 512, 200)])
    check_limits(cores=2)


def test_the_threads_of_a_user_are_counted():
    if not Path("/proc/self/task").is_dir():
        pytest.skip("no /proc")
    assert sum(ray_requirements._threads_of(os.geteuid())) >= len(list(Path("/proc/self/task").iterdir()))


@pytest.mark.slow
def test_a_setting_that_ray_crashes_of_is_named(monkeypatch):
    monkeypatch.setenv("RAY_worker_niceness", "none of these")
    monkeypatch.setenv("RAY_max_io_workers", "2")
    with pytest.raises(ExecutionError, match=r"RAY_worker_niceness: 'none of these'\. Unset it"):
        check_settings()
    monkeypatch.setenv("RAY_worker_niceness", "0")
    check_settings()


def test_without_settings_nothing_is_started_to_check_them(monkeypatch):
    for name in [name for name in os.environ if name.startswith("RAY_")]:
        monkeypatch.delenv(name)  # a Ray that an earlier test has loaded sets its own
    monkeypatch.setenv("RAY_ADDRESS", "nonsense")
    monkeypatch.setattr(ray_requirements.subprocess, "run", None)
    check_settings()


@pytest.fixture
def temporary(monkeypatch):
    """Sets the system's temporary folder."""

    def choose(folder):
        monkeypatch.setenv("TMPDIR", str(folder))
        monkeypatch.setattr(tempfile, "tempdir", None)
        return folder

    yield choose
    tempfile.tempdir = None


@pytest.mark.parametrize("name", ["x" * LONGEST, "é"])
def test_ray_gets_a_short_folder_whatever_tmpdir_is(tmp_path, temporary, name):
    folder = temporary(tmp_path / name)
    folder.mkdir()
    own, rays = Scratch(), ray_folder()
    try:
        assert own.path.parent == folder, "what a trial keeps there may be large"
        assert rays.path.parent == Path("/tmp") and rays.path.stat().st_mode & 0o777 == 0o700
    finally:
        own.close()
        rays.close()
    assert not rays.path.exists()


def test_a_short_folder_of_the_users_is_rays_too(temporary):
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="q") as folder:
        temporary(folder)
        rays = ray_folder()
        assert rays.path.parent == Path(folder)
        rays.close()
        tempfile.tempdir = None


def test_a_full_folder_is_left_for_another(tmp_path, temporary):
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="q") as folder, small_disk(Path(folder) / "d", "1m"):
        temporary(Path(folder) / "d")
        rays = ray_folder()
        assert rays.path.parent == Path("/tmp")
        rays.close()
        tempfile.tempdir = None


def test_no_folder_with_room_is_told(monkeypatch):
    monkeypatch.setattr(temp_folders, "_has_room", lambda folder: False)
    says = (
        r"temporary folder: none of .*, /tmp and /var/tmp has room for 10 MiB and 200 files.*Free disk space, or choose"
    )
    with pytest.raises(ExecutionError, match=says):
        ray_folder()


def test_no_temporary_folder_is_told(monkeypatch):
    def none():
        raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    with pytest.raises(ExecutionError, match=r"Ray needs a temporary folder: .*No usable.*with TMPDIR"):
        ray_folder()


def test_settings_are_checked_before_ray_is_loaded(monkeypatch):
    def refuse():
        raise ExecutionError("refused")

    monkeypatch.delitem(ray_requirements.sys.modules, "ray", raising=False)
    monkeypatch.setattr("raybench.execution.deferred_ray.check_settings", refuse)
    with pytest.raises(ExecutionError, match="refused"):
        DeferredRayExecutor("auto").nodes()
