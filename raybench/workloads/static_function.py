"""Static reading of a user's training function: its parameters, from the text of the file."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from raybench.core.settings import TRAINING
from raybench.errors import WorkloadError
from raybench.workloads.own_files import parse

SETTINGS = frozenset(TRAINING) - {"model"} | {"framework", "threads"}
"""Settings that a function receives in a parameter of their name; any other parameter is one of `params`."""

_TYPES: Mapping[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "bool": (bool,), "str": (str,)}
_WORDS = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "a text"}


@dataclass(frozen=True)
class Parameter:
    """A keyword parameter of a training function.

    Attributes:
        line: in its file.
        type: `int`, `float`, `bool` or `str`; empty if any value is possible.
        required: whether it has no default.
        default: its value; None too if it is not written out in the file.
        known: whether the default is written out.
    """

    line: int
    type: str = ""
    required: bool = True
    default: Any = None
    known: bool = False

    def problem(self, value: Any) -> str | None:
        """Why a value is not of its type, or None."""
        if not self.type or type(value) in _TYPES[self.type]:
            return None
        if value is None and not self.required and self.default is None:
            return None
        return f"wanted {_WORDS[self.type]}, not {value!r:.60}"

    def converted(self, value: Any) -> Any:
        """A value in its type: a whole number becomes a float."""
        return float(value) if self.type == "float" and type(value) is int else value


@dataclass(frozen=True)
class TrainingFunction:
    """A training function as written in a file.

    Attributes:
        line: of its `def`.
    """

    name: str
    line: int
    parameters: Mapping[str, Parameter]


def functions_in(content: bytes, file: str) -> dict[str, int]:
    """The top-level functions whose first parameter is `trial`, with their lines."""
    _, tree = parse(content, file)
    return {node.name: node.lineno for node in tree.body if isinstance(node, _Function) and _first(node) == "trial"}


def is_function(content: bytes, file: str, name: str) -> bool:
    """Return whether the last top-level definition of a name in a file is a function.

    Raises:
        WorkloadError: the file is not valid Python.
    """
    return _definition(parse(content, file)[1], name) is not None


def read_function(content: bytes, file: str, name: str) -> TrainingFunction:
    """Read a training function without running it.

    Raises:
        WorkloadError: it is none; one line per problem, with file and line.
    """
    _, tree = parse(content, file)
    node = _definition(tree, name)
    assert node is not None, "`is_function` comes first"
    return _Reader(file, tree, node).function()


_Function = ast.FunctionDef | ast.AsyncFunctionDef


def _first(node: Any) -> str | None:
    arguments = [*node.args.posonlyargs, *node.args.args]
    return arguments[0].arg if arguments else None


def _definition(tree: ast.Module, name: str) -> _Function | None:
    """The function that a top-level name stands for; None if it is assigned later, or no function."""
    result: _Function | None = None
    for node in tree.body:
        if isinstance(node, _Function) and node.name == name:
            result = node
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                result = None
    return result


class _Reader:
    """Reads one function."""

    def __init__(self, file: str, tree: ast.Module, node: _Function) -> None:
        self._file, self._tree, self._node = file, tree, node
        self._problems: list[str] = []

    def _report(self, node: ast.AST, message: str) -> None:
        self._problems.append(f"{self._file}:{getattr(node, 'lineno', 1)}: {message}")

    def _fail(self, node: ast.AST, message: str) -> NoReturn:
        self._report(node, message)
        raise WorkloadError("\n".join(self._problems))

    def function(self) -> TrainingFunction:
        node, arguments = self._node, self._node.args
        if isinstance(node, ast.AsyncFunctionDef) or any(isinstance(each, _YIELDS) for each in _own_nodes(node)):
            self._fail(node, f"{node.name} does not run when it is called: write it without async and yield")
        example = f"write def {node.name}(trial, *, batch_size: int, …)"
        if _first(node) is None:
            self._fail(node, f"the first parameter of {node.name} is the trial: {example}")
        if arguments.vararg:
            self._report(arguments.vararg, f"*{arguments.vararg.arg} hides the parameters from the plan: {example}")
        if arguments.kwarg:
            self._report(arguments.kwarg, f"**{arguments.kwarg.arg} hides the parameters from the plan: {example}")
        self._check_import()
        positional = [*arguments.posonlyargs, *arguments.args]
        defaults: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults)) + arguments.defaults
        entries = list(zip(positional, defaults, strict=True))[1:]
        for argument in arguments.posonlyargs[1:]:
            self._report(argument, f"{argument.arg} is passed by its name: remove the / after it")
        entries += zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        used = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        if any(_gives_all_names(each) for each in _own_nodes(node)):
            used.update(argument.arg for argument, _ in entries)
        parameters = {argument.arg: self._parameter(argument, default, used) for argument, default in entries}
        if self._problems:
            raise WorkloadError("\n".join(self._problems))
        return TrainingFunction(node.name, node.lineno, parameters)

    def _parameter(self, argument: ast.arg, default: ast.expr | None, used: set[str]) -> Parameter:
        name = argument.arg
        if name in ("device", "seed"):
            self._report(argument, f"{name} is no parameter: use trial.{name}")
        elif name not in used:
            message = f"{name} is a parameter of {self._node.name}, which does not use it: it would change no result"
            self._report(argument, message)
        known, value = default is not None, None
        if default is not None:
            try:
                value = ast.literal_eval(default)
            except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
                known = False
        kind = _annotated(argument.annotation) or (type(value).__name__ if type(value).__name__ in _TYPES else "")
        parameter = Parameter(argument.lineno, kind, default is None, value, known)
        if known and (problem := parameter.problem(value)):
            self._report(argument, f"the default of {name}: {problem}")
        return parameter

    def _check_import(self) -> None:
        """Check that an import of the file reads no command line."""
        for node in self._tree.body:
            if isinstance(node, (*_DEFINITIONS, ast.If)) and not (isinstance(node, ast.If) and not _is_main(node)):
                continue
            for each in ast.walk(node):
                called = each.func.attr if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) else ""
                if called in ("parse_args", "parse_known_args"):
                    guard = 'if __name__ == "__main__":'
                    self._report(
                        each, f"{called}() reads the command line when the file is imported; put it under {guard}"
                    )


_YIELDS = (ast.Yield, ast.YieldFrom)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function without those of functions in it."""
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, (*_DEFINITIONS, ast.Lambda)):
            yield child
            yield from _own_nodes(child)


def _gives_all_names(node: ast.AST) -> bool:
    """Return whether an expression is `locals()` or `vars()`, which have the parameters of their function."""
    called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
    return called == "locals" or (called == "vars" and isinstance(node, ast.Call) and not node.args)


def _is_main(node: ast.If) -> bool:
    return any(isinstance(each, ast.Name) and each.id == "__name__" for each in ast.walk(node.test))


def _annotated(annotation: ast.expr | None) -> str:
    """The type that an annotation names, alone or with None; empty for any other."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            annotation = ast.parse(annotation.value, mode="eval").body
        except SyntaxError:
            return ""
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        kinds = [side for side in (annotation.left, annotation.right) if not _is_none(side)]
        return _annotated(kinds[0]) if len(kinds) == 1 else ""
    return annotation.id if isinstance(annotation, ast.Name) and annotation.id in _TYPES else ""


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
