"""Output of text to the terminal; tables use `raybench.cli.console`."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from raybench.core.text import printable
from raybench.errors import UsageError


def say(text: str, err: bool = False, nl: bool = True) -> None:
    """Print text to standard output or standard error, without control codes."""
    click.echo(printable(text), err=err, nl=nl)


def write_file(path: Path, content: str | bytes) -> None:
    """Write text to a file or to the terminal, or an image to a file."""
    if path == Path("-") and isinstance(content, str):
        say(content, nl=False)
        return
    try:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror or error}") from None


class PrintableFormatter(logging.Formatter):
    """Formats log records for a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as text."""
        return printable(super().format(record))
