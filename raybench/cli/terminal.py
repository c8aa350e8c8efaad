"""The only way from raybench to the terminal, beside tables (`raybench.cli.console`)."""

from __future__ import annotations

import logging

import click

from raybench.core.text import printable


def say(text: str, err: bool = False, nl: bool = True) -> None:
    """Print a line of text to standard output, or to standard error; nothing in it commands the terminal."""
    click.echo(printable(text), err=err, nl=nl)


class PrintableFormatter(logging.Formatter):
    """Formats what is logged, for a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as text."""
        return printable(super().format(record))
