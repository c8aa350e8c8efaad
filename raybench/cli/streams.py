"""Standard output and error whose failure never ends a command: output that cannot be written is dropped.

A grid trains for hours and keeps its results in files; a closed terminal, a full disk behind `> log` or a locale that
lacks a character must not stop it.
"""

from __future__ import annotations

import codecs
import io
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

PLAIN = str.maketrans(
    {"×": "x", "–": "-", "—": "-", "−": "-", "…": "...", "·": ".", "→": "->", "±": "+-", "≥": ">=", "≤": "<="}
)
"""Replacements of characters that the output's encoding lacks; any other becomes a question mark."""


class _Lenient(io.FileIO):
    """A file that drops all output after the first write error."""

    failure: OSError | None = None

    def write(self, data: ReadableBuffer, /) -> int:
        """Write, or drop the data if that fails."""
        if self.failure is None:
            try:
                return super().write(data)
            except BlockingIOError:
                raise
            except OSError as error:
                self.failure = error
        return memoryview(data).nbytes


def _plain(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    text = error.object[error.start : error.end].translate(PLAIN)
    return text.encode(error.encoding, errors="replace").decode(error.encoding), error.end


class Streams:
    """Standard output and error of this process.

    Streams replaced by a test or a notebook are kept.
    """

    def __init__(self) -> None:
        codecs.register_error("raybench.plain", _plain)
        _open_closed()
        self._out = _Lenient(1, "w", closefd=False)
        if sys.stdout is sys.__stdout__:
            sys.stdout = _text(self._out, sys.stdout)
        if sys.stderr is sys.__stderr__:
            sys.stderr = _text(_Lenient(2, "w", closefd=False), sys.stderr)

    def end(self) -> OSError | None:
        """Write the remaining output; returns the error that made standard output incomplete, if any."""
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        return self._out.failure


def _open_closed() -> None:
    """Open descriptors 0, 1 and 2 if closed.

    Otherwise the next file, such as a journal, would become standard output.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free descriptor


def _text(raw: _Lenient, stream: TextIO | None) -> TextIO:
    encoding = stream.encoding if stream else "utf-8"
    line_buffering = bool(stream and stream.line_buffering)
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding, "raybench.plain", line_buffering=line_buffering)
