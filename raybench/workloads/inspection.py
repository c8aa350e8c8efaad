"""What a user's file says about its workload: the file is imported in a process that is thrown away.

The answer is kept in the user's cache folder until the file or a module that it imports changes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from raybench.core.files import PACKAGE, write_atomic
from raybench.core.temp_folders import Scratch
from raybench.core.version import __version__
from raybench.datasets.paths import user_cache
from raybench.errors import WorkloadError
from raybench.workloads.own_files import digest_of, digests_of

PROGRAM = PACKAGE / "workloads" / "_inspect.py"  # what imports the file

TIME_LIMIT_S = 120.0  # seconds that the import of a file may take; a framework on a cold disk takes up to a minute


def inspect_file(file: Path, name: str, pythons: Iterable[Path] = ()) -> Mapping[str, Any]:
    """Import a file in a process of its own, and describe a name in it.

    Args:
        pythons: interpreters of the environments of trials, tried in turn if this one lacks a module.

    Returns:
        `workload` (its plain fields) or `function` (its parameters and problems), or the file's `names` and the `type`
        of the value; and `modules`, the files that were executed with the names of their modules.

    Raises:
        WorkloadError: the file cannot be imported; one line with the place in the user's code.
    """
    key = f"{__version__} {digest_of(PROGRAM.read_bytes())} {sys.executable} {file}"
    kept = user_cache() / "inspected" / f"{digest_of(key.encode())}.json"
    with suppress(OSError, ValueError, KeyError, TypeError):
        content = json.loads(kept.read_text())
        if content["digests"] == digests_of(file.parent, content["digests"]):
            return {**content["answers"][name], "modules": content["modules"]}
    answer = _run(Path(sys.executable), file, name)
    if _lacks_library(answer, file):
        answers = (_run(python, file, name) for python in pythons)
        install = {"problem": f"{answer['problem']}; install it, or name the trials' `environment` under `devices`"}
        answer = next((described for described in answers if "problem" not in described), install)
    if "problem" in answer:
        raise WorkloadError(answer["problem"])
    with suppress(OSError):  # a cache that cannot be written costs only time
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(kept, json.dumps({"digests": digests_of(file.parent, answer["modules"]), **answer}))
    return {**answer["answers"][name], "modules": answer["modules"]}


def _lacks_library(answer: Mapping[str, Any], file: Path) -> bool:
    top = str(answer.get("missing") or "").partition(".")[0]
    return "ModuleNotFoundError" in answer.get("problem", "") and not list(file.parent.glob(f"{top}*"))


def _run(python: Path, file: Path, name: str) -> dict[str, Any]:
    with closing(Scratch()) as scratch:
        packages, answer_file = scratch.path / "packages", scratch.path / "answer.json"
        packages.mkdir()
        (packages / PACKAGE.name).symlink_to(PACKAGE)
        try:
            done = subprocess.run(
                [str(python), str(PROGRAM), str(file), name, str(packages), str(answer_file), str(os.getpid())],
                cwd=file.parent,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=TIME_LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            guard = "`if __name__ == '__main__':`"
            return {"problem": f"{file}: its import took more than {TIME_LIMIT_S:g} s; put what it runs under {guard}"}
        try:
            answer: dict[str, Any] = json.loads(answer_file.read_text())
        except (OSError, ValueError):
            last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
            reason = last[0] if last else f"exit status {done.returncode}"
            return {"problem": f"{file}: the process that imports it ended early: {reason}"}
        return answer
