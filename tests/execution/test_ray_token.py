"""The token of a Ray that is started on this machine."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ray")

from raybench.execution.ray_token import own_token

pytestmark = [pytest.mark.ray, pytest.mark.slow]

FROM_THE_SHELL = {"RAY_AUTH_MODE": "disabled", "RAY_AUTH_TOKEN": "of-the-users-cluster"}


def authentication():
    return {name: value for name, value in os.environ.items() if name.startswith("RAY_AUTH_")}


def check(folder):
    """In a process of its own: Ray keeps one token per process, and a Ray of other tests may run in theirs."""
    from ray import _raylet

    loader = _raylet.AuthenticationTokenLoader.instance()
    with own_token(folder):
        (file,) = folder.iterdir()
        assert authentication() == {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(file)}
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        first = loader.get_raw_token()
        assert first == file.read_text() and len(first) == 64
    assert authentication() == FROM_THE_SHELL
    assert loader.get_raw_token(ignore_auth_mode=True) == "of-the-users-cluster"
    with own_token(folder):
        assert loader.get_raw_token() not in (first, "of-the-users-cluster")


def test_it_replaces_what_the_shell_says_and_only_meanwhile(tmp_path):
    others = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH_")}
    code = "import sys; from pathlib import Path; from test_ray_token import check; check(Path(sys.argv[1]))"
    environ = others | FROM_THE_SHELL | {"PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run([sys.executable, "-c", code, tmp_path], env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
