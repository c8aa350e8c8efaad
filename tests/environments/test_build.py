"""Environments are built once, whole or not at all, and known to be stale."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import replace

import pytest
from raybench.environments.status import LOG, STAMP

from raybench.environments import RECIPES, environment_status, environments_root, python_of
from raybench.environments.build import create
from raybench.errors import ExecutionError, UsageError

pytestmark = pytest.mark.slow


def test_one_is_built_and_then_left_alone_until_it_is_stale(tiny, tmp_path, monkeypatch):
    built = create("tiny", lambda _: None)
    assert (built.state, built.packages) == ("ready", {"tiny": "1.0"})
    assert built.version == ".".join(map(str, sys.version_info[:3]))
    assert built.size > 1_000_000
    assert built.folder == tmp_path / "environments" / "tiny"
    done = subprocess.run([python_of("tiny"), "-c", "import tiny"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Successfully installed tiny-1.0" in (built.folder / LOG).read_text()
    before = (built.folder / STAMP).stat().st_mtime_ns
    create("tiny", lambda line: pytest.fail(f"did something: {line}"))
    assert (built.folder / STAMP).stat().st_mtime_ns == before

    # What has happened to it since.
    stamp = json.loads((built.folder / STAMP).read_text())
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(RECIPES, "tiny", replace(tiny, extra=("tiny>=1",)))
        assert (environment_status("tiny").state, environment_status("tiny").reason) == (
            "stale",
            "its recipe has changed",
        )
        assert python_of("tiny") is None
    (built.folder / STAMP).write_text(json.dumps({**stamp, "python": "3.8.1"}))
    assert environment_status("tiny").reason.startswith("built for Python 3.8.1, but its Python is now 3.")
    (built.folder / STAMP).write_text(json.dumps(stamp))
    assert environment_status("tiny").state == "ready"
    own = built.python.readlink()
    built.python.unlink()
    built.python.symlink_to("/gone/bin/python3")
    assert environment_status("tiny").reason == f"its Python {built.version}: no such file"
    built.python.unlink()
    built.python.symlink_to(own)

    told = []
    assert create("tiny", told.append, rebuild=True).state == "ready"
    assert any("tiny" in line for line in told)
    assert [line.split(":")[0] for line in told] == sorted(line.split(":")[0] for line in told)
    assert {line.split(":")[0] for line in told} == {"step 1 of 3", "step 2 of 3", "step 3 of 3"}

    # One that was ready is not, once building it anew has failed.
    monkeypatch.setattr("raybench.environments.build.sys.executable", "/bin/false")
    with pytest.raises(ExecutionError, match="python -m venv failed with exit status 1"):
        create("tiny", lambda _: None, rebuild=True)
    assert environment_status("tiny").state == "not built"


def test_what_pip_cannot_do_is_told_and_leaves_nothing(tiny, monkeypatch):
    monkeypatch.setitem(RECIPES, "tiny", replace(tiny, extra=("tiny @ file:///nowhere/tiny-1.0-py3-none-any.whl",)))
    with pytest.raises(ExecutionError) as caught:
        create("tiny", lambda _: None)
    first, *_, last = str(caught.value).splitlines()
    folder = environments_root() / "tiny"
    assert first == "environment tiny could not be built: pip failed with exit status 1"
    assert "No such file or directory: '/nowhere/tiny-1.0-py3-none-any.whl'" in str(caught.value)
    assert last == f"Full output: {folder / LOG}"
    assert "/nowhere/tiny" in (folder / LOG).read_text()
    assert [path.name for path in folder.iterdir()] == [LOG]
    assert environment_status("tiny").state == "not built"


@pytest.mark.exhaustive
def test_nothing_of_another_environment_leaks_in(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "leak"))
    monkeypatch.setenv("PIP_TARGET", str(tmp_path / "leak"))
    monkeypatch.setenv("PIP_USER", "1")
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "leak"))
    assert create("tiny", lambda _: None).packages == {"tiny": "1.0"}
    assert not (tmp_path / "leak").exists()


@pytest.mark.exhaustive
def test_a_constraint_is_the_persons_own(tiny, tmp_path, monkeypatch):
    (tmp_path / "constraint.txt").write_text("tiny==2.0\n")
    monkeypatch.setenv("PIP_CONSTRAINT", str(tmp_path / "constraint.txt"))
    with pytest.raises(ExecutionError, match="tiny"):
        create("tiny", lambda _: None)


def test_a_folder_that_cannot_be_is_told(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RAYBENCH_ENVIRONMENTS", str(tmp_path / "file"))
    with pytest.raises(UsageError, match=r"file/tiny: cannot write there \(Not a directory\); change RAYBENCH_ENV"):
        create("tiny", lambda _: None)


def test_two_at_once_build_one(tiny):
    told = []
    threads = [threading.Thread(target=create, args=("tiny", told.append)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert environment_status("tiny").state == "ready"
    assert told.count("waiting for another raybench process that builds it") == 1
    assert sum("Successfully installed" in line for line in told) == 1


def test_ctrl_c_ends_pip_and_leaves_nothing_that_looks_built(tmp_path):
    code = (
        "import sys\n"
        "from raybench.environments import RECIPES, Recipe\n"
        "from raybench.environments.build import create\n"
        "RECIPES['tiny'] = Recipe('tiny', 'tiny', ('nothing',), '')\n"
        "try:\n"
        "    create('tiny', lambda line: print(line, flush=True))\n"
        "except KeyboardInterrupt:\n"
        "    sys.exit(130)\n"
    )
    # A server that never answers: pip waits for it until it is ended.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        index = f"http://127.0.0.1:{silent.getsockname()[1]}/simple"
        environ = os.environ | {"PIP_INDEX_URL": index, "PIP_NO_INDEX": "0", "NO_PROXY": "127.0.0.1"}
        maker = subprocess.Popen([sys.executable, "-c", code], env=environ, stdout=subprocess.PIPE, text=True)
        silent.settimeout(120)
        connection, _ = silent.accept()
        maker.send_signal(signal.SIGINT)
        assert maker.wait(120) == 130
        maker.stdout.close()
        connection.settimeout(60)
        while connection.recv(1 << 16):
            pass  # ends when pip is gone
        connection.close()
    folder = tmp_path / "environments" / "tiny"
    assert [path.name for path in folder.iterdir()] == [LOG]
    assert environment_status("tiny").state == "not built"
