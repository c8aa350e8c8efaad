"""From a grid file, and what the command line changes in it, to a `GridSpec`."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from raybench.config.grid import GridSpec
from raybench.config.validate import validate
from raybench.config.yaml_document import Document, dotted, read_yaml
from raybench.errors import GridFileError, Problem

MAX_BYTES = 256 * 1024


def load_grid(path: Path, changes: Sequence[str] = ()) -> GridSpec:
    """Read a grid file.

    Args:
        path: the file.
        changes: what is to be different, as `name=value`: the name dotted (`axes.batch_size`), the value YAML. Maps on
            the way are made where they are missing; a list is replaced as a whole.

    Raises:
        GridFileError: with every problem of the file and of the changes at once.
    """
    text = _read(path)
    document = read_yaml(text, str(path))
    if document.value is None:
        raise _error(path, "is empty; see `raybench init` for grids to begin with")
    if not isinstance(document.value, dict):
        place = document.values[()]
        raise GridFileError(
            [Problem(place.file, place.line, place.column, "", "wanted a map (name: value) at the top of the file")]
        )
    for change in changes:
        _change(document, change)
    spec, problems = validate(document, path.parent)
    if spec is None or problems:
        raise GridFileError(problems)
    spec._source_text, spec._source_path = text, path
    return spec


def _read(path: Path) -> str:
    try:
        if path.is_dir():
            raise _error(path, "is a folder; name a grid file in it")
        if not path.exists():
            raise _error(path, f"there is no such file{_alike(path)}")
        if not path.is_file():
            raise _error(path, "is not a regular file")
        if path.stat().st_size > MAX_BYTES:
            raise _error(path, f"is larger than {MAX_BYTES // 1024} KiB; that is no grid file")
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
    """`; did you mean grids/quickstart.yaml?` where a missing file's folder has a YAML file of a similar name."""
    try:
        names = sorted(near.name for near in path.parent.iterdir() if near.suffix in (".yaml", ".yml"))
    except OSError:
        return ""
    near = get_close_matches(path.name, names, n=1)
    return f"; did you mean {path.parent / near[0]}?" if near else ""


def _change(document: Document, change: str) -> None:
    name, equals, text = change.partition("=")
    # The value may hold a credential, and stands in the command line anyway.
    label = f"--set {name}=…" if equals else f"--set {change}"
    path = _steps(name.strip())
    if not equals or not all(path):
        problem = "write it as name=value, such as axes.batch_size=[64,128] or repeats=5"
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
            problem = f"{dotted(prefix)} is no map to put {path[depth]} in; set {dotted(prefix)} as a whole"
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
