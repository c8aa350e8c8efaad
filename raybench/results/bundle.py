"""Bundles: one zip file with the journal of a grid, its executions and the output of its trials, without checkpoints.

`manifest.json` has the size and the SHA-256 of every other file. A bundle comes from another machine, so nothing in it
is trusted: only files with known names are read, up to their recorded size, and into memory or, the journal, into a
temporary file without a name.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import stat
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryFile
from typing import Any, BinaryIO

from raybench.core.events import ERROR, EVENTS, OUTPUT, Event, to_line
from raybench.core.files import write_atomic
from raybench.core.identity import COMPARE, INLINE, SMOKE
from raybench.core.version import __version__
from raybench.errors import UsageError
from raybench.results.attempt import Key, key_of
from raybench.results.executions import ENDED, FOLDER, REQUEST, folder_of
from raybench.results.journal import JOURNAL, Journal, attempt_folder, attempts_in, grid_folder, has_journal, is_own
from raybench.results.lock import locked
from raybench.results.stored_events import Events, attempt_of, events_in
from raybench.results.union import EventUnion, GridEvents, events_of

SUFFIX = ".zip"
MANIFEST = "manifest.json"
FORMAT, VERSION = "raybench bundle", 1

LONGEST = 2**16
"""Bytes of a trial's output that are exported: its end, with the error."""

MOST_BYTES = 2**30
"""Total size of the files of a bundle that is read."""

BOMB_BYTES, BOMB_RATIO = 2**24, 200
"""A larger bundle that shrank more than so many times is refused: journals shrink 5 to 30 times."""

_GRID = re.compile(
    rf"[A-Za-z0-9][A-Za-z0-9_.-]{{0,99}}({re.escape(COMPARE)}|({re.escape(INLINE)})?({re.escape(SMOKE)})?)"
)
_EXECUTION_FILE = re.compile(rf"{FOLDER}/([\w-]{{1,200}})/({'|'.join(map(re.escape, REQUEST))})")
_RECORD = re.compile(rf"trials/(\w[\w.-]{{0,99}})/attempt-([1-9]\d{{0,8}})/({re.escape(OUTPUT)}|{re.escape(ERROR)})")


@dataclass(frozen=True)
class Bundle:
    """The content of a bundle.

    Attributes:
        events: the events and executions.
        records: the text of each file of an attempt, by its name.
        anonymous: whether names of hosts and users are replaced.
    """

    events: GridEvents
    records: Mapping[Key, Mapping[str, str]]
    anonymous: bool = False

    @property
    def attempts(self) -> int:
        """The number of attempts at trials."""
        return len(self.records)


@dataclass(frozen=True)
class ImportSummary:
    """Result of an import.

    Attributes:
        grid: the grid's name.
        attempts: number of new attempts at trials.
        known: number of attempts that were in the results folder already.
        hosts: names of the machines of the bundle.
    """

    grid: str
    attempts: int
    known: int
    hosts: tuple[str, ...]


def bundle_of(folder: Path) -> tuple[Bundle, int]:
    """Collect the bundle of a grid's folder.

    Returns:
        The bundle, and the number of attempts that have not ended, which are left out.

    Raises:
        UsageError: its journal cannot be read, or has no trial that has ended.
    """
    found = events_of(folder / JOURNAL, str(folder))
    if not _GRID.fullmatch(found.grid):
        raise UsageError(f"{folder}: {found.grid!r:.120} is no name of a grid; use letters, digits, '-', '_' and '.'")
    ended = found.index.ended
    open_attempts = found.index.attempts.keys() - ended
    if not ended:
        raise UsageError(f"{folder}: no trial of it has ended, so there is nothing to export")
    events = Events(lambda: (event for event in found.events if key_of(event) not in open_attempts))
    records = {key: _record(folder, key) for key in sorted(ended)}
    return Bundle(GridEvents(found.source, found.grid, events, found.executions, found.problems), records), len(
        open_attempts
    )


def write_bundle(bundle: Bundle, path: Path) -> None:
    """Write a bundle; the same content makes the same file.

    Raises:
        UsageError: it cannot be written, or is too large to be read.
    """
    files: dict[str, str] = {}
    for folder, texts in bundle.events.executions.items():
        files |= {f"{FOLDER}/{folder}/{name}": text for name, text in texts.items()}
    for (trial, attempt), texts in bundle.records.items():
        files |= {f"trials/{trial}/attempt-{attempt}/{name}": text for name, text in texts.items()}
    contents = {name: text.encode("utf-8", errors="replace") for name, text in files.items()}
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "raybench": __version__,
        "grid": bundle.events.grid,
        "anonymous": bundle.anonymous,
    }
    try:
        with TemporaryFile(dir=path.absolute().parent) as journal:  # the manifest, which comes first, has its digest
            sums = {JOURNAL: _write_events(bundle.events.events, journal)}
            sums |= {name: {"bytes": len(data), "sha256": _sha256(data)} for name, data in contents.items()}
            manifest_data = json.dumps({**manifest, "files": sums}, indent=1).encode()
            with NamedTemporaryFile(dir=path.absolute().parent, prefix=f".{path.name}-", delete=False) as file:
                temporary = Path(file.name)
            try:
                with zipfile.ZipFile(temporary, "w") as archive:
                    archive.writestr(_entry(MANIFEST), manifest_data)
                    entry = _entry(JOURNAL)
                    entry.file_size = journal.tell()
                    journal.seek(0)
                    with archive.open(entry, "w") as target:
                        shutil.copyfileobj(journal, target, 2**20)
                    for name, data in contents.items():
                        archive.writestr(_entry(name), data)
                with zipfile.ZipFile(temporary) as archive:
                    _entries(archive, temporary.stat().st_size)
                temporary.chmod(0o644)
                temporary.replace(path)
            finally:
                temporary.unlink(missing_ok=True)
    except _Refused as refusal:
        raise UsageError(
            f"{path}: was not written, as `raybench import` would refuse it: {refusal}. Copy the grid's folder "
            "instead: `raybench report` and `raybench.load` read it together with other sources."
        ) from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror or error}") from None


def _write_events(events: Iterable[Event], file: BinaryIO) -> dict[str, Any]:
    """Write events to a file; return its size and SHA-256."""
    digest = hashlib.sha256()
    for event in events:
        line = to_line(event).encode("utf-8", errors="replace")
        digest.update(line)
        file.write(line)
    return {"bytes": file.tell(), "sha256": digest.hexdigest()}


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)
    entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
    return entry


def is_bundle(path: Path) -> bool:
    """Return whether a path is to be read as a bundle."""
    return path.suffix == SUFFIX and path.is_file()


def read_bundle(path: Path) -> Bundle:
    """Read and check a bundle; nothing is written.

    Raises:
        UsageError: it cannot be read, is damaged, or has other content than a bundle.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return _bundle(path, archive)
    except _Refused as refusal:
        advice = "Export it again, or ask for another copy."
        raise UsageError(f"{path}: {refusal}; nothing was read from it. {advice}") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from None
    # What zipfile and zlib raise for damaged, encrypted, truncated or unknown content.
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, RuntimeError, OverflowError, LookupError) as error:
        raise UsageError(
            f"{path}: is not a bundle of `raybench export`, or is damaged ({error}); nothing was read from it."
        ) from None


def import_bundle(bundle: Bundle, results: Path) -> ImportSummary:
    """Add the content of a bundle to a results folder.

    Nothing that is there is changed, and what is known already is not added again.

    Raises:
        UsageError: the folder cannot be written, or has an attempt or an execution of the bundle with other content.
        ResultsLockedError: another driver uses the results folder.
        JournalError: the journal cannot be written.
    """
    name = bundle.events.grid
    folder = grid_folder(results, name)
    if folder.is_symlink():
        raise UsageError(f"{folder}: is a symbolic link; raybench writes only to folders of its own")
    with locked(results, f"the import of {name}"):
        journal = folder / JOURNAL
        current = events_of(journal, str(folder), name) if has_journal(folder) else GridEvents(str(folder), name, [])
        union = EventUnion(current, attempts_in(folder))
        new, numbers = union.add(bundle.events)
        try:
            _write_files(folder, bundle, new, numbers)
        except OSError as error:
            raise UsageError(f"{folder}: cannot be written: {error.strerror or error}") from None
        if new:
            with Journal(journal) as writer:
                for event in new:
                    writer.append(event)
    return ImportSummary(name, len(numbers), bundle.attempts - len(numbers), tuple(bundle.events.index.hosts))


def _write_files(folder: Path, bundle: Bundle, new: Iterable[Event], numbers: Mapping[Key, int]) -> None:
    """Write the files of new executions and attempts, before the journal refers to them.

    An attempt's own events are its last file, so that an import that was interrupted is completed by the next one.
    """
    in_bundle: dict[Key, Key] = {}
    counts: Counter[Key] = Counter()
    for key, number in numbers.items():
        in_bundle.setdefault((key[0], number), key)
        counts[key[0], number] += bundle.events.index.attempts[key].events
    # The own record of an attempt that has a folder has the rest.
    lines: dict[Key, list[str]] = {key: [] for key in in_bundle if not attempt_folder(folder, *key).exists()}
    for event in new:
        if event.get("event") == ENDED:
            name = str(event.get("folder"))
            for file, text in bundle.events.executions.get(name, {}).items():
                _write(folder, folder / FOLDER / name / file, text)
        elif (key_in_union := attempt_of(event)) in lines:
            lines[key_in_union].append(to_line(event))
            if len(lines[key_in_union]) == counts[key_in_union]:  # it is complete
                own_lines = lines.pop(key_in_union)
                _write_attempt(folder, key_in_union, bundle.records.get(in_bundle[key_in_union], {}), own_lines)
    for key, own_lines in lines.items():
        _write_attempt(folder, key, bundle.records.get(in_bundle[key], {}), own_lines)


def _write_attempt(folder: Path, key: Key, texts: Mapping[str, str], lines: Iterable[str]) -> None:
    for file, text in {**texts, EVENTS: "".join(lines)}.items():
        _write(folder, attempt_folder(folder, *key) / file, text)


def _write(folder: Path, path: Path, text: str) -> None:
    """Write a file below a grid's folder, unless a link leads elsewhere.

    Raises:
        OSError: it cannot be written.
    """
    parents = [parent for parent in path.parents if parent.is_relative_to(folder)]
    if any(parent.is_symlink() for parent in parents):
        raise OSError(f"{path.parent} is behind a symbolic link")
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        write_atomic(path, text.encode("utf-8", errors="replace").decode("utf-8"))


class _Refused(Exception):
    """A bundle is not accepted; the message has the reason."""


def _bundle(path: Path, archive: zipfile.ZipFile) -> Bundle:
    entries = _entries(archive, path.stat().st_size)
    if MANIFEST not in entries:
        raise _Refused(f"has no {MANIFEST}, so it is not a bundle of `raybench export`")
    manifest = _json(_content(archive, entries[MANIFEST], LONGEST * 1024, MANIFEST), MANIFEST)
    grid, sums = manifest.get("grid"), manifest.get("files")
    if manifest.get("format") != FORMAT or manifest.get("version") != VERSION:
        raise _Refused(f"{MANIFEST} is not that of a bundle of version {VERSION}")
    if not isinstance(grid, str) or not _GRID.fullmatch(grid):
        raise _Refused(f"{MANIFEST} has no valid name of a grid")
    if not isinstance(sums, dict) or sums.keys() != entries.keys() - {MANIFEST}:
        raise _Refused(f"its files are not those of {MANIFEST}")
    texts = {name: _checked(archive, entries[name], name, entry) for name, entry in sums.items() if name != JOURNAL}
    if JOURNAL not in sums:
        raise _Refused(f"has no {JOURNAL}")
    executions: dict[str, dict[str, str]] = {}
    events = GridEvents(str(path), grid, _events(archive, entries[JOURNAL], sums[JOURNAL]), executions)
    if not events.index.ended:
        raise _Refused("has no trial that has ended")
    folders = {
        str(event.get("folder"))
        for event in events.index.others
        if event.get("event") == ENDED and event.get("folder") == folder_of(str(event.get("execution")))
    }
    records: dict[Key, dict[str, str]] = {key: {} for key in events.index.ended}
    for name, text in texts.items():
        if match := _EXECUTION_FILE.fullmatch(name):
            if match[1] not in folders:
                raise _Refused(f"its journal has no execution {match[1]}")
            executions.setdefault(match[1], {})[match[2]] = text
        elif match := _RECORD.fullmatch(name):
            if (match[1], int(match[2])) not in records:
                raise _Refused(f"its journal has no attempt {match[2]} at trial {match[1]}")
            records[match[1], int(match[2])][match[3]] = text
    anonymous = manifest.get("anonymous") is True
    return Bundle(events, records, anonymous)


def _entries(archive: zipfile.ZipFile, file_bytes: int) -> dict[str, zipfile.ZipInfo]:
    """The files of an archive by name.

    Raises:
        _Refused: one has a name that is not in a bundle, is no regular file, or they are too large.
    """
    entries: dict[str, zipfile.ZipInfo] = {}
    for entry in archive.infolist():
        name, mode = entry.filename, entry.external_attr >> 16
        is_known = name in (MANIFEST, JOURNAL) or _EXECUTION_FILE.fullmatch(name) or _RECORD.fullmatch(name)
        if not is_known:
            raise _Refused(f"has a file {name!r:.120}, which is not in a bundle")
        if name in entries:
            raise _Refused(f"has two files {name}")
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
            raise _Refused(f"{name} is not a regular file")
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            # Other methods are decompressed at once, whatever size the entry declares.
            raise _Refused(f"{name} is compressed in a way that a bundle is not")
        entries[name] = entry
    size = sum(entry.file_size for entry in entries.values())
    packed = min(file_bytes, sum(entry.compress_size for entry in entries.values()))
    if size > MOST_BYTES or size > max(BOMB_BYTES, BOMB_RATIO * packed):
        mib = size / 2**20
        raise _Refused(f"its files would take {mib:,.0f} MiB, more than a bundle of {packed:,} bytes may contain")
    return entries


def _checked(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, name: str, expected: Any) -> str:
    """The text of a file that is as in the manifest."""
    size, digest = _expected(entry, name, expected)
    data = _content(archive, entry, size, name)
    if _sha256(data) != digest:
        raise _damaged(name)
    return data.decode("utf-8")


def _expected(entry: zipfile.ZipInfo, name: str, expected: Any) -> tuple[int, Any]:
    size, digest = (expected.get("bytes"), expected.get("sha256")) if isinstance(expected, dict) else (None, None)
    if type(size) is not int or size != entry.file_size:
        raise _Refused(f"{name} has another size than in {MANIFEST}")
    return size, digest


def _damaged(name: str) -> _Refused:
    return _Refused(f"{name} is damaged: its SHA-256 is not that in {MANIFEST}")


def _content(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, limit: int, name: str) -> bytes:
    """The content of a file, which may be larger than its entry says."""
    with archive.open(entry) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise _Refused(f"{name} is larger than {limit:,} bytes")
    return data


def _events(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, expected: Any) -> Events:
    """The events of a journal that is as in the manifest, in a temporary file that is removed with them."""
    size, expected_digest = _expected(entry, JOURNAL, expected)
    with TemporaryFile() as whole, TemporaryFile() as journal:
        digest = hashlib.sha256()
        with archive.open(entry) as file:
            while data := file.read(min(2**20, size + 1 - whole.tell())):
                digest.update(data)
                whole.write(data)
        if whole.tell() > size:
            raise _Refused(f"{JOURNAL} is larger than {size:,} bytes")
        if digest.hexdigest() != expected_digest:
            raise _damaged(JOURNAL)
        whole.seek(0)
        for number, line in enumerate(whole, 1):
            text = line.decode("utf-8").removesuffix("\n")
            if text:
                event = _json(text.encode(), f"line {number} of {JOURNAL}")
                if not isinstance(event.get("event"), str):
                    raise _Refused(f"line {number} of {JOURNAL} is no event")
                # As the journal keeps it: finite numbers, and no half of a surrogate pair.
                journal.write(to_line(event).encode("utf-8", errors="replace"))
        journal.flush()
        return events_in(journal)


def _json(data: bytes, name: str) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        raise _Refused(f"{name} is not JSON") from None
    if not isinstance(value, dict):
        raise _Refused(f"{name} is not a JSON object")
    return value


def _record(folder: Path, key: Key) -> dict[str, str]:
    texts = {}
    for name in (OUTPUT, ERROR):
        path = attempt_folder(folder, *key) / name
        if is_own(path, folder):
            with path.open("rb") as file:
                file.seek(max(0, path.stat().st_size - LONGEST))
                text = file.read(LONGEST).decode("utf-8", errors="replace")
            if text:
                texts[name] = text
    return texts


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
