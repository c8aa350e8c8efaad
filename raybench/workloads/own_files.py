"""The files of a user's workload, which are shipped with the trial and whose digests are part of the cell.

They are the files that were executed when the plan imported the workload's file (`inspection.py`), and what these
import later, inside of functions. A command is not run by the plan, so only its scripts' imports are followed. Modules
of the folder are shipped as a snapshot, which is the only part of that folder that the trial sees; modules elsewhere
that are not installed (on `PYTHONPATH`, or installed as editable) are used in place.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
import os
import shutil
import site
import sys
import sysconfig
import tempfile
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from raybench.core.files import PACKAGE, write_atomic
from raybench.datasets.paths import user_cache
from raybench.errors import WorkloadError

DIGEST_DIGITS = 16
MAX_FILE_BYTES = 10 << 20
"""Of a shipped file; larger ones are linked."""

FOLDER = "code"
"""Subfolder of a grid's folder with a snapshot per version of the files."""


def digest_of(content: bytes) -> str:
    """The digest of a file's content: `sha256:` and 16 hexadecimal digits."""
    return "sha256:" + hashlib.sha256(content).hexdigest()[:DIGEST_DIGITS]


def read_regular(path: Path) -> bytes:
    """Read a file of at most `MAX_FILE_BYTES`.

    Raises:
        OSError: it cannot be read.
        WorkloadError: it is not a regular file, or it is larger.
    """
    if path.exists() and not path.is_file():
        raise WorkloadError(f"cannot read {path}: it is not a file")
    if path.stat().st_size > MAX_FILE_BYTES:
        raise WorkloadError(f"{path} is larger than {MAX_FILE_BYTES >> 20} MiB; list its folder under `links:` instead")
    return path.read_bytes()


@dataclass
class OwnFiles:
    """The files of a user's workload.

    Attributes:
        root: the folder of the workload file.
        shipped: paths below `root`, with `/`, and their digests; the workload file is one of them.
        elsewhere: modules that are not installed and not below `root`, by their full names, and their digests.
        links: paths below `root` that are links in the trial, and their targets.
        libraries: installed modules that the files import, by their top-level names.
    """

    root: Path
    shipped: dict[str, str] = field(default_factory=dict)
    elsewhere: dict[str, str] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    libraries: set[str] = field(default_factory=set)

    @property
    def digest(self) -> str:
        """The digest of all files that are part of the cell.

        If there is only the workload file, it is that file's digest.
        """
        if len(self.shipped) == 1 and not self.elsewhere:
            return next(iter(self.shipped.values()))
        lines = [
            f"{name} {sha256}\n" for table in (self.shipped, self.elsewhere) for name, sha256 in sorted(table.items())
        ]
        return digest_of("".join(lines).encode())


def collect(
    root: Path,
    scripts: Sequence[Path],
    files: Iterable[str] = (),
    links: Iterable[str] = (),
    executed: Mapping[str, str] | None = None,
) -> OwnFiles:
    """Find the files of programs, which may be in subfolders.

    Args:
        root: the absolute folder that has all of them.
        scripts: files, each of which finds modules of its own folder.
        files: additional files: globs and folders relative to `root`.
        links: files and folders below it that are only linked and not part of the cell.
        executed: files that the import of a script executed, with the names of their modules.

    Raises:
        OSError: a script cannot be read.
        WorkloadError: a file that is imported or named cannot be used; one line. Its `field` is the grid's field.
    """
    own_files = OwnFiles(root)
    own_files.links = dict(_links(root, links))
    folders = list(dict.fromkeys([*(script.parent for script in scripts), root]))
    named = [(file, root) for file in _named(root, files, own_files.links)]
    imports = _Imports(own_files, folders)
    imports.follow([*((script, script.parent) for script in scripts), *named], executed or {})
    return own_files


def _links(root: Path, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        path = _below(root, name, "links")
        if not (root / path).exists():
            raise WorkloadError(f"there is no {name} in {root}", field="links")
        yield path.as_posix(), str((root / path).resolve())


def _named(root: Path, patterns: Iterable[str], links: Collection[str]) -> Iterator[Path]:
    for pattern in patterns:
        _below(root, pattern, "files")
        try:
            matches = [root / pattern] if (root / pattern).exists() else sorted(root.glob(pattern))
        except (ValueError, OSError) as error:  # for example a**, or a name that is too long
            raise WorkloadError(f"{pattern[:200]!r} is not a file name pattern: {error}", field="files") from None
        candidates = [file for match in matches for file in ([match] if match.is_file() else sorted(match.rglob("*")))]
        usable = [file for file in candidates if file.is_file() and not _hidden(file.relative_to(root), links)]
        if not usable:
            raise WorkloadError(f"{pattern!r} matches no file in {root}", field="files")
        yield from usable


def _below(root: Path, name: str, field: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise WorkloadError(f"{name!r} is outside of the workload's folder {root}; move it there", field=field)
    return path


def _hidden(path: Path, links: Collection[str]) -> bool:
    is_hidden = any(part.startswith(".") or part == "__pycache__" for part in path.parts)
    return is_hidden or any(PurePosixPath(path.as_posix()).is_relative_to(link) for link in links)


class _Imports:
    """Follows imports from file to file."""

    def __init__(self, own_files: OwnFiles, folders: Sequence[Path]) -> None:
        self._found, self._folders = own_files, folders
        self._roots: dict[str, Path | None] = {}

    def follow(self, files: Sequence[tuple[Path, Path]], executed: Mapping[str, str]) -> None:
        """Add files below the root, each with its folder for imports, and all uninstalled modules that they import."""
        root = self._found.root
        pending = [(file, folder, _module_name(file, folder)) for file, folder in files]
        for path, module in executed.items():
            folder = next((each for each in self._folders if Path(path).is_relative_to(each)), Path(path).parent)
            pending.append((Path(path), folder, module))
        seen: set[Path] = set()
        while pending:
            file, base, module = pending.pop()
            if file in seen:
                continue
            seen.add(file)
            content = read_regular(file)
            if base in self._folders:
                self._found.shipped[file.relative_to(root).as_posix()] = digest_of(content)
            else:
                self._found.elsewhere[module] = digest_of(content)
            if file.suffix == ".py":
                for name in _imported(_parsed(content, file), module, file):
                    pending += self._files(name)
        self._found.shipped = dict(sorted(self._found.shipped.items()))

    def _files(self, name: str) -> list[tuple[Path, Path, str]]:
        """The files of a module, each with its root and module name.

        They are its packages' `__init__.py` and its own.
        """
        parts = name.split(".")
        if parts[0] not in self._roots:
            self._roots[parts[0]] = self._root_of(parts[0])
        if self._roots[parts[0]] is None and (namespace := self._namespace_of(parts)):
            self._roots[parts[0]] = namespace
            self._found.libraries.discard(parts[0])  # as which the folders above it counted
        root = self._roots[parts[0]]
        if root is None and parts[0] not in sys.stdlib_module_names and parts[0] not in ("", "raybench"):
            self._found.libraries.add(parts[0])
        entries = []
        for count in range(1, len(parts) + 1) if root else ():
            assert root
            path, module = root.joinpath(*parts[:count]), ".".join(parts[:count])
            for file in (path / "__init__.py", path.with_suffix(".py")):
                if file.is_file():
                    entries.append((file, root, module))
                    break
        return entries

    def _namespace_of(self, parts: Sequence[str]) -> Path | None:
        """The folder that has a module or package below folders that have no Python file; None for any other."""
        paths = ["/".join(parts[:count]) for count in range(2, len(parts) + 1)]
        return next((root for root in self._folders if any(_is_module(root / path) for path in paths)), None)

    def _root_of(self, top: str) -> Path | None:
        """The folder of a top-level module or package that is not installed.

        None for any other.
        """
        if top in sys.stdlib_module_names or top == "raybench":
            return None
        for root in self._folders:
            if _is_module(root / top) or _has_modules(root / top):
                return root
        try:
            spec = importlib.util.find_spec(top)
        except (ImportError, ValueError):
            return None
        if spec is None:
            return None
        packages = list(spec.submodule_search_locations or ())
        location = packages[0] if packages else spec.origin if spec.has_location else None
        return None if location is None or is_installed(Path(location)) else Path(location).parent


def _is_module(path: Path) -> bool:
    """Return whether a path without a suffix is that of a module or of a package with `__init__.py`."""
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def _has_modules(folder: Path) -> bool:
    """Return whether a folder without `__init__.py` is a package: it has modules."""
    return folder.is_dir() and any(folder.glob("*.py"))


def _module_name(file: Path, root: Path) -> str:
    parts = list(file.relative_to(root).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _parsed(content: bytes, file: Path) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the trial that runs the file shows the warnings
            return ast.parse(content, file)
    except SyntaxError as error:
        raise WorkloadError(f"{file}:{error.lineno or 1}: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise WorkloadError(f"{file}: cannot be parsed as Python: {error}") from None


def _imported(tree: ast.Module, module: str, file: Path) -> Iterator[str]:
    """Yield the full names of imported modules.

    Names imported from a module are included, because they may be modules, too.
    """
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".") if package else []
            if node.level > len(parts):
                raise WorkloadError(
                    f"{file}:{node.lineno}: relative import outside of a package; use an absolute import"
                )
            base = ".".join([*parts[: len(parts) - node.level + 1], *filter(None, [node.module])])
            base = base if node.level else node.module or ""
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names if alias.name != "*")


def is_installed(path: Path) -> bool:
    """Return whether a module's file is installed.

    It is part of Python, or below a folder of installed packages.
    """
    if {"site-packages", "dist-packages"} & set(path.parts):
        return True
    folders = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    return any(
        path.is_relative_to(folder) for folder in (*folders, *site.getsitepackages(), site.getusersitepackages())
    )


def snapshot(own_files: OwnFiles, folder: Path) -> Path:
    """Copy the files into a folder of the grid's folder; return it.

    Nothing is copied if it exists.

    Raises:
        WorkloadError: a file was changed since the plan was made.
    """
    names = "".join(f"{name} {destination}\n" for name, destination in sorted(own_files.links.items()))
    suffix = f"-{digest_of(names.encode()).removeprefix('sha256:')}" if names else ""
    destination = folder / FOLDER / f"{own_files.digest.removeprefix('sha256:')}{suffix}"
    if not destination.is_dir():
        contents = {name: (own_files.root / name).read_bytes() for name in own_files.shipped}
        for name, content in contents.items():
            if digest_of(content) != own_files.shipped[name]:
                raise WorkloadError(
                    f"{own_files.root / name} was changed after the grid was planned; run the command again"
                )
        write(contents, own_files.links, destination)
    return destination


def write(contents: Mapping[str, bytes], links: Mapping[str, str], destination: Path) -> None:
    """Create a snapshot's folder atomically."""
    destination.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=".", dir=destination.parent))
    for name, content in contents.items():
        (temporary / name).parent.mkdir(parents=True, exist_ok=True)
        (temporary / name).write_bytes(content)
    for name, target in links.items():
        if Path(target).exists():  # on another node of a cluster it may not exist
            (temporary / name).parent.mkdir(parents=True, exist_ok=True)
            _link(temporary / name, Path(target))
    temporary.chmod(0o755)
    try:
        temporary.rename(destination)
    except OSError:
        shutil.rmtree(temporary, ignore_errors=True)
        if not destination.is_dir():  # another process may have created it
            raise


def _link(path: Path, target: Path) -> None:
    """Make a path a link; of a folder that has files of the snapshot, all other entries."""
    if path.is_symlink() or path.is_file() or (path.exists() and path.samefile(target)):
        return
    if not path.is_dir():
        path.symlink_to(target)
        return
    for entry in target.iterdir():
        if entry.name != "__pycache__":  # of the user's modules, whose copies may differ
            _link(path / entry.name, entry)


def put_on_path(code: Path) -> None:
    """Put a snapshot's folder first on the import path, as Python does with a script's folder.

    Modules of an earlier snapshot are unloaded.
    """
    for stale in [entry for entry in sys.path if Path(entry).parent.name == FOLDER and entry != str(code)]:
        sys.path.remove(stale)
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None) or "").startswith(stale + os.sep):
                del sys.modules[name]
    sys.path[:] = [str(code), *(entry for entry in sys.path if entry not in ("", str(code)))]
    importlib.invalidate_caches()


def check_modules(
    digest: str, elsewhere: Mapping[str, str], code: Path, modules_before: Collection[str]
) -> Iterator[str]:
    """Check the modules that a trial imported outside of the snapshot, and record those that the plan did not know.

    From then on, a change of a recorded module makes new trials (`with_late_modules`).

    Args:
        digest: of the workload's files.
        elsewhere: planned modules outside of the snapshot, and their digests.
        code: the snapshot's folder.
        modules_before: names of the modules that were loaded before the workload.

    Yields:
        A note for each module that was recorded.

    Raises:
        WorkloadError: a module's file differs from the planned one.
    """
    late: dict[str, str] = {}
    for name, path in _imported_since(modules_before, code):
        current = digest_of(path.read_bytes())
        if name not in elsewhere:
            late[str(path)] = current
            yield f"{path} was imported while training, so only from now on its changes make new trials"
        elif current != elsewhere[name]:
            raise WorkloadError(
                f"module {name} ({path}) is not the file with which the grid was planned; run the command again"
            )
    if late:
        with suppress(OSError, ImportError):  # an environment may lack the package that finds the cache folder
            file = _late_file(digest)
            file.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(file, json.dumps({**late, **_late_modules(file)}))


def _imported_since(modules_before: Collection[str], code: Path) -> Iterator[tuple[str, Path]]:
    """Yield the user's own modules outside of the snapshot that were imported, with their files."""
    for name in sorted(sys.modules.keys() - set(modules_before)):
        file = getattr(sys.modules[name], "__file__", None)
        if not file or not file.endswith(".py"):
            continue
        path = Path(file).absolute()
        if path.is_relative_to(code) or path.is_relative_to(PACKAGE) or is_installed(path):
            continue
        tail = [*name.split("."), *(["__init__"] if path.stem == "__init__" else [])]
        # A compiler's generated modules are not on the import path.
        if list(path.with_suffix("").parts[-len(tail) :]) == tail and str(path.parents[len(tail) - 1]) in sys.path:
            yield name, path


def with_late_modules(digest: str) -> str:
    """The digest of a workload's files and of the modules that its trials imported, if one of these has changed since.

    Without a change it is the same as before they were known, so that finished trials stay finished.
    """
    changed: dict[str, str] = {}
    with suppress(OSError, ImportError):
        for path, recorded in _late_modules(_late_file(digest)).items():
            current = digest_of(Path(path).read_bytes()) if Path(path).is_file() else ""
            changed |= {path: current} if current != recorded else {}
    return digest_of(json.dumps([digest, changed], sort_keys=True).encode()) if changed else digest


def _late_file(digest: str) -> Path:
    return user_cache() / "late_modules" / f"{digest.removeprefix('sha256:')}.json"


def _late_modules(file: Path) -> dict[str, str]:
    try:
        return dict(json.loads(file.read_text()))
    except (OSError, ValueError, TypeError):
        return {}


def remedy(error: BaseException, file: str, code: Path) -> str:
    """The remedy for an error about a file that was not shipped.

    It must be a file of the workload's folder; empty for any other error.
    """
    root = Path(file).parent
    if isinstance(error, ModuleNotFoundError) and error.name:
        path = root.joinpath(*error.name.split("."))
        names = [name for name in (path.with_suffix(".py"), path) if name.exists()]
    elif isinstance(error, FileNotFoundError) and error.filename and str(error.filename).startswith(str(code)):
        names = [root / Path(str(error.filename)).relative_to(code)]
    else:
        return ""
    if not names or not names[0].exists():
        return ""
    return not_copied(names[0], names[0].relative_to(root))


def not_copied(path: Path, name: Path, field: str = "the grid file") -> str:
    """The remedy for a file of the workload's folder that a trial's copy of the folder lacks.

    Args:
        path: the file.
        name: its path in the workload's folder.
        field: where the grid names further files.
    """
    return (
        f"; {path} was not copied for the trial: add `files: [{name.as_posix()}]` or, for large data, "
        f"`links: [{name.parts[0]}]` to {field}"
    )
