"""Progress display of a running grid in a cell of a notebook, in one output that is redrawn in place."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import import_module
from io import StringIO
from typing import Any

from rich.control import Control
from rich.live import Live

from raybench.cli.console import Terminal
from raybench.cli.live import Display
from raybench.execution.progress import ProgressListener

REDRAW_SECONDS = 1.0
"""Minimum seconds between two redraws without a new line: drawing takes time of the cores that are measured."""

WIDTH, LINES = 100, 200
"""Width of the output in characters; number of the last lines that are shown."""

PAGE = """<pre style="line-height: 1.35; margin: 0; white-space: pre-wrap">{code}</pre>"""

Show = Callable[[str, str], None]


class NotebookConsole(Terminal):
    """A console whose lines, and the live display below them, are shown as HTML.

    Neither widgets nor a terminal are needed, so it works in Jupyter, Colab, Kaggle and VS Code.

    Args:
        show: function that replaces the output of the cell, from HTML and plain text.
    """

    def __init__(self, show: Show) -> None:
        super().__init__(file=StringIO(), force_terminal=True, force_jupyter=False, width=WIDTH)
        self._show, self._shown = show, 0.0
        self._past: list[tuple[str, str]] = []
        self._bar: Live | None = None

    @property
    def is_dumb_terminal(self) -> bool:
        """Whether a live display is impossible: never, whatever TERM is."""
        return False

    def print(self, *objects: Any, **options: Any) -> None:
        """Add lines; rich's live display prints only a control code, to redraw itself."""
        is_redraw = bool(objects) and all(isinstance(each, Control) for each in objects)
        if not is_redraw:
            self._past = [*self._past, _rendered(*objects, **options)][-LINES:]
        if not is_redraw or time.monotonic() - self._shown > REDRAW_SECONDS:
            self._redraw()

    def set_live(self, live: Live) -> bool:
        """Show a live display."""
        self._bar = live
        return True

    def clear_live(self) -> None:
        """Remove the live display."""
        self._bar = None
        self._redraw()

    def _redraw(self) -> None:
        self._shown = time.monotonic()
        parts = [*self._past, *([_rendered(self._bar.get_renderable())] if self._bar else [])]
        html, text = ("".join(each) for each in zip(*parts, strict=True)) if parts else ("", "")
        self._show(PAGE.format(code=html), text)


def _rendered(*objects: Any, **options: Any) -> tuple[str, str]:
    page = Terminal(
        record=True, file=StringIO(), force_terminal=True, force_jupyter=False, color_system="standard", width=WIDTH
    )
    page.print(*objects, **options)
    return page.export_html(clear=False, inline_styles=True, code_format="{code}"), page.export_text()


def progress_display(ray: bool, mlflow: bool) -> ProgressListener:
    """Return the display for where this process runs: a notebook, a terminal, or plain lines.

    Args:
        ray, mlflow: whether these are started before the first trial.
    """
    services = [name for name, is_used in (("Ray", ray), ("MLflow", mlflow)) if is_used]
    return Display(NotebookConsole(_cell_output()) if Terminal().is_jupyter else None, services)


def _cell_output() -> Show:
    """Return a function that replaces an output of the current cell."""
    ipython: Any = import_module("IPython.display")
    handle = ipython.display({"text/plain": ""}, raw=True, display_id=True)

    def show(html: str, text: str) -> None:
        ipython.update_display({"text/html": html, "text/plain": text}, raw=True, display_id=handle.display_id)

    return show
