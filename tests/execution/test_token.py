"""The token of a Ray that is started on this machine."""

import os
import stat

import pytest

pytest.importorskip("ray")

from raybench.execution.token import own_token

pytestmark = [pytest.mark.ray, pytest.mark.slow]


def authentication():
    return {name: value for name, value in os.environ.items() if name.startswith("RAY_AUTH_")}


def test_it_replaces_what_the_shell_says_and_only_meanwhile(tmp_path, monkeypatch):
    from ray import _raylet

    loader = _raylet.AuthenticationTokenLoader.instance()
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "of-the-users-cluster")
    before = authentication()
    with own_token(tmp_path):
        (file,) = tmp_path.iterdir()
        assert authentication() == {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(file)}
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        first = loader.get_raw_token()
        assert first == file.read_text() and len(first) == 64
    assert authentication() == before
    assert loader.get_raw_token(ignore_auth_mode=True) == "of-the-users-cluster"
    with own_token(tmp_path):
        assert loader.get_raw_token() not in (first, "of-the-users-cluster")
