"""Environments are built once, whole or not at all, and known to be stale."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import replace

import pytest

from raybench.environments import RECIPES, environment_status, environments_root, python_of
from raybench.environments.build import LOG, create
from raybench.errors import ExecutionError, UsageError

pytestmark = pytest.mark.slow


INSTALLERS = ["pip", pytest.param("uv", marks=pytest.mark.skipif(not shutil.which("uv"), reason="uv is missing"))]


@pytest.mark.parametrize("installer", INSTALLERS)
def test_built_once_until_recipe_changes(tiny, monkeypatch, installer):
    if installer == "pip":
        monkeypatch.setattr("raybench.environments.build.shutil.which", lambda name: None)
    built = create("tiny", lambda _: None)
    assert (built.state, built.packages) == ("ready", {"tiny": "1.0"})
    assert built.version == ".".join(map(str, sys.version_info[:3]))
    subprocess.run([python_of("tiny"), "-c", "import tiny"], check=True)
    create("tiny", lambda line: pytest.fail(f"did something: {line}"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(RECIPES, "tiny", replace(tiny, extra=("tiny>=1",)))
        assert (environment_status("tiny").state, python_of("tiny")) == ("stale", None)
    monkeypatch.setitem(RECIPES, "tiny", replace(tiny, extra=("tiny @ file:///nowhere/tiny-1.0-py3-none-any.whl",)))
    with pytest.raises(ExecutionError, match="environment tiny could not be built: exit status") as caught:
        create("tiny", lambda _: None)
    log = environments_root() / "tiny" / LOG
    assert str(caught.value).splitlines()[-1] == f"Full output: {log}"
    assert "/nowhere/tiny" in log.read_text()
    assert environment_status("tiny").state == "not built", "also if it was ready before"


def test_nothing_of_another_environment_leaks_in(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "leak"))
    monkeypatch.setenv("PIP_TARGET", str(tmp_path / "leak"))
    monkeypatch.setenv("PIP_USER", "1")
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "leak"))
    assert create("tiny", lambda _: None).packages == {"tiny": "1.0"}
    assert not (tmp_path / "leak").exists()


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
    assert sum(line == "creating a virtual environment" for line in told) == 1


def test_ctrl_c_ends_pip_and_leaves_nothing_that_looks_built(tmp_path):
    code = (
        "import sys\n"
        "from raybench.environments import RECIPES, Recipe\n"
        "from raybench.environments.build import LOG, create\n"
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
