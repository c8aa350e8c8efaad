"""Build of a virtual environment with pip, under a lock.

The lock prevents the use of an incomplete environment.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from raybench.environments.recipes import Recipe
from raybench.environments.status import LOG, STAMP, VENV, BuiltEnvironment, environment_status
from raybench.environments.subprocess_python import clean_environ, query_python
from raybench.errors import ExecutionError, UsageError

Tell = Callable[[str], object]

_ELSEWHERE = ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_PYTHON")
"""Settings of pip that would install packages elsewhere.

Indexes, caches and constraints remain the user's choice."""


def create(name: str, tell: Tell, rebuild: bool = False) -> BuiltEnvironment:
    """Build an environment if it is missing or stale.

    Args:
        name: the recipe's.
        tell: receives progress messages of one line.
        rebuild: build it again even if it is ready.

    Raises:
        UsageError: there is no such recipe, or its folder is not writable.
        ExecutionError: pip, or the virtual environment, failed; the message names the file with all their output.
    """
    env = environment_status(name)
    if env.state == "ready" and not rebuild:
        return env
    try:
        env.folder.mkdir(parents=True, exist_ok=True)
        with _locked(env.folder, tell):
            env = environment_status(name)  # another process may have built it during the wait
            if env.state != "ready" or rebuild:
                _build(env, tell)
    except OSError as error:
        raise UsageError(
            f"{env.folder}: cannot write there ({error.strerror or error}); change RAYBENCH_ENVIRONMENTS"
        ) from None
    return environment_status(name)


@contextmanager
def _locked(folder: Path, tell: Tell) -> Iterator[None]:
    """Lock an environment's folder; the system releases the lock if its holder dies."""
    from filelock import FileLock, Timeout

    lock = FileLock(folder.parent / f".{folder.name}.lock")
    try:
        lock.acquire(blocking=False)
    except Timeout:
        tell("waiting for another raybench process that builds it")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _build(env: BuiltEnvironment, tell: Tell) -> None:
    folder, venv = env.folder, env.folder / VENV
    (folder / STAMP).unlink(missing_ok=True)
    shutil.rmtree(venv, ignore_errors=True)
    pip = [str(env.python), "-P", "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    try:
        with (folder / LOG).open("w", encoding="utf-8") as log:
            tell("step 1 of 3: creating a virtual environment")
            _run([sys.executable, "-P", "-m", "venv", str(venv)], env.recipe, log, tell)
            tell(f"step 2 of 3: pip installs {', '.join(env.recipe.requirements)}")
            pip += ["--progress-bar", "off", *env.recipe.requirements]
            _run(pip, env.recipe, log, lambda line: tell(f"step 2 of 3: {line}"))
        tell("step 3 of 3: checking the installed packages")
        answer = query_python(env.python, [name_of(text) for text in env.recipe.requirements])
        stamp = {
            "recipe": env.recipe.digest,
            "python": answer["python"],
            "packages": answer["packages"],
            "size": sum(path.lstat().st_size for path in venv.rglob("*")),
        }
        partial = folder / f"{STAMP}.part"
        partial.write_text(json.dumps(stamp, indent=1) + "\n", encoding="utf-8")
        partial.replace(folder / STAMP)
    except BaseException:
        shutil.rmtree(venv, ignore_errors=True)  # an unusable environment may take gigabytes
        raise


def name_of(requirement: str) -> str:
    """The distribution named in a requirement."""
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert match, requirement
    return match.group()


def _run(command: Sequence[str], recipe: Recipe, log: TextIO, tell: Tell) -> None:
    """Run a command, with its output in the log and reported line by line.

    Raises:
        ExecutionError: it failed.
    """
    environ = {name: value for name, value in clean_environ().items() if name not in _ELSEWHERE}
    environ |= {"PIP_USER": "0", "PYTHONUNBUFFERED": "1", "PYTHONSAFEPATH": "1"}
    log.write(f"$ {' '.join(command)}\n")
    log.flush()
    lines: list[str] = []
    with subprocess.Popen(
        command,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,  # Ctrl-C is sent to raybench, which then ends the whole process group
    ) as process:
        assert process.stdout
        try:
            for line in process.stdout:
                log.write(line)
                log.flush()
                if line.strip():
                    lines.append(line.strip())
                    tell(lines[-1])
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode != 0:
        errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith(("ERROR:", "Error:"))] or lines[-3:]
        program = "pip" if "pip" in command else "python -m venv"
        message = [
            f"environment {recipe.name} could not be built: {program} failed with exit status {process.returncode}"
        ]
        raise ExecutionError("\n".join([*message, *errors, f"Full output: {log.name}"]))
