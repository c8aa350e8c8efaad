"""Load a `GridSpec` from a grid file or a mapping, with changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml

from raybench.config.grid import GridSpec
from raybench.config.validate import validate
from raybench.config.yaml_document import Document, Place, dotted, read_yaml
from raybench.core.files import PACKAGE
from raybench.errors import GridFileError, Problem

MAX_BYTES = 256 * 1024

MAP_NEEDED = "the file must be a map; write lines such as `name: my_grid`"


def load_grid(source: Path | Mapping[str, Any], changes: Sequence[str] = (), option: str = "--set") -> GridSpec:
    """Read a grid file, or a grid as a mapping.

    Args:
        source: the file, or a mapping with the fields of one; its paths are relative to the current folder.
        changes: changes as `name=value`: the name dotted (`axes.batch_size`), the value YAML. Missing maps on the path
            are created; a list is replaced as a whole.
        option: the name of the changes in messages.

    Raises:
        GridFileError: with every problem of the file and of the changes at once.
    """
    if isinstance(source, Mapping):
        return _of_mapping(source, changes, option)
    source = _shipped(source)
    text = _read(source)
    document = read_yaml(text, str(source))
    if document.value is None:
        raise _error(source, "the file is empty; write lines such as `name: my_grid`")
    if not isinstance(document.value, dict):
        place = document.values[()]
        raise GridFileError(
            [
                Problem(
                    place.file,
                    place.line,
                    place.column,
                    "",
                    MAP_NEEDED,
                )
            ]
        )
    spec = _validated(document, changes, source.parent, option)
    spec._source_text, spec._source_path = text, source
    return spec


def shipped_grids() -> Path:
    """The folder of the shipped grids: inside the installed package, or next to it in a checkout."""
    grids = PACKAGE / "grids"
    return grids if grids.is_dir() else PACKAGE.parent / "grids"


def _shipped(source: Path) -> Path:
    """The file of a shipped grid for its bare name, such as `quickstart`, if there is no file of that name."""
    shipped = {name: file for file in shipped_grids().glob("*.yaml") for name in (file.name, file.stem)}
    return shipped[str(source)] if str(source) in shipped and not source.exists() else source


MAPPING = "grid"
"""Name of a grid without a file in messages."""


def _of_mapping(grid: Mapping[str, Any], changes: Sequence[str], option: str) -> GridSpec:
    document = Document(_plain(grid), values={(): Place(MAPPING)})
    spec = _validated(document, changes, Path(), option)
    spec._source_text = yaml.safe_dump(document.value, sort_keys=False, allow_unicode=True)
    return spec


def _plain(value: Any) -> Any:
    """Return a value of Python as YAML has it: tuples and ranges become lists, paths become text."""
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple, range)):
        return list(map(_plain, value))
    return str(value) if isinstance(value, Path) else value


def _validated(document: Document, changes: Sequence[str], base: Path, option: str) -> GridSpec:
    for change in changes:
        _change(document, change, option)
    spec, problems = validate(document, base)
    if spec is None or problems:
        raise GridFileError(problems)
    return spec


def _read(path: Path) -> str:
    try:
        if path.is_dir():
            raise _error(path, "is a folder; name a grid file")
        if not path.exists():
            raise _error(path, f"no such file{_alike(path)}")
        if not path.is_file():
            raise _error(path, "is not a regular file; name a grid file")
        if path.stat().st_size > MAX_BYTES:
            raise _error(path, f"is larger than {MAX_BYTES // 1024} KiB; name a grid file")
        content = path.read_bytes()
    except OSError as error:
        raise _error(path, f"cannot be read: {error.strerror}") from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        column = error.start - (content.rfind(b"\n", 0, error.start) + 1) + 1
        raise GridFileError([Problem(str(path), line, column, "", "not UTF-8 text; save the file as UTF-8")]) from None


def _alike(path: Path) -> str:
    """The hint `; did you mean grids/quickstart.yaml?`; empty if the folder has no YAML file of a similar name."""
    try:
        names = sorted(near.name for near in path.parent.iterdir() if near.suffix in (".yaml", ".yml"))
    except OSError:
        return ""
    near = get_close_matches(path.name, names, n=1)
    return f"; did you mean {path.parent / near[0]}?" if near else ""


def _change(document: Document, change: str, option: str) -> None:
    name, equals, text = change.partition("=")
    # Without the value, which may be a credential and which the user sees in the command line.
    label = f"{option} {name}=…" if equals else f"{option} {change}"
    path = _steps(name.strip())
    if not equals or not all(path):
        problem = "use name=value, such as axes.batch_size=[64,128] or repeats=5"
        document.problems.append(Problem(label, 0, 0, "", problem))
        return
    try:
        part = read_yaml(text, label, lines=False)
    except GridFileError as error:
        document.problems.extend(error.problems)
        return
    for depth in range(1, len(path)):
        prefix = path[:depth]
        parent = document.value
        for step in prefix[:-1]:
            parent = parent[step]
        child = parent.get(prefix[-1])
        if child is None:
            document.put(prefix, read_yaml("{}", label, lines=False))
        elif not isinstance(child, dict):
            problem = f"{dotted(prefix)} is not a map and has no {path[depth]}; set {dotted(prefix)} as a whole"
            document.problems.append(Problem(label, 0, 0, dotted(path), problem))
            return
    document.put(path, part)


def _steps(name: str) -> tuple[str, ...]:
    """The steps to a field: on an axis, `params.hidden` is one key."""
    steps = name.split(".")
    if len(steps) > 2 and steps[0] in ("axes", "baseline") and steps[1] == "params":
        steps[1:] = [".".join(steps[1:])]
    return tuple(steps)


def _error(path: Path, message: str) -> GridFileError:
    return GridFileError([Problem(str(path), 0, 0, "", message)])
