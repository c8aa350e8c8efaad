"""Files of a grid in a results folder; they are the only copy of its results.

    GRID/attempts/TRIAL/RUN.jsonl   events of one attempt at a trial, written by its process
    GRID/attempts/TRIAL/RUN/        its output, its traceback and the samples of its monitor
    GRID/checks/KEY/RUN.jsonl       result of a check
    GRID/executions/NAME.json       what one execution of the grid was asked for
    GRID/tune/                      Ray Tune's own record of the last execution, which raybench does not read

RUN is a UUID, so files of several machines never have the same name: results are merged by copying files. A file
without an end event belongs to an attempt that still runs or was lost.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4
from zlib import crc32

import msgspec

from raybench.core.events import CHECKSUM, ENDS, OF_LINE, Event, events_file, to_line
from raybench.core.files import append_to

ATTEMPTS, CHECKS, EXECUTIONS, TUNE = "attempts", "checks", "executions", "tune"

ID = ".id"
REPORT = "report.html"  # the page of the report

DAMAGED = (msgspec.MsgspecError, ValueError, RecursionError)
"""Errors of msgspec for text that is not JSON, not UTF-8, nested too deeply, or of other types."""

_OBJECT = msgspec.json.Decoder(dict[str, Any])

TAIL_BYTES = 2**18
"""Bytes at the end of a file in which its end event is looked for; an end event has at most about 30 kB."""


def grid_folder(results: Path, name: str) -> Path:
    """The folder of a grid."""
    return results.absolute() / name


def attempt_folder(grid: Path, trial: str, run: str | None) -> Path:
    """The folder of an attempt, for its output and its traceback; its events are next to it."""
    return grid / ATTEMPTS / trial / str(run)


def results_id(results: Path) -> str:
    """The id of a results folder, which is made with it; it shows where results were made after they were copied.

    Raises:
        OSError: it cannot be written.
    """
    if not (folder_id := known_id(results)):
        (results / ID).write_text(uuid4().hex[:12], encoding="ascii")
    return folder_id or known_id(results)


def known_id(results: Path) -> str:
    """The id of a results folder; empty if nothing was run for it."""
    path = results / ID
    return path.read_text(encoding="ascii").strip() if path.is_file() else ""


def has_results(folder: Path) -> bool:
    """Return whether a folder is that of a grid."""
    return any((folder / name).is_dir() for name in (ATTEMPTS, EXECUTIONS))


def grids_in(results: Path) -> list[str]:
    """The names of the grids of a results folder."""
    return sorted(folder.name for folder in results.glob("*/") if has_results(folder))


def event_files(grid: Path, kind: str) -> Iterator[Path]:
    """The files of events of all attempts or checks, by trial or key.

    Links are left out: raybench makes none, and those in a folder that somebody else sent may lead to private files.
    So are hidden files, which other programs make when they copy, such as `._NAME` of macOS.
    """
    for folder in _entries(grid / kind, folders=True):
        yield from (Path(path) for path in _entries(folder) if path.endswith(".jsonl"))


def execution_files(grid: Path) -> Iterator[Path]:
    """The files of the executions, the first one first."""
    return (Path(path) for path in _entries(grid / EXECUTIONS) if path.endswith(".json"))


def _entries(folder: Path | str, folders: bool = False) -> list[str]:
    """Return the paths of files or folders in a folder, as texts: a grid may have ten thousand."""
    if Path(folder).is_symlink() or not Path(folder).is_dir():
        return []
    with os.scandir(folder) as entries:
        chosen = [
            entry.path
            for entry in entries
            if (entry.is_dir(follow_symlinks=False) if folders else entry.is_file(follow_symlinks=False))
            and not entry.name.startswith(".")
        ]
    return sorted(chosen)


def json_object(text: bytes) -> dict[str, Any] | None:
    """The JSON object of a text; None if it is damaged."""
    try:
        return _OBJECT.decode(text)
    except DAMAGED:
        return None


def event_of(line: bytes) -> Event | None:
    """The event of a line; None if it is damaged. Nothing in it is ever executed."""
    event = json_object(line)
    if not event or not isinstance(event.get("event"), str) or not is_intact(line):
        return None
    return {name: value for name, value in event.items() if name not in OF_LINE}


def is_intact(line: bytes) -> bool:
    """Return whether a line is as it was written, according to its checksum."""
    text, _, checksum = line.rstrip().rpartition(CHECKSUM.encode())
    return checksum == b"%d}" % crc32(text)


def lines_of(data: bytes) -> list[bytes]:
    """The lines of a file of events, without an incomplete last one: it is being written, or its writer was killed."""
    lines = data.splitlines()
    return lines if data.endswith(b"\n") or not lines or event_of(lines[-1]) else lines[:-1]


def parse_events(data: bytes, name: str, damaged: list[str]) -> list[Event]:
    """Return the events of a file, in order.

    Args:
        damaged: gets the place of each line that is not a JSON object with the name of an event.
    """
    events = []
    for number, line in enumerate(lines_of(data), 1):
        if event := event_of(line):
            events.append(event)
        elif line.strip():
            damaged.append(f"{name}:{number}")
    return events


def read_events(path: Path, damaged: list[str]) -> list[Event]:
    """Read the events of a file (`parse_events`).

    Raises:
        OSError: it cannot be read.
    """
    return parse_events(path.read_bytes(), str(path), damaged)


def has_end(path: Path) -> bool:
    """Return whether a file has its end event; a missing file has none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
            data = file.read()
    except FileNotFoundError:
        return False
    return any(event["event"] in ENDS for event in parse_events(data, "", []))


def continues(longer: bytes, shorter: bytes) -> bool:
    """Return whether a file of events is a later state of another: the same lines, and further ones of its run.

    No event occurs twice in a run, and no epoch follows its end.
    """
    kinds = [(event["event"], str(event.get("epoch"))) for event in parse_events(longer, "", [])]
    ends = [kind for kind, _ in kinds if kind in ENDS or kind == "epoch_ended"]
    return longer.startswith(shorter) and len(set(kinds)) == len(kinds) and not ENDS.intersection(ends[:-1])


def add_event(folder: Path, event: Event) -> None:
    """Append an event to the file of an attempt, on behalf of a process that could not.

    Raises:
        OSError: it cannot be written.
    """
    path = events_file(folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    begin = b""
    with path.open("a+b") as file:
        if size := file.tell():
            file.seek(-1, os.SEEK_END)
            begin = b"" if file.read(1) == b"\n" else b"\n"  # its process was killed while it wrote
    append_to(path, begin + to_line(event, size + len(begin)).encode("utf-8", errors="replace"))
