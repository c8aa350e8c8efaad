"""Lookup of a grid file's workload: a name, a file of the user, or a command.

The plan imports a user's file in a process that is thrown away (`inspection.py`); a trial imports it in its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from raybench.core.cell import COMMAND, FUNCTION, CellWorkload
from raybench.datasets import digests
from raybench.datasets.paths import user_path
from raybench.errors import DataError, WorkloadError, close, near_file
from raybench.workloads import builtin
from raybench.workloads.base import Workload
from raybench.workloads.command import Command, named_files, uses_trial
from raybench.workloads.inspection import inspect_file
from raybench.workloads.own_files import digest_of, import_file, own_files, with_late_modules
from raybench.workloads.parameters import Parameter

_FILE = re.compile(r"(.*\.py)(?::(.*))?", re.DOTALL)


@dataclass(frozen=True)
class WorkloadInfo:
    """What the plan knows of a workload, as plain values for other processes.

    Attributes:
        name: the workload's name.
        version: of a built-in workload; None for a user's own.
        digest: of a user's files; None for a built-in workload.
        dataset: the data set, or None if it has its own data function.
        data_files, defaults, examples, held_out, frameworks, options, metric_names: as in `Workload`;
            `metric_names` is empty if they are known only in a trial.
        own_loss: whether it has a different loss than cross-entropy.
        file: the path of a user's file, as found; None for a built-in workload and a command.
        attribute: the name in it.
        folder: the absolute folder in which a user's workload runs; empty for a built-in one.
        files: the user's files, by path relative to the folder, with their digests.
        libraries: other modules that these import, by their top-level names.
        isolate: whether a trial runs in a copy of these files instead.
        function_line: the line of a training function in the file; None for any other workload.
        parameters: of the training function, by name.
        command: the user's command; None for any other workload.
    """

    name: str
    version: int | None = None
    digest: str | None = None
    dataset: str | None = None
    data_files: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    examples: Mapping[str, int] = field(default_factory=dict)
    held_out: int = 0
    frameworks: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    metric_names: tuple[str, ...] = ()
    own_loss: bool = False
    file: str | None = None
    attribute: str = ""
    folder: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    libraries: tuple[str, ...] = ()
    isolate: bool = False
    function_line: int | None = None
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    command: Command | None = None

    @property
    def is_function(self) -> bool:
        """Return whether it is a training function with a loop of its own."""
        return self.function_line is not None

    @property
    def own_loop(self) -> str:
        """A word for a workload with a loop of its own; empty for a declared one."""
        return "training function" if self.is_function else "command" if self.command else ""

    def identity(self) -> CellWorkload:
        """The part of a cell: its name, and its version or its files' digest."""
        if self.own_loop:
            return CellWorkload(self.name, digest=str(self.digest), form=COMMAND if self.command else FUNCTION)
        return CellWorkload(self.name, digest=self.digest) if self.digest else CellWorkload(self.name, self.version)

    def data_digest(self, root: Path) -> str | None:
        """The digest of `data_files` below the data folder; None if there are none.

        Raises:
            DataError: one of them is missing.
        """
        if not self.data_files:
            return None
        try:
            with digests.Digests() as cache:
                return digests.digest_of([cache.of(root / name) for name in self.data_files])
        except OSError as error:
            raise DataError(
                f"workload {self.name}: cannot read {error.filename}: {error.strerror}; "
                "data_files are relative to the folder in RAYBENCH_DATA"
            ) from None

    def to_json(self) -> dict[str, Any]:
        """The properties as plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read the result of `to_json`."""
        lists = {key: tuple(value[key]) for key in ("data_files", "frameworks", "metric_names", "libraries")}
        parameters = {name: Parameter(**parameter) for name, parameter in value["parameters"].items()}
        command = Command.from_json(value["command"]) if value["command"] else None
        return cls(**{**value, **lists, "parameters": parameters, "command": command})


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
            info = _read_command(reference, base.absolute(), inputs)
        elif file := _FILE.fullmatch(reference):
            info = _read_file(base / user_path(file[1]), file[2] or "", inputs, pythons)
        else:
            workload = builtin.get(reference)
            info = _declared(workload.describe(), version=workload.version)
    except OSError as error:
        path = Path(str(error.filename))
        raise WorkloadError(f"cannot read {str(path)[:200]}: {error.strerror}{near_file(path)}") from None
    for name, is_given, is_possible in (("inputs", [*inputs], info.digest), ("isolate", isolate, info.own_loop)):
        if is_given and not is_possible:
            raise WorkloadError(f"{name} is not for {info.name}, which is not your own program; remove it", name)
    return replace(info, isolate=isolate, digest=info.digest and with_late_modules(info.digest, info.folder))


def _read_command(command: Command, folder: Path, inputs: Iterable[str]) -> WorkloadInfo:
    scripts = named_files(command.arguments, folder)
    own = own_files(folder, scripts, inputs)
    own["digest"] = digest_of(f"{own['digest']}\n{command.identity()}".encode())
    reports = any(uses_trial((folder / name).read_bytes()) for name in own["files"] if name.endswith(".py"))
    name = scripts[0].name if scripts else Path(command.arguments[0]).name
    return WorkloadInfo(name=name, folder=str(folder), command=replace(command, reports=reports), **own)


def _read_file(path: Path, attribute: str, inputs: Iterable[str], pythons: Iterable[Path]) -> WorkloadInfo:
    if not path.is_file():
        path.stat()
        raise WorkloadError(f"cannot read {path}: it is not a file")
    script = path.absolute()
    answer = inspect_file(script, attribute, pythons)
    own = own_files(script.parent, [script], inputs, answer["modules"])
    own |= {"file": str(path), "attribute": attribute, "folder": str(script.parent)}
    if "workload" in answer:
        return _declared({**answer["workload"], "name": answer["workload"]["name"] or attribute}, **own)
    function = answer.get("function")
    if not function:
        raise WorkloadError(_no_workload(path, attribute, answer))
    if function["problems"]:
        raise WorkloadError("\n".join(f"{path}:{function['line']}: {problem}" for problem in function["problems"]))
    parameters = {name: Parameter(**parameter) for name, parameter in function["parameters"].items()}
    return WorkloadInfo(**own, name=attribute, function_line=function["line"], parameters=parameters)


def _declared(fields: Mapping[str, Any], **others: Any) -> WorkloadInfo:
    lists = {name: tuple(fields[name]) for name in ("data_files", "frameworks", "metric_names")}
    return WorkloadInfo(**{**fields, **lists}, **others)


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
