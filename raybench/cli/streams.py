"""Standard output and error that never end a command: what cannot be shown is left out.

A grid trains for hours and keeps its results in files; a terminal that was closed, a full disk behind `> log` or a
locale that lacks a character is no reason to stop it.
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

PLAIN = str.maketrans({"×": "x", "–": "-", "—": "-", "…": "...", "·": ".", "→": "->", "±": "+-", "≥": ">=", "≤": "<="})
"""What stands for a character where the encoding of the output lacks it; any other becomes a question mark."""


class _Lenient(io.FileIO):
    """A file whose first failure to be written is remembered, after which nothing is."""

    failure: OSError | None = None

    def write(self, data: ReadableBuffer, /) -> int:
        """Write, or drop what cannot be written."""
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
    """Standard output and error of this process from now on; what a test or a notebook has put there stays."""

    def __init__(self) -> None:
        codecs.register_error("raybench.plain", _plain)
        _open_closed()
        self._out = _Lenient(1, "w", closefd=False)
        if sys.stdout is sys.__stdout__:
            sys.stdout = _text(self._out, sys.stdout)
        if sys.stderr is sys.__stderr__:
            sys.stderr = _text(_Lenient(2, "w", closefd=False), sys.stderr)

    def end(self) -> OSError | None:
        """Write what is left; why standard output is not complete, if it is not."""
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        return self._out.failure


def _open_closed() -> None:
    """Open 0, 1 and 2 if they are closed: else the next file, such as a journal, gets the number of standard output."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free


def _text(raw: _Lenient, stream: TextIO | None) -> TextIO:
    encoding = stream.encoding if stream else "utf-8"
    line_buffering = bool(stream and stream.line_buffering)
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding, "raybench.plain", line_buffering=line_buffering)
