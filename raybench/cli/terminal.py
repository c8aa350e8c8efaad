"""Output of text to the terminal; tables use `raybench.cli.console`."""

from __future__ import annotations

import logging

import click

from raybench.core.text import printable


def say(text: str, err: bool = False, nl: bool = True) -> None:
    """Print text to standard output or standard error, without control codes."""
    click.echo(printable(text), err=err, nl=nl)


class PrintableFormatter(logging.Formatter):
    """Formats log records for a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as text."""
        return printable(super().format(record))
