"""Transfer of files between the driver and nodes of a cluster that do not share its disk."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from raybench.core.events import events_file
from raybench.core.files import append_to
from raybench.core.job import Job
from raybench.datasets.paths import user_cache
from raybench.workloads.own_files import changed_files

MAX_SENT_BYTES = 64 << 20
"""Bytes of a trial's files that are sent to the driver, the smallest first; the others stay on the node."""

LEFT = "left-on-its-node.txt"  # lists, in an attempt's folder on the driver, the files that were not sent


class FileTail:
    """The growing end of a file, in whole lines; an attempt's file may not be there yet."""

    def __init__(self, path: Path) -> None:
        self.path, self._offset = path, 0

    def read(self) -> bytes:
        """Return the lines that were added since the last call."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return b""
        lines = data[: data.rfind(b"\n") + 1]
        self._offset += len(lines)
        return lines


def local_folder(job: Job) -> Job:
    """The job with a folder that is shared with the driver, or local.

    The driver has created the job's folder: if it exists here, the disk is shared. Otherwise files go to a local cache.
    """
    shared = Path(job.folder)
    if shared.is_dir():
        return job
    grid = shared.parents[3 if job.node_rank else 2]
    folder = _cache_of(grid) / job.trial / shared.name
    folder.mkdir(parents=True)
    return replace(job, folder=str(folder))


def _cache_of(grid: Path) -> Path:
    """The folder of a grid's trials on a node that does not share the driver's disk."""
    return user_cache() / "trials" / hashlib.sha256(str(grid).encode()).hexdigest()[:16]


def remove_abandoned(grid: Path) -> None:
    """Remove the attempts whose node was lost: of those that ended, the file of their events was taken."""
    for events in _cache_of(grid).glob("*/*.jsonl"):
        shutil.rmtree(events.with_suffix(""), ignore_errors=True)
        events.unlink(missing_ok=True)


def code_files(job: Job) -> dict[str, bytes]:
    """The contents of the user's files that are below the workload's folder."""
    return {name: (job.code_folder / name).read_bytes() for name in job.workload["files"] if not name.startswith("..")}


def local_code(job: Job, contents: Mapping[str, bytes]) -> str:
    """A local folder with copies of the user's files; empty if the job's own folder is here."""
    if not changed_files(job.code_folder, job.workload["files"]):
        return ""
    folder = user_cache() / "code" / str(job.workload["digest"])
    if changed_files(folder, {name: job.workload["files"][name] for name in contents}):
        for name, content in contents.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
            (folder / name).chmod(0o755)
    return str(folder)


def take_files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files of an ended attempt, the smallest first, by their relative paths; remove its folder."""
    too_large, sent = [], 0
    events_file(folder).unlink(missing_ok=True)  # the driver has received its events
    for path in sorted((path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size):
        sent += path.stat().st_size
        if sent > MAX_SENT_BYTES:
            too_large.append(f"{path}\n")
        else:
            yield path.relative_to(folder).as_posix(), path.read_bytes()
            path.unlink()
    if too_large:
        yield LEFT, "".join(too_large).encode()
        return
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        folder.parent.rmdir()  # a checkpoint may still be in the same folder


def put_file(folder: Path, name: str, data: bytes) -> None:
    """Write a file of an attempt on the driver, only inside of its folder; "" appends to the attempt's events."""
    path = folder / name if name else events_file(folder)
    if ".." in Path(name).parts or Path(name).is_absolute():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if name:
        path.write_bytes(data)
    else:
        append_to(path, data)
