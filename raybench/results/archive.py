"""One zip file with the results of a grid: its attempts, checks and executions, without checkpoints and output.

For people it also has the grid file, and the packages and the commit that the results were made with; an import reads
these from the executions.

An archive may come from anybody, so it is checked before a file of it is written: names, types, sizes and content.
"""

from __future__ import annotations

import re
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory

from raybench.core.code_state import DIRTY
from raybench.core.files import write_atomic
from raybench.errors import UsageError
from raybench.results.executions import Execution, in_order
from raybench.results.folder import (
    ATTEMPTS,
    CHECKS,
    EXECUTIONS,
    continues,
    event_files,
    execution_files,
    grid_folder,
    has_end,
    json_object,
    parse_events,
)
from raybench.results.lock import locked

MAX_BYTES = 2**30  # maximum size of the files of an archive together

MAX_FILE_BYTES = 2**24
"""Maximum size of one file, which is parsed as a whole in about 20 times the memory; an epoch takes 0.3 to 3 kB."""

MAX_RATIO = 200  # maximum ratio by which files of more than that together may have shrunk; results shrink 5 to 30 times

GRID_FILE, REQUIREMENTS = "grid.yaml", "requirements.txt"

_GRID = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}(?:~[a-z]{1,20}){0,2}"
_PART = r"\w[\w.-]{0,199}"
_NAME = re.compile(
    rf"(?P<grid>{_GRID})/(?:(?:{ATTEMPTS}|{CHECKS})/{_PART}/[0-9a-f]{{8,64}}\.jsonl|{EXECUTIONS}/{_PART}\.json"
    rf"|{re.escape(GRID_FILE)}|{re.escape(REQUIREMENTS)})"
)


def write_archive(folder: Path, path: Path) -> tuple[int, int]:
    """Write the results of a grid to a zip file.

    Returns:
        The number of attempts in it, and of those that still run, which are left out.

    Raises:
        UsageError: no trial has ended, or the file cannot be written.
    """
    attempts = list(event_files(folder, ATTEMPTS))
    ended = [file for file in attempts if has_end(file)]
    if not ended:
        raise UsageError(f"{folder}: no trial of it has ended, so there is nothing to export")
    temporary: Path | None = None
    try:
        with NamedTemporaryFile(dir=path.absolute().parent, prefix=f".{path.name}-", delete=False) as target:
            temporary = Path(target.name)
            with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
                files = [*ended, *event_files(folder, CHECKS), *execution_files(folder)]
                contents = ((file.relative_to(folder).as_posix(), file.read_bytes()) for file in files)
                for name, content in (*_for_people(folder), *contents):
                    entry = zipfile.ZipInfo(f"{folder.name}/{name}")
                    entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
                    archive.writestr(entry, content)
        with zipfile.ZipFile(temporary) as archive:
            _entries(archive)
        temporary.chmod(0o644)
        temporary.replace(path)
    except _RefusedError as refusal:
        raise UsageError(f"{path}: not written, as it could not be imported: {refusal}") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        if temporary:
            temporary.unlink(missing_ok=True)
    return len(ended), len(attempts) - len(ended)


def _for_people(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the grid file and the requirements of the last execution, by name."""
    executions = in_order([execution for file in execution_files(folder) if (execution := Execution.read(file))])
    last = executions[-1] if executions else None
    if last and last.grid:
        yield GRID_FILE, last.grid.encode()
    if last and last.made_with:
        commit = str(last.made_with.get("commit") or "unknown").replace(DIRTY, " with uncommitted changes")
        head = [f"# commit of the code: {commit}", f"# command: {last.made_with.get('command') or 'unknown'}"]
        yield REQUIREMENTS, "\n".join([*head, *map(str, last.made_with.get("packages") or ()), ""]).encode()


@contextmanager
def extracted(path: Path) -> Iterator[Path]:
    """Extract an archive to a temporary folder; yield the folder of its grid.

    Raises:
        UsageError: it cannot be read, is damaged, or has other content than results.
    """
    with TemporaryDirectory(prefix=f"{path.name:.100}-") as folder:
        yield _extract(path, Path(folder))


def _extract(path: Path, folder: Path) -> Path:
    if path.exists() and not path.is_file():  # a named pipe would be read for ever
        raise UsageError(f"{path}: not a file; name a zip file of `raybench export`")
    try:
        with zipfile.ZipFile(path) as archive:
            entries = _entries(archive)
            for entry in entries:
                data = _content(archive, entry)
                _check(entry.filename, data)
                target = folder / entry.filename
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data)
            return folder / entries[0].filename.partition("/")[0]
    except _RefusedError as refusal:
        raise UsageError(
            f"{path}: {refusal}; nothing was imported. Export it again, or ask for another copy."
        ) from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from None
    # What zipfile and zlib raise for damaged, encrypted, truncated or unknown content.
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, RuntimeError, OverflowError, LookupError) as error:
        raise UsageError(f"{path}: not a zip file of `raybench export`, or damaged ({error})") from None


def import_folder(source: Path, results: Path, name: str) -> tuple[int, int]:
    """Copy the results of a grid's folder, `name` in messages, to a results folder; what is there is not changed.

    Returns:
        The number of new attempts at trials, and of those that were there already.

    Raises:
        UsageError: the folder cannot be written, or it has an attempt with other content.
        ResultsLockedError: another command uses the results folder.
    """
    target = grid_folder(results, source.name)
    files = [*event_files(source, CHECKS), *execution_files(source), *event_files(source, ATTEMPTS)]
    with locked(results, f"an import to {source.name}"):
        try:
            new = [file for file in files if _is_new(file, target / file.relative_to(source), name)]
            for file in new:
                copy = target / file.relative_to(source)
                if any(parent.is_symlink() for parent in copy.parents if parent.is_relative_to(target)):
                    raise UsageError(f"{copy.parent}: behind a symbolic link; raybench writes only to its own folders")
                copy.parent.mkdir(parents=True, exist_ok=True)
                write_atomic(copy, file.read_text(encoding="utf-8"))
        except OSError as error:
            raise UsageError(f"{target}: cannot be written: {error.strerror or error}") from None
    count, added = (sum(file.parent.parent.name == ATTEMPTS for file in group) for group in (files, new))
    return added, count - added


def _is_new(file: Path, target: Path, name: str) -> bool:
    """Return whether a file is missing, or is the continuation of what is there."""
    if not target.exists():
        return True
    there, here = target.read_bytes(), file.read_bytes()
    if there != here and not continues(*sorted((there, here), key=len, reverse=True)):
        raise UsageError(f"{name}: {target} has other content, although it is of the same run; leave one of them out")
    return len(here) > len(there)


class _RefusedError(Exception):
    """An archive is not accepted; the message has the reason."""


def _entries(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """The entries of an archive; nothing is decompressed."""
    entries = archive.infolist()
    grids, names = set(), set()
    for entry in entries:
        name, mode = entry.filename, entry.external_attr >> 16
        match = _NAME.fullmatch(name)
        if not match or name in names:
            reason = "twice" if match else "which is not a result of raybench"
            raise _RefusedError(f"it has a file {name!r:.120} {reason}" if match else f"it has {name!r:.120}, {reason}")
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
            raise _RefusedError(f"{name} is not a regular file")
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            # Other methods are decompressed at once, whatever size the entry declares.
            raise _RefusedError(f"{name} is compressed by an unknown method")
        names.add(name)
        grids.add(match["grid"])
    if len(grids) != 1:
        raise _RefusedError(f"it has results of {len(grids)} grids" if grids else "it has no results")
    largest = max(entries, key=lambda entry: entry.file_size)
    if largest.file_size > MAX_FILE_BYTES:
        raise _RefusedError(f"{largest.filename} has {largest.file_size / 2**20:,.0f} MiB; a result has at most 16")
    size, packed = (sum(getattr(entry, part) for entry in entries) for part in ("file_size", "compress_size"))
    if size > MAX_BYTES or size > max(MAX_FILE_BYTES, MAX_RATIO * packed):
        raise _RefusedError(f"its files would take {size / 2**20:,.0f} MiB, extracted from {packed:,} bytes")
    return entries


def _content(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """The content of an entry, which may be larger than it declares."""
    with archive.open(entry) as file:
        data = file.read(entry.file_size + 1)
    if len(data) > entry.file_size:
        raise _RefusedError(f"{entry.filename} is larger than it declares")
    return data


def _check(name: str, data: bytes) -> None:
    """Refuse damaged content."""
    if name.endswith((GRID_FILE, REQUIREMENTS)):
        data.decode("utf-8")
        return
    if name.endswith(".json"):
        if json_object(data) is None:
            raise _RefusedError(f"{name} is not JSON")
        return
    damaged: list[str] = []
    events = parse_events(data, name, damaged)
    if damaged or not events or not data.endswith(b"\n"):
        raise _RefusedError(f"{damaged[0] if damaged else name} is damaged")
    data.decode("utf-8")
