"""Load a `GridSpec` from a grid file or a mapping, with changes; all problems are reported together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from raybench.config.consistency import contradictions
from raybench.config.error_messages import message_of, path_of
from raybench.config.grid import GridSpec
from raybench.config.parameters import without_params, wrong_parameters
from raybench.config.setting_types import Settings
from raybench.config.yaml_document import Document, KeyPath, Place, dotted, read_yaml
from raybench.core.files import PACKAGE
from raybench.errors import GridFileError, Problem, close, near_file

MAX_BYTES = 256 * 1024

SUCH_AS = "write lines such as `name: my_grid`"


def load_grid(
    source: Path | Mapping[str, Any],
    changes: Sequence[str] = (),
    option: str = "--set",
    by_option: Mapping[str, str] | None = None,
    parts: Mapping[KeyPath, str] | None = None,
    text: str | None = None,
) -> GridSpec:
    """Read a grid file, or a grid as a mapping.

    Args:
        source: the file, or a mapping with the fields of one; its paths are relative to the current folder.
        changes: changes as `name=value`: the name dotted (`axes.batch_size`), the value YAML. Missing maps on the path
            are created; a list is replaced as a whole.
        option: the name of the changes in messages.
        by_option: further changes, each by its own name in messages.
        parts: the options that have set parts of a mapping, by their paths.
        text: the content of the file, if it does not exist; its paths are relative to the folder where it would be.

    Raises:
        GridFileError: with every problem of the file and of the changes at once; contradictions between values are
            looked for once each value is valid.
    """
    named = [(_place(option, change), change) for change in changes]
    named += [(Place(name, is_option=True), change) for name, change in (by_option or {}).items()]
    if isinstance(source, Mapping):
        places = {path: Place(name, is_option=True) for path, name in (parts or {}).items()}
        document = Document(plain(source), {(): Place("grid")} | places)
        spec = _validated(document, named, Path())
        spec._source_text = yaml.safe_dump(document.value, sort_keys=False, allow_unicode=True)
        return spec
    if text is None:
        source = shipped(source)
        text = _read(source)
    document = read_yaml(text, str(source))
    if document.value is None:
        raise _error(source, f"the file is empty; {SUCH_AS}")
    if not isinstance(document.value, dict):
        place = document.values[()]
        raise _error(source, f"the file must be a map; {SUCH_AS}", place.line, place.column)
    spec = _validated(document, named, source.parent)
    if named:  # what runs is not what the file says
        changed = yaml.safe_dump(document.value, sort_keys=False, allow_unicode=True)
        text = f"# {source.name}, changed by options\n{changed}"
    spec._source_text, spec._source_path, spec._document = text, source, document
    return spec


def wrong_settings(settings: Mapping[str, Any]) -> list[str]:
    """The problems of settings that are not in a grid file, such as a workload's defaults."""
    document = Document(dict(settings), {(): Place("")})
    try:
        Settings.model_validate(document.value)
    except ValidationError as error:
        # The path where a grid file has settings and nothing else.
        _add_problems(document, error, Path(), ("overrides", 0, "set"))
    return [f"{problem.where}: {problem.message}" for problem in document.problems]


def shipped_grids() -> Path:
    """The folder of the shipped grids: inside the installed package, or next to it in a checkout."""
    grids = PACKAGE / "grids"
    return grids if grids.is_dir() else PACKAGE.parent / "grids"


def shipped(source: Path) -> Path:
    """The file of a shipped grid for its bare name, such as `quickstart`, if there is no file of that name."""
    files = {name: file for file in shipped_grids().glob("*.yaml") for name in (file.name, file.stem)}
    return files[str(source)] if str(source) in files and not source.exists() else source


def plain(value: Any) -> Any:
    """Return a value of Python as YAML has it: tuples, ranges and arrays become lists, paths become text."""
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple, range)):
        return list(map(plain, value))
    value = value.tolist() if hasattr(value, "tolist") else value  # of NumPy
    return str(value) if isinstance(value, Path) else value


def _validated(document: Document, changes: Iterable[tuple[Place, str]], base: Path) -> GridSpec:
    for place, change in changes:
        _change(document, change, place)
    try:
        spec = GridSpec.model_validate(document.value)
    except ValidationError as error:
        _add_problems(document, error, base)
    else:
        for path, message in (*contradictions(spec), *wrong_parameters(spec, base)) if not document.problems else ():
            document.add_problem(document.place(path), path, message)
    if document.problems:
        raise GridFileError(document.problems)
    return spec


def _add_problems(document: Document, error: ValidationError, base: Path, prefix: tuple[str | int, ...] = ()) -> None:
    for detail in error.errors(include_url=False):
        kind, loc = detail["type"], detail["loc"]
        path = path_of(loc, document.value, missing=kind == "missing")
        is_key = kind == "extra_forbidden" or loc[-1:] == ("[key]",)
        message = without_params(document.value, path, base) if kind == "extra_forbidden" and not prefix else None
        message = message or message_of(kind, prefix + path, detail["input"], detail.get("ctx", {}), detail["msg"])
        document.add_problem(document.place(path, is_key), path, message)


def _read(path: Path) -> str:
    try:
        if path.is_dir():
            raise _error(path, "is a folder; name a grid file")
        script, _, function = path.name.partition(":")
        if script.endswith(".py"):
            workload, file = f"{script}:{function or 'FUNCTION'}", path.with_name(script)
            hint = f"write a grid file with `workload: {workload}`, or use `raybench run -- python {file}`"
            raise _error(path, f"is a Python file; {hint}")
        if not path.exists():
            is_shipped = (shipped_grids() / path.name).is_file()
            names = [] if path.parent.name else [file.stem for file in shipped_grids().glob("*.yaml")]
            near = f"; {shipped}" if (shipped := close(path.stem, names)) else ""
            hint = f"; the grid that comes with raybench is `{path.stem}`" if is_shipped else near_file(path) or near
            raise _error(path, f"no such file{hint}")
        if path.stat().st_size > MAX_BYTES:
            raise _error(path, f"is larger than {MAX_BYTES // 1024} KiB; name a grid file")
        content = path.read_bytes()
    except OSError as error:
        raise _error(path, f"cannot be read: {error.strerror}") from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _error(path, "not UTF-8 text; save the file as UTF-8") from None


def _place(option: str, change: str) -> Place:
    """The place of a change, without its value: that may be a credential, and the user sees it in the command line."""
    name, equals, _ = change.partition("=")
    return Place(f"{option} {name}{equals and '=…'}")


def _change(document: Document, change: str, place: Place) -> None:
    name, equals, text = change.partition("=")
    path = _steps(name.strip())
    if not equals or not all(path):
        document.add_problem(place, (), "use name=value, such as axes.batch_size=[64,128] or repeats=5")
        return
    try:
        read = read_yaml(text, place.file)
        problems = read.problems
    except GridFileError as error:
        problems = error.problems
    document.problems += [replace(problem, line=0, column=0) for problem in problems]
    if problems:
        return
    parent = document.value
    for depth, step in enumerate(path[:-1], 1):
        if parent.get(step) is None:
            document.put(path[:depth], {}, place)
        parent = parent[step]
        if not isinstance(parent, dict):
            prefix = dotted(path[:depth])
            document.add_problem(
                place, path, f"{prefix} is not a map and has no {path[depth]}; set {prefix} as a whole"
            )
            return
    document.put(path, read.value, place)


def _steps(name: str) -> tuple[str, ...]:
    """The steps to a field: on an axis, `params.hidden` is one key."""
    steps = name.split(".")
    if len(steps) > 2 and steps[0] in ("axes", "baseline") and steps[1] == "params":
        steps[1:] = [".".join(steps[1:])]
    return tuple(steps)


def _error(path: Path, message: str, line: int = 0, column: int = 0) -> GridFileError:
    return GridFileError([Problem(str(path), line, column, "", message)])
