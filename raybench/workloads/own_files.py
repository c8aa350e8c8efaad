"""The user's own files that a workload consists of: an edit of one of them makes new trials.

They are run where they are. Copies are made for `isolate: true`, and for a node that lacks the folder.
"""

from __future__ import annotations

import ast
import glob
import hashlib
import os
import re
import shutil
import site
import sys
import sysconfig
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from raybench.core.code_state import commit_of
from raybench.core.files import PACKAGE
from raybench.datasets.digests import Digests
from raybench.errors import WorkloadError

T = TypeVar("T")

DIGEST_DIGITS = 16

FILE, MAX_NAMED_FILES = "file ", 100
"""The beginning of the name of a file among versions, and the most files that are named."""


def digest_of(content: bytes) -> str:
    """A digest: `sha256:` and 16 hexadecimal digits."""
    return f"sha256:{hashlib.sha256(content).hexdigest()[:DIGEST_DIGITS]}"


def digests_of(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """The digests of files by their paths relative to a folder; empty for a file that cannot be read."""
    digests = dict.fromkeys(names, "")
    with Digests() as cache:
        for name in digests:
            with suppress(OSError):
                digests[name] = cache.of(folder / name)[:DIGEST_DIGITS]
    return digests


def changed_files(folder: Path, digests: Mapping[str, str]) -> list[str]:
    """The names of files that are missing in a folder, or differ from their digests."""
    return [name for name, digest in digests_of(folder, digests).items() if digest != digests[name]]


def code_versions(folder: str, files: Mapping[str, str]) -> dict[str, str]:
    """What the code of a user's workload is, by name: each of its files, and the commit of its repository."""
    commit = {"commit": commit_of(folder)} if files else {}
    digests = {f"{FILE}{name}": digest[:8] for name, digest in [*files.items()][:MAX_NAMED_FILES]}
    return {name: version for name, version in {**digests, **commit}.items() if version}


def own_files(
    folder: Path, scripts: Iterable[Path], inputs: Iterable[str] = (), executed: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Find the files of a workload: scripts, the modules of the user that they import, and its inputs.

    Args:
        inputs: further files and folders, as paths or patterns relative to the folder.
        executed: files that an import of a script executed, with the names of their modules.

    Returns:
        The fields `digest`, `files` and `libraries` of `WorkloadInfo`.

    Raises:
        OSError: a file cannot be read.
        WorkloadError: there is no such input.
    """
    executed = executed or {}
    imported, libraries = _follow([*scripts], map(Path, executed), folder)
    digests = digests_of(
        folder, sorted(os.path.relpath(path, folder) for path in [*imported, *_matches(folder, inputs)])
    )
    # A module on PYTHONPATH may be in a different folder on each machine.
    labels = {os.path.relpath(path, folder): module for path, module in executed.items()}
    lines = [f"{labels.get(name, name) if name.startswith('..') else name} {digests[name]}" for name in digests]
    digest = digest_of("\n".join(sorted(lines)).encode())
    return {"digest": digest, "files": digests, "libraries": tuple(sorted(libraries))}


def _matches(folder: Path, inputs: Iterable[str]) -> Iterator[Path]:
    for pattern in inputs:
        names = glob.iglob(pattern, root_dir=folder, recursive=True)  # noqa: PTH207 — Path.glob refuses absolute ones
        matches = [folder / name for name in sorted(names)]
        files = [
            file
            for match in matches
            for file in ([match] if match.is_file() else sorted(match.rglob("*")))
            if file.is_file() and "__pycache__" not in file.parts
            if not any(part.startswith(".") for part in file.relative_to(match).parts)
        ]
        if not files:
            raise WorkloadError(f"there is no file {pattern[:200]!r} in {folder}", "inputs")
        yield from files


def _follow(scripts: Sequence[Path], executed: Iterable[Path], folder: Path) -> tuple[list[Path], set[str]]:
    """Follow the imports of scripts and of executed files, in the scripts' folders.

    Returns:
        These files and those that they import, and the names of all other modules.
    """
    pending = [*scripts, *executed]
    roots = dict.fromkeys([*(script.parent for script in scripts), folder])
    files: dict[Path, None] = {}
    libraries: set[str] = set()
    while pending:
        file = pending.pop()
        if file in files:
            continue
        files[file] = None
        is_followed = file.suffix == ".py" and any(file.is_relative_to(root) for root in roots)
        for parent, name in _imports(file) if is_followed else ():
            modules = [module for root in ([parent] if parent else roots) for module in _modules(root, name)]
            pending += modules
            if not modules and not parent and not name.endswith(".py"):
                libraries.add(name.partition(".")[0])
    return [*files], libraries - sys.stdlib_module_names - {"raybench"}


def _imports(file: Path) -> Iterator[tuple[Path | None, str]]:
    """Yield the modules that a file imports, a relative one with the folder that it is relative to.

    Texts such as "configurator.py", which a program loads by path, are yielded too.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the trial that runs the file shows the warnings
            tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return  # the program that runs the file reports it
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((None, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parent = file.parents[min(node.level, len(file.parents)) - 1] if node.level else None
            base = f"{node.module}." if node.module else ""
            yield from ((parent, base + alias.name) for alias in node.names)
        elif isinstance(node, ast.Constant) and re.fullmatch(r"[\w./-]{1,100}\.py", str(node.value)):
            yield None, str(node.value)


def _modules(root: Path, name: str) -> list[Path]:
    """The files of a module and of the packages that it is in, below a folder; a file that is named by its path."""
    if name.endswith(".py"):
        return [root / name] if (root / name).is_file() else []
    paths = [root.joinpath(*name.split(".")[:count]) for count in range(1, name.count(".") + 2)]
    files = [file for path in paths for file in (path / "__init__.py", path.with_name(f"{path.name}.py"))]
    return [file for file in files if file.is_file()]


def is_installed(path: Path) -> bool:
    """Return whether a module's file is part of Python, raybench or an installed package."""
    if {"site-packages", "dist-packages"} & set(path.parts):
        return True
    folders = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    folders += [*site.getsitepackages(), site.getusersitepackages(), str(PACKAGE)]
    return any(map(path.is_relative_to, [*folders, *filter(_has_packages, sys.path)]))


@cache
def _has_packages(folder: str) -> bool:
    """Return whether pip has installed packages in a folder, as with `--target`."""
    return any(Path(folder).glob("*.dist-info"))


_folder_before: list[str] = []  # the folder of the last imported file, in a process that imports several


def import_file(file: Path) -> ModuleType:
    """Import a file by its name, with its folder first on the import path, as Python does for a script."""
    folder = str(file.parent)
    for name, module in [*sys.modules.items()] if _folder_before else []:
        path = str(getattr(module, "__file__", None) or "")
        if path.startswith(_folder_before[0] + os.sep) and not is_installed(Path(path)):
            del sys.modules[name]
    sys.path[:] = [folder, *(entry for entry in sys.path if entry not in ("", folder, *_folder_before))]
    _folder_before[:] = [folder]
    sys.dont_write_bytecode = True  # bytecode would hide an edit in the same second
    name = file.stem if file.stem.isidentifier() and file.stem not in sys.stdlib_module_names else "workload_file"
    spec = spec_from_file_location(name, file)
    assert spec and spec.loader
    module = sys.modules[name] = module_from_spec(spec)  # where pickles and dataclasses look for it
    spec.loader.exec_module(module)
    return module


@contextmanager
def working_folder(folder: Path, names: Iterable[str], isolate: bool) -> Iterator[Path]:
    """The folder in which a workload runs: its own, or a temporary one with copies of these files."""
    if not isolate:
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="raybench-", ignore_cleanup_errors=True) as copy:
        for name in names:
            if not name.startswith(".."):
                (Path(copy) / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(folder / name, Path(copy) / name)
        yield Path(copy)
