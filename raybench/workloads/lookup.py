"""Lookup of a grid file's workload: a name, a file of the user, or a command.

The plan imports a user's file in a process that is thrown away (`inspection.py`); a trial imports it in its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from raybench.datasets.paths import user_path
from raybench.errors import WorkloadError, close, near_file
from raybench.workloads import builtin
from raybench.workloads.base import Workload
from raybench.workloads.command import Command, named_files, uses_trial
from raybench.workloads.info import CommandInfo, DeclaredInfo, FunctionInfo, WorkloadInfo
from raybench.workloads.inspection import inspect_file
from raybench.workloads.own_files import digest_of, import_file, own_files
from raybench.workloads.parameters import Parameter

_FILE = re.compile(r"(.*\.py)(?::(.*))?", re.DOTALL)


def read_workload(
    reference: str | Command,
    base: Path,
    inputs: Iterable[str] = (),
    pythons: Iterable[Path] = (),
    isolate: bool = False,
) -> WorkloadInfo:
    """Look up a workload.

    Args:
        reference: the name of a built-in workload, `file.py:name` of a user's own, or a command.
        base: the folder of the grid file, in which a command runs. A training function runs in the folder of its file.
        inputs: further files of a user's workload, as paths or patterns relative to that folder.
        pythons: interpreters that may import the file, if this one lacks a library.
        isolate: whether a trial runs in a copy of the files.

    Raises:
        WorkloadError: there is none, or its file cannot be imported; one line with file and line. Its `field` is the
            grid's.
    """
    try:
        if isinstance(reference, Command):
            info: WorkloadInfo = _read_command(reference, base.absolute(), inputs)
        elif file := _FILE.fullmatch(reference):
            info = _read_file(base / user_path(file[1]), file[2] or "", inputs, pythons)
        else:
            workload = builtin.get(reference)
            info = _declared(workload.describe(), version=workload.version)
    except OSError as error:
        path = Path(str(error.filename))
        raise WorkloadError(f"cannot read {str(path)[:200]}: {error.strerror}{near_file(path)}") from None
    for name, is_given, is_possible in (("inputs", [*inputs], info.digest), ("isolate", isolate, info.output)):
        if is_given and not is_possible:
            raise WorkloadError(f"{name} is not for {info.name}, which is not your own program; remove it", name)
    return replace(info, isolate=isolate)


def _read_command(command: Command, folder: Path, inputs: Iterable[str]) -> CommandInfo:
    scripts = named_files(command.arguments, folder)
    code = own_files(folder, scripts, inputs)
    code["digest"] = digest_of(f"{code['digest']}\n{command.identity()}".encode())
    reports = any(uses_trial((folder / name).read_bytes()) for name in code["files"] if name.endswith(".py"))
    name = scripts[0].name if scripts else Path(command.arguments[0]).name
    return CommandInfo(name=name, folder=str(folder), command=replace(command, reports=reports), **code)


def _read_file(path: Path, attribute: str, inputs: Iterable[str], pythons: Iterable[Path]) -> WorkloadInfo:
    if not path.is_file():
        path.stat()
        raise WorkloadError(f"cannot read {path}: it is not a file")
    script = path.absolute()
    answer = inspect_file(script, attribute, pythons)
    code = own_files(script.parent, [script], inputs, answer["modules"])
    code |= {"file": str(path), "attribute": attribute, "folder": str(script.parent)}
    if "workload" in answer:
        code["libraries"] = None  # the engine's are those of its framework
        return _declared({**answer["workload"], "name": answer["workload"]["name"] or attribute}, **code)
    function = answer.get("function")
    if not function:
        raise WorkloadError(_no_workload(path, attribute, answer))
    if function["problems"]:
        raise WorkloadError("\n".join(f"{path}:{function['line']}: {problem}" for problem in function["problems"]))
    parameters = {name: Parameter(**parameter) for name, parameter in function["parameters"].items()}
    return FunctionInfo(**code, name=attribute, function_line=function["line"], parameters=parameters)


def _declared(fields: Mapping[str, Any], **code: Any) -> DeclaredInfo:
    lists = {name: tuple(fields[name]) for name in ("frameworks", "metric_names")}
    return DeclaredInfo(**{**fields, **lists}, **code)


def _no_workload(path: Path, attribute: str, answer: Mapping[str, Any]) -> str:
    """The message about a name that is neither a workload nor a function, with the nearest that is."""
    names = answer["names"]
    if answer["type"]:
        return (
            f"{path}: {attribute} is of type {answer['type']}; write `{attribute} = Workload(...)` or "
            f"`def {attribute}(trial, *, …)`"
        )
    problem = f"no top-level {attribute!r} in it" if attribute else "name the workload in the file: file.py:name"
    return f"{path}: {problem}; {close(attribute, names) or 'the file has ' + (', '.join(names) or 'no workload')}"


def load_workload(info: WorkloadInfo, folder: Path) -> Any:
    """Load a declared workload or a training function in the process that trains, from the folder of its files."""
    if not info.file:
        return builtin.get(info.name)
    value = getattr(import_file(folder / Path(info.file).name), info.attribute)
    return replace(value, name=info.name) if isinstance(value, Workload) else value
