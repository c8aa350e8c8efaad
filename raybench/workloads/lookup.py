"""Lookup of a grid file's workload reference, for the plan and the trial.

The plan imports a user's file in a process that is thrown away (`inspection.py`). The file is shipped with the trial,
with the modules of its folder that it imports (`own_files.py`), and the trial's own process runs it.
"""

from __future__ import annotations

import importlib
import importlib.util
import linecache
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any, Self

from raybench.core.cell import COMMAND, FUNCTION, CellWorkload
from raybench.datasets import digests
from raybench.datasets.paths import user_path
from raybench.errors import DataError, WorkloadError, close
from raybench.workloads import builtin
from raybench.workloads.base import Workload
from raybench.workloads.command import Command, scripts_in, uses_trial
from raybench.workloads.inspection import inspect_file
from raybench.workloads.own_files import OwnFiles, collect, digest_of, put_on_path, read_regular, with_late_modules
from raybench.workloads.parameters import Parameter


@dataclass(frozen=True)
class WorkloadInfo:
    """The static properties of a workload, as plain values for other processes.

    Attributes:
        name: the workload's name.
        version: of a built-in workload; None for a user's own.
        digest: of a user's files, `sha256:` and 16 hex digits; None for a built-in workload.
        dataset: the data set, or None if it has its own data function.
        data_files: files that this function reads, relative to the data folder.
        defaults: settings that apply if the grid does not set them.
        examples: number of examples used of each split, if not all.
        held_out: number of examples at the end of the training set that are the validation set; 0: the test set is.
        frameworks: those for which it has a model.
        options: model options that a grid may set, with the defaults.
        own_loss: whether it has another loss than cross-entropy.
        parity_tolerance: largest differences between its frameworks, if not the default.
        metric_names: the metrics except its loss; empty if they are known only in a trial.
        file: the path of a user's file, as found; of a command, the grid file; None for a built-in workload.
        attribute: the variable in it.
        files: shipped files, by path below the file's folder, with their digests.
        elsewhere: modules outside of that folder that are not installed, with their digests.
        links: linked files and folders, by path below the file's folder, with their targets.
        libraries: installed modules that a user's files import, by their top-level names.
        function_line: the line of a training function in the file; None for a declared workload.
        parameters: of the training function, by name.
        command: the user's command; None for any other workload.
        is_builtin: whether it comes with raybench.
    """

    name: str
    version: int | None
    digest: str | None
    dataset: str | None
    data_files: tuple[str, ...]
    defaults: Mapping[str, Any]
    examples: Mapping[str, int]
    held_out: int
    frameworks: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    metric_names: tuple[str, ...] = ("accuracy",)
    own_loss: bool = False
    parity_tolerance: Mapping[str, float] = field(default_factory=dict)
    file: str | None = None
    attribute: str = "WORKLOAD"
    files: Mapping[str, str] = field(default_factory=dict)
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    libraries: tuple[str, ...] = ()
    function_line: int | None = None
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    command: Command | None = None
    is_builtin: bool = False

    @property
    def is_function(self) -> bool:
        """Return whether it is a training function with a loop of its own."""
        return self.function_line is not None

    @property
    def own_loop(self) -> str:
        """A word for a workload with a loop of its own; empty for a declared one."""
        return "training function" if self.is_function else "command" if self.command else ""

    @property
    def own_files(self) -> OwnFiles | None:
        """The files of a user's workload; None for a built-in one."""
        if self.file is None:
            return None
        root = Path(self.file).absolute().parent
        return OwnFiles(root, dict(self.files), dict(self.elsewhere), dict(self.links))

    def identity(self) -> CellWorkload:
        """The part of a cell: its name, and its version or its files' digest."""
        if self.is_function:
            return CellWorkload(self.name, digest=str(self.digest), form=FUNCTION)
        if self.command:
            return CellWorkload(self.name, digest=str(self.digest), form=COMMAND)
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


def read_reference(
    text: str,
    base: Path,
    files: Iterable[str] = (),
    links: Iterable[str] = (),
    pythons: Iterable[Path] = (),
) -> WorkloadInfo:
    """Look up a workload reference.

    A built-in workload is referenced by its name, a user's own as `file.py:name`, relative to `base`.

    Args:
        text: the reference.
        base: the folder of the grid file.
        files: additional files of a user's workload, as globs relative to its folder.
        links: files and folders that are only linked.
        pythons: interpreters that may import the file, if this one lacks a library.

    Raises:
        WorkloadError: there is none, or its file cannot be imported; one line with file and line.
    """
    file, attribute = _parts(text)
    if file:
        return _read_file(file, attribute, base, files, links, pythons)
    workload = builtin.get(text)
    for name, entries in (("files", files), ("links", links)):
        if list(entries):
            raise WorkloadError(f"{name} only apply to your own workload file, not to {text}; remove them", name)
    return WorkloadInfo(
        name=workload.name,
        version=workload.version,
        digest=None,
        dataset=workload.dataset,
        data_files=tuple(workload.data_files),
        defaults=dict(workload.defaults),
        examples=dict(workload.examples),
        held_out=workload.held_out,
        frameworks=workload.frameworks,
        options=dict(workload.options),
        metric_names=workload.metric_names,
        own_loss=workload.loss is not None,
        parity_tolerance=dict(workload.parity_tolerance),
        is_builtin=True,
    )


def read_command(
    command: Command, grid_file: Path, files: Iterable[str] = (), links: Iterable[str] = ()
) -> WorkloadInfo:
    """Look up the files of a user's command.

    Args:
        command: as in the grid file.
        grid_file: its file, in whose folder the command's files are; it need not exist.
        files: additional files, as globs relative to that folder.
        links: files and folders that are only linked.

    Raises:
        WorkloadError: a file is missing or cannot be used; one line. Its `field` is `command`, `files` or `links`.
    """
    folder = grid_file.absolute().parent
    try:
        scripts = scripts_in(command.arguments, folder)
        own_files = collect(folder, scripts, files, links)
        contents = [(folder / name).read_bytes() for name in own_files.shipped if name.endswith(".py")]
    except OSError as error:
        raise WorkloadError(f"cannot read {error.filename}: {error.strerror}", "command") from None
    except WorkloadError as error:
        raise WorkloadError(str(error), "command" if error.field == "workload" else error.field) from None
    reports = any(map(uses_trial, contents))
    return WorkloadInfo(
        name=scripts[0].name if scripts else Path(command.arguments[0]).name,
        version=None,
        digest=digest_of(f"{own_files.digest}\n{command.identity()}".encode()),
        dataset=None,
        data_files=(),
        defaults={},
        examples={},
        held_out=0,
        frameworks=(),
        metric_names=(),
        file=str(grid_file),
        files=own_files.shipped,
        elsewhere=own_files.elsewhere,
        links=own_files.links,
        libraries=tuple(sorted(own_files.libraries)),
        command=replace(command, reports=reports),
    )


def _parts(text: str) -> tuple[str, str]:
    """The file and the variable of a reference; both empty for a built-in workload."""
    file, colon, attribute = text.rpartition(":")
    if colon and file.endswith(".py"):
        return file, attribute
    return (text, "") if text.endswith(".py") else ("", "")


def _read_file(
    file: str, attribute: str, base: Path, files: Iterable[str], links: Iterable[str], pythons: Iterable[Path]
) -> WorkloadInfo:
    path = base / user_path(file)
    try:
        read_regular(path)
        answer = inspect_file(path.absolute(), attribute, pythons)
        own_files = collect(path.absolute().parent, [path.absolute()], files, links, answer["modules"])
    except OSError as error:
        hint = _near(path) if Path(str(error.filename)) == path else ""
        raise WorkloadError(f"cannot read the workload's file {error.filename}: {error.strerror}{hint}") from None
    common: dict[str, Any] = {
        "version": None,
        "digest": with_late_modules(own_files.digest),
        "file": str(path),
        "attribute": attribute,
        "files": own_files.shipped,
        "elsewhere": own_files.elsewhere,
        "links": own_files.links,
        "libraries": tuple(sorted(own_files.libraries)),
    }
    if "workload" in answer:
        fields: dict[str, Any] = dict(answer["workload"])
        fields |= {name: tuple(fields[name]) for name in ("data_files", "frameworks", "metric_names")}
        return WorkloadInfo(**common, **{**fields, "name": fields["name"] or attribute})
    function = answer.get("function")
    if not function:
        raise WorkloadError(_no_workload(path, attribute, answer))
    if function["problems"]:
        raise WorkloadError("\n".join(f"{path}:{function['line']}: {problem}" for problem in function["problems"]))
    parameters = {name: Parameter(**parameter) for name, parameter in function["parameters"].items()}
    return WorkloadInfo(
        **common,
        name=attribute,
        dataset=None,
        data_files=(),
        defaults={},
        examples={},
        held_out=0,
        frameworks=(),
        metric_names=(),
        function_line=function["line"],
        parameters=parameters,
    )


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


def _near(path: Path) -> str:
    names = [entry.name for entry in path.parent.glob("*.py")] if path.parent.is_dir() else []
    matches = get_close_matches(path.name, names, 1)
    return f"; did you mean {matches[0]}?" if matches and matches[0] != path.name else ""


def load_workload(info: WorkloadInfo, code: Path) -> Workload:
    """Load the workload in the process that trains it.

    A user's file is run here, as a module of its own.

    Args:
        info: the result of `read_reference`.
        code: the snapshot of a user's files (`own_files.snapshot`); tracebacks show its lines.

    Raises:
        WorkloadError: a file of the snapshot was changed, a module is not part of the cell, or the file does not define
            a `Workload`.
        Exception: any exception of the user's file.
    """
    if info.file is None:
        return builtin.get(info.name)
    workload = _load(info, code)
    if not isinstance(workload, Workload):
        raise WorkloadError(f"{info.file}: {info.attribute} is a {type(workload).__name__}, not a raybench.Workload")
    return replace(workload, name=info.name)


def load_function(info: WorkloadInfo, code: Path) -> Callable[..., Any]:
    """Load the training function in the process that trains.

    Args:
        info: the result of `read_reference`.
        code: the snapshot of the user's files.

    Raises:
        WorkloadError: a file of the snapshot was changed, a module is not part of the cell, or the name is no function.
        Exception: any exception of the user's file.
    """
    function = _load(info, code, as_module=True)
    if not callable(function):
        raise WorkloadError(f"{info.file}: {info.attribute} is a {type(function).__name__}, not a function")
    return function  # type: ignore[no-any-return]


def _load(info: WorkloadInfo, code: Path, as_module: bool = False) -> Any:
    """Run a user's file, and return what its attribute stands for.

    Args:
        as_module: import it by its own name, so that processes which the code starts can import it too.
    """
    for name, digest in info.files.items():
        if digest_of((code / name).read_bytes()) != digest:
            raise WorkloadError(f"{code / name} was changed after the cell was planned; remove {code} and run again")
    put_on_path(code)
    file = code / Path(str(info.file)).name
    module = (as_module and _import(file)) or _run(file, str(info.digest))
    return getattr(module, info.attribute, None)


def _import(file: Path) -> ModuleType | None:
    """Import a file of the import path by its name; None if that is the name of another module."""
    if not file.stem.isidentifier() or file.stem in sys.stdlib_module_names:
        return None
    sys.modules.pop(file.stem, None)
    spec = importlib.util.find_spec(file.stem)
    return importlib.import_module(file.stem) if spec and spec.origin == str(file) else None


def _run(file: Path, digest: str) -> ModuleType:
    linecache.checkcache(str(file))
    module = ModuleType(f"raybench_workload_{digest.removeprefix('sha256:')}")
    module.__file__ = str(file)
    sys.modules[module.__name__] = module  # dataclasses and pickles of the file's classes look up their module here
    exec(compile(file.read_bytes(), file, "exec"), module.__dict__)  # noqa: S102 - the user's code is what a trial is for
    return module
