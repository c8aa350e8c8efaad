"""Transfer of files between the driver and nodes of a cluster that do not share its disk."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from raybench.core.events import events_file
from raybench.core.job import Job
from raybench.datasets.paths import user_cache
from raybench.workloads.own_files import changed_files

MAX_SENT_BYTES = 64 << 20
"""Bytes of a trial's files that are sent to the driver, the smallest first; the others stay on the node."""

LEFT = "left-on-its-node.txt"
"""Lists, in an attempt's folder on the driver, the files that were not sent."""


def local_folder(job: Job) -> Job:
    """The job with a folder that is shared with the driver, or local.

    The driver has created the job's folder: if it exists here, the disk is shared. Otherwise files go to a local cache.
    """
    shared = Path(job.folder)
    if shared.is_dir():
        return job
    group = hashlib.sha256(str(shared.parent).encode()).hexdigest()[:16]
    folder = user_cache() / "trials" / group / shared.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return replace(job, folder=str(folder))


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


def take_files(folder: Path) -> dict[str, bytes]:
    """The files of a finished attempt by their relative paths; its folder is removed."""
    files, left, sent = {}, [], 0
    events_file(folder).unlink(missing_ok=True)  # the driver has received its events
    for path in sorted((path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size):
        sent += path.stat().st_size
        if sent > MAX_SENT_BYTES:
            left.append(f"{path}\n")
        else:
            files[path.relative_to(folder).as_posix()] = path.read_bytes()
            path.unlink()
    if left:
        return files | {LEFT: "".join(left).encode()}
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        folder.parent.rmdir()  # a checkpoint may still be in the same folder
    return files


def put_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write an attempt's files on the driver, only inside of its folder."""
    for name, data in files.items():
        path = folder / name
        if ".." in Path(name).parts or Path(name).is_absolute():
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
