"""From what a grid file calls a workload to what the plan and the trial need of it.

The plan reads a person's file as text (`declaration.py`) and never runs it. The text travels with the trial, and only
the trial's own process runs it.
"""

from __future__ import annotations

import hashlib
import linecache
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any, Self

from raybench.datasets.digests import Digests, digest_of
from raybench.errors import DataError, WorkloadError
from raybench.workloads import shipped
from raybench.workloads.base import Workload
from raybench.workloads.declaration import read_declaration

DIGEST_DIGITS = 16


@dataclass(frozen=True)
class WorkloadInfo:
    """All that is known of a workload without running it; plain values, so that it can travel.

    Attributes:
        name: how it is called.
        version: of a shipped workload; None for a person's own.
        digest: of a person's file, `sha256:` and 16 hex digits; None for a shipped workload.
        dataset: the data set, or None where it has a data function of its own.
        data_files: what that function reads, relative to the data folder.
        defaults: settings for what the grid leaves open.
        examples: how many examples of each split are used, where not all are.
        held_out: how many examples at the end of the training set are the validation set; 0: the test set is.
        frameworks: those it has a model for.
        options: what a grid may choose of the model, with the defaults.
        own_loss: whether it has another loss than cross-entropy.
        metric_names: what a shipped workload is judged by, beside its loss.
        source: the text of a person's file.
        file: its path, as found.
        attribute: the variable in it.
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
    source: str | None = None
    file: str | None = None
    attribute: str = "WORKLOAD"

    def identity(self) -> dict[str, Any]:
        """What of it goes into a cell: its name, and its version or its file's digest."""
        return {"name": self.name, **({"digest": self.digest} if self.digest else {"version": self.version})}

    def data_digest(self, root: Path) -> str | None:
        """The digest of `data_files` below the data folder; None where there are none.

        Raises:
            DataError: one of them is not there.
        """
        if not self.data_files:
            return None
        try:
            with Digests() as digests:
                return digest_of([digests.of(root / name) for name in self.data_files])
        except OSError as error:
            raise DataError(
                f"workload {self.name}: cannot read {error.filename}: {error.strerror}; "
                "data_files are relative to the folder that RAYBENCH_DATA names"
            ) from None

    def to_json(self) -> dict[str, Any]:
        """The same as plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """What `to_json` wrote."""
        lists = {key: tuple(value[key]) for key in ("data_files", "frameworks", "metric_names")}
        return cls(**{**value, **lists})


def read_reference(text: str, base: Path) -> WorkloadInfo:
    """Look a workload up: a shipped one by its name, a person's own as `file.py:name`, relative to `base`.

    Raises:
        WorkloadError: there is none, or its declaration cannot be read; one line with file and line.
    """
    file, colon, attribute = text.rpartition(":")
    if colon and file.endswith(".py"):
        return _read_file(file, attribute, base)
    if text.endswith(".py"):
        return _read_file(text, "", base)
    workload = shipped.get(text)
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
    )


def _read_file(file: str, attribute: str, base: Path) -> WorkloadInfo:
    path = base / Path(file).expanduser()
    try:
        content = path.read_bytes()
    except OSError as error:
        raise WorkloadError(f"cannot read the workload's file {path}: {error.strerror}{_near(path)}") from None
    source, declared = read_declaration(content, str(path), attribute)
    return WorkloadInfo(
        name=declared.name or attribute,
        version=None,
        digest="sha256:" + hashlib.sha256(content).hexdigest()[:DIGEST_DIGITS],
        dataset=declared.dataset,
        data_files=declared.data_files,
        defaults=declared.defaults,
        examples=declared.examples,
        held_out=declared.held_out,
        frameworks=declared.frameworks,
        options=declared.options,
        own_loss=declared.own_loss,
        source=source,
        file=str(path),
        attribute=attribute,
    )


def _near(path: Path) -> str:
    here = [found.name for found in path.parent.glob("*.py")] if path.parent.is_dir() else []
    near = get_close_matches(path.name, here, 1)
    return f"; did you mean {near[0]}?" if near and near[0] != path.name else ""


def load_workload(info: WorkloadInfo, folder: Path) -> Workload:
    """The workload itself, in the process that trains it. A person's file is run here, as a module of its own.

    Args:
        info: what `read_reference` found.
        folder: where a copy of a person's file is put; its tracebacks show the lines of that copy.

    Raises:
        WorkloadError: what the file makes is not a `Workload`.
        Exception: whatever the person's file raises.
    """
    if info.source is None:
        return shipped.get(info.name)
    module = _run(info.source, folder / Path(str(info.file)).name, str(info.digest))
    workload = getattr(module, info.attribute, None)
    if not isinstance(workload, Workload):
        raise WorkloadError(f"{info.file}: {info.attribute} is a {type(workload).__name__}, not a raybench.Workload")
    return replace(workload, name=info.name)


def _run(source: str, copy: Path, digest: str) -> ModuleType:
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_text(source, encoding="utf-8")
    linecache.checkcache(str(copy))
    module = ModuleType(f"raybench_workload_{digest.removeprefix('sha256:')}")
    module.__file__ = str(copy)
    sys.modules[module.__name__] = module  # dataclasses and pickles of the file's classes look their module up here
    exec(compile(source, copy, "exec"), module.__dict__)  # noqa: S102 - the person's own code is what a trial is for
    return module
