"""A grid in unusual surroundings: it runs, or says in one message what is wrong and what helps."""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.disks import small_disk

pytestmark = pytest.mark.slow  # every test starts the command as a process

GRID = """
name: digits
workload: digits_cnn
epochs: 2
warmup_epochs: 1
steps_per_epoch: 2
batch_size: 32
examples: {train: 128, val: 64}
threads: 1
axes:
  device: [cpu]
"""
NO_ROOM = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
COMMAND = "grid digits.yaml --no-checks --no-tracking"
INLINE = f"{COMMAND} --inline"


@dataclass
class Ended:
    """How a command ended, what it said where, and the trials that its journal has as completed."""

    status: int
    out: str
    err: str
    completed: int

    def in_order(self):
        assert (self.status, self.completed, self.err) == (0, 1, ""), self


@pytest.fixture
def command(tmp_path):
    """Runs `BEFORE python FLAGS -m raybench ARGUMENTS` in a shell, after `prepare`, with what `redirect` says."""
    (tmp_path / "digits.yaml").write_text(GRID)

    def run(arguments, prepare="true", redirect="", flags="", before="", timeout=300, **environment):
        python = f"exec {before} {shlex.quote(sys.executable)} {flags} -m raybench"
        done = subprocess.run(
            ["bash", "-c", f"{prepare} && {python} {arguments} {redirect}"],
            cwd=tmp_path,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        assert "Traceback" not in done.stderr + done.stdout, done.stderr
        journals = [path.read_text() for path in tmp_path.glob("**/journal.jsonl")]
        completed = sum(text.count('"status":"completed"') for text in journals)
        return Ended(done.returncode, done.stdout, done.stderr, completed)

    return run


def test_an_output_that_lacks_characters_gets_others(command):
    ended = command(INLINE, PYTHONIOENCODING="ascii")
    ended.in_order()
    assert ended.out.isascii() and "completed" in ended.out
    # A dash between the ends of an interval is no question mark.
    assert "?" not in command("report digits~inline --full", PYTHONIOENCODING="ascii").out


@pytest.mark.parametrize(
    ("redirect", "says"),
    [
        pytest.param(">/dev/full", "The output is incomplete: No space left on device.\n", marks=NO_ROOM),
        (">&-", ""),
        pytest.param("2>&-", "", marks=pytest.mark.exhaustive),
        pytest.param(">/dev/full 2>&1", "", marks=[pytest.mark.exhaustive, NO_ROOM]),
        pytest.param("<&- >&- 2>&-", "", marks=pytest.mark.exhaustive),
        pytest.param("| head -c 10", "", marks=pytest.mark.exhaustive),
    ],
)
def test_a_grid_whose_output_has_nowhere_to_go_is_run_and_kept(command, redirect, says):
    ended = command(INLINE, redirect=redirect)
    assert (ended.status, ended.completed, ended.err) == (0, 1, says)


@NO_ROOM
def test_a_command_whose_output_is_its_result_fails_without_it(command):
    ended = command("schema", redirect=">/dev/full")
    assert (ended.status, ended.err) == (1, "The output is incomplete: No space left on device.\n")


@pytest.mark.parametrize(
    "flags",
    ["-OO", pytest.param("-O", marks=pytest.mark.exhaustive), pytest.param("-W error", marks=pytest.mark.exhaustive)],
)
def test_the_interpreters_own_options_change_nothing(command, flags):
    command(INLINE, flags=flags).in_order()


@pytest.mark.parametrize(
    ("prepare", "environment", "status", "says"),
    [
        ("mkdir gone && cd gone && rmdir ../gone", {}, 2, "The current folder was deleted; change to another one"),
        ("ulimit -n 64", {}, 1, "open files in a process on this machine, and the limit is 64. Raise it"),
        ("true", {"RAY_worker_niceness": "none"}, 1, "RAY_worker_niceness: 'none'. Unset it"),
        ("true", {"PYTHONOPTIMIZE": "2"}, 1, "Ray needs docstrings, which `python -OO`"),
    ],
    ids=["deleted folder", "open files", "a setting of Ray's", "no docstrings"],
)
def test_what_cannot_work_is_one_message_before_anything_starts(command, prepare, environment, status, says):
    ended = command(COMMAND, prepare=prepare, timeout=60, **environment)
    assert (ended.status, ended.completed) == (status, 0)
    assert says in ended.err and len(ended.err.splitlines()) == 1


@pytest.mark.ray
@pytest.mark.exhaustive
def test_a_long_temporary_folder_of_any_name(command, tmp_path):
    folder = tmp_path / ("é" * 50)
    folder.mkdir()
    command(COMMAND, TMPDIR=str(folder)).in_order()
    assert not list(folder.glob("rb-*")), "nothing of ours stays"


@pytest.mark.ray
@pytest.mark.exhaustive
def test_a_full_temporary_folder(command):
    with tempfile.TemporaryDirectory(prefix="q", dir="/tmp") as short, small_disk(Path(short) / "d", "32k") as disk:
        command(COMMAND, TMPDIR=str(disk.folder)).in_order()


def test_a_home_folder_that_is_a_file(command, tmp_path):
    (tmp_path / "file").touch()
    command("grid digits.yaml --no-checks --inline", HOME=str(tmp_path / "file"), MPLCONFIGDIR="").in_order()


NAMELESS = "setpriv --reuid=12345 --regid=12345 --clear-groups --inh-caps=+dac_override --ambient-caps=+dac_override"
"""Runs a command as a user whom the system does not know, who may nevertheless read what the tests are run from."""


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="needs root, to become another user")
@pytest.mark.skipif(not shutil.which("setpriv"), reason="needs setpriv")
def test_a_user_without_a_name_or_a_home_folder(command, tmp_path):
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o777)
        prepare = f"cp digits.yaml {folder} && cd {folder} && unset HOME USER LOGNAME"
        arguments = f"grid digits.yaml --no-checks --inline --results {tmp_path}/results"
        own = dict.fromkeys(("TMPDIR", "XDG_CACHE_HOME", "MPLCONFIGDIR"), folder)
        command(arguments, prepare=prepare, before=NAMELESS, **own).in_order()


@pytest.mark.ray
@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "environment",
    [
        {"HOME": "/nonexistent/home"},
        {"HOME": "/proc/sys"},
        {"HOME": "/dev/null"},
        {"TMPDIR": "/nonexistent/tmp"},
        {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"PYTHONOPTIMIZE": "1"},
        {"PYTHONWARNINGS": "error"},
    ],
    ids=str,
)
def test_a_grid_with_ray_runs(command, environment):
    command(COMMAND, **environment).in_order()
