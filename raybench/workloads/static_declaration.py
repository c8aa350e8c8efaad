"""Static reading of a user's workload file.

The plan needs only values that are literals in the file.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any, NoReturn

from raybench import datasets
from raybench.errors import DataError, WorkloadError, nearest
from raybench.workloads.base import PARITY_TOLERANCE, Workload
from raybench.workloads.own_files import parse
from raybench.workloads.static_function import functions_in

FIELDS = tuple(field.name for field in fields(Workload))
SPLITS = ("train", "val")
_IMPOSSIBLE = re.compile("[\0\ud800-\udfff]")


@dataclass(frozen=True)
class Declaration:
    """The literal part of `my_workload = Workload(...)`."""

    frameworks: tuple[str, ...]
    name: str
    dataset: str | None
    data_files: tuple[str, ...]
    defaults: Mapping[str, Any]
    examples: Mapping[str, int]
    held_out: int
    options: Mapping[str, Any]
    own_loss: bool
    metric_names: tuple[str, ...]
    parity_tolerance: Mapping[str, float]


def read_declaration(content: bytes, file: str, attribute: str) -> Declaration:
    """Read the declaration of `attribute` in a file, without running it.

    Args:
        content: the file's bytes.
        file: its path, for messages.
        attribute: the variable that holds the workload.

    Raises:
        WorkloadError: one line, with the file and the line of the error.
    """
    _, tree = parse(content, file)
    assignments = _assignments(tree)
    workloads = [name for name, value in assignments.items() if _is_workload(value)]
    if attribute not in assignments:
        workloads += functions_in(content, file)
        matches = get_close_matches(attribute, workloads, 1)
        hint = f"did you mean {matches[0]}?" if matches else f"the file has {', '.join(workloads) or 'no workload'}"
        problem = f"no top-level {attribute!r} in it" if attribute else "name the workload in the file: file.py:name"
        raise WorkloadError(f"{file}: {problem}; {hint}")
    call = assignments[attribute]
    if not _is_workload(call):
        location = f"{file}:{call.lineno}"
        raise WorkloadError(
            f"{location}: write `{attribute} = Workload(...)` or `def {attribute}(trial, *, …)` here; "
            "the plan reads the file without running it"
        )
    assert isinstance(call, ast.Call)
    return _Reader(file, call).declaration()


def _assignments(tree: ast.Module) -> dict[str, ast.expr]:
    """The last assignment to each top-level name."""
    values: dict[str, ast.expr] = {}
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        value = getattr(node, "value", None)
        values |= {target.id: value for target in targets if isinstance(target, ast.Name) and value is not None}
    return values


def _is_workload(value: ast.expr) -> bool:
    called = value.func if isinstance(value, ast.Call) else None
    name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else None
    return name == Workload.__name__


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


class _Reader:
    """Reads the arguments of one `Workload(...)`."""

    def __init__(self, file: str, call: ast.Call) -> None:
        self._file, self._call = file, call
        if any(isinstance(arg, ast.Starred) for arg in call.args) or any(kw.arg is None for kw in call.keywords):
            self._fail(call, "write the arguments of Workload out; the plan cannot read * and **")
        self._given = dict(zip(FIELDS, call.args, strict=False))
        for kw in call.keywords:
            name = str(kw.arg)
            if name not in FIELDS:
                match = get_close_matches(name, FIELDS, 1)
                self._fail(
                    kw.value, f"Workload has no parameter {name!r}" + (f"; did you mean {match[0]}?" if match else "")
                )
            self._given[name] = kw.value
        self._given = {name: node for name, node in self._given.items() if not _is_none(node)}

    def _fail(self, node: ast.expr, message: str) -> NoReturn:
        raise WorkloadError(f"{self._file}:{node.lineno}: {message}")

    def declaration(self) -> Declaration:
        arguments = self._given
        if "model" not in arguments:
            self._fail(self._call, "Workload needs a model")
        if ("dataset" in arguments) == ("data" in arguments):
            self._fail(self._call, "Workload needs either a dataset or a data function")
        self._read("version", "an integer", int)
        return Declaration(
            frameworks=self._frameworks(arguments["model"]),
            name=self._read("name", "text", str) or "",
            dataset=self._dataset(),
            data_files=self._data_files(),
            defaults=self._defaults(),
            examples=self._examples(),
            held_out=self._held_out(),
            options=self._options(),
            own_loss="loss" in arguments,
            metric_names=self._metric_names(),
            parity_tolerance=self._parity_tolerance(),
        )

    def _read(self, name: str, expected: str, *kinds: type) -> Any:
        """The literal value of an argument, of one of these types; None if missing."""
        node = self._given.get(name)
        if node is None:
            return None
        try:
            value = ast.literal_eval(node)
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            self._fail(node, f"{name} must be a literal ({expected}); the plan reads the file without running it")
        texts = [child.value for child in ast.walk(node) if isinstance(child, ast.Constant)]
        if any(isinstance(text, str) and _IMPOSSIBLE.search(text) for text in texts):
            self._fail(node, f"{name} has an invalid character, U+0000 or a lone surrogate; remove it")
        if not isinstance(value, kinds) or isinstance(value, bool):
            self._fail(node, f"{name} must be {expected}, not {value!r:.60}")
        return value

    def _dataset(self) -> str | None:
        name = self._read("dataset", "a data set's name", str)
        try:
            return datasets.get(name).name if name is not None else None
        except DataError as error:
            self._fail(self._given["dataset"], str(error))

    def _data_files(self) -> tuple[str, ...]:
        files = self._read("data_files", "a list of paths", list, tuple) or ()
        if not all(isinstance(path, str) for path in files):
            self._fail(self._given["data_files"], f"data_files must be a list of paths, not {files!r:.60}")
        return tuple(files)

    def _defaults(self) -> dict[str, Any]:
        defaults: dict[str, Any] = self._read("defaults", "a dictionary of settings", dict) or {}
        if not all(isinstance(name, str) for name in defaults):
            self._fail(self._given["defaults"], "the keys of defaults must be names of settings")
        return defaults

    def _metric_names(self) -> tuple[str, ...]:
        """The metrics except the loss; empty if known only in a trial."""
        names = self._read("metric_names", "a list of names", list, tuple)
        if names is None:
            return () if "metrics" in self._given else ("accuracy",)
        if not all(isinstance(name, str) for name in names):
            self._fail(self._given["metric_names"], f"metric_names must be a list of names, not {names!r:.60}")
        return tuple(names)

    def _options(self) -> dict[str, Any]:
        options: dict[str, Any] = self._read("options", "a dictionary of the model's options", dict) or {}
        for name, default in options.items():
            if not isinstance(name, str) or not isinstance(default, (bool, int, float, str)):
                expected = "options must map names to a default: a number, a string, True or False"
                self._fail(self._given["options"], f"{expected}, not {name!r}: {default!r:.40}")
        return options

    def _examples(self) -> dict[str, int]:
        examples: dict[str, int] = self._read("examples", 'a dictionary such as {"train": 1000}', dict) or {}
        for split, count in examples.items():
            if split not in SPLITS or type(count) is not int or count < 1:
                expected = "examples must map train, val or both to an integer of at least 1"
                self._fail(self._given["examples"], f"{expected}, not {split!r}: {count!r:.40}")
        return examples

    def _parity_tolerance(self) -> dict[str, float]:
        limits: dict[str, float] = self._read("parity_tolerance", 'a dictionary such as {"losses": 0.01}', dict) or {}
        for name, value in limits.items():
            if name not in PARITY_TOLERANCE:
                message = f"parity_tolerance has no key {name!r}; {nearest(str(name), PARITY_TOLERANCE)}"
                self._fail(self._given["parity_tolerance"], message)
            if type(value) not in (int, float) or value < 0:
                message = f"parity_tolerance must map names to numbers of at least 0, not {name!r}: {value!r:.40}"
                self._fail(self._given["parity_tolerance"], message)
        return limits

    def _held_out(self) -> int:
        held_out: int = self._read("held_out", "an integer", int) or 0
        if held_out < 0:
            self._fail(self._given["held_out"], f"held_out must be at least 0, not {held_out}")
        return held_out

    def _frameworks(self, model: ast.expr) -> tuple[str, ...]:
        """The keys of `{"torch": …}`; any other expression is a torch model."""
        if not isinstance(model, ast.Dict):
            return ("torch",)
        keys = [key.value if isinstance(key, ast.Constant) else None for key in model.keys]
        if not keys or not all(isinstance(key, str) for key in keys):
            self._fail(model, 'the keys of model must be names of frameworks, such as {"torch": …}')
        return tuple(str(key) for key in keys)
