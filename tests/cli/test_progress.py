"""Bars on a terminal, and none without one."""

from io import StringIO

import pytest

from raybench.cli import progress
from raybench.cli.console import Terminal


@pytest.mark.parametrize("terminal", [True, False])
def test_reading_shows_a_bar_on_a_terminal_once_there_is_something_to_read(monkeypatch, terminal):
    screen = StringIO()
    console = Terminal(file=screen, force_terminal=terminal, width=100)
    monkeypatch.setattr(progress, "Terminal", lambda **_: console)
    with progress.reading("reading a store") as done:
        assert "reading" not in screen.getvalue()
        done(1_000_000, 2_000_000)
    assert ("reading a store" in screen.getvalue() and "1.0/2.0 MB" in screen.getvalue()) == terminal
