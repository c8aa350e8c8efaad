"""The user's own command: its placeholders, and the files that it names; nothing is run."""

from __future__ import annotations

import ast
import json
import operator
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Self

from raybench.core.settings import PARAM
from raybench.errors import WorkloadError, near_file

ARGS, SETTINGS_FILE = "args", "settings_file"
"""Placeholders for all values: as arguments, and as the path of a JSON file."""

OF_NODES = ("nodes", "node_rank", "master_addr", "master_port")  # placeholders of a command that runs on several nodes

SPECIAL = ("count", *OF_NODES, "seed", "device", "threads", "framework", "data_dir", "output_dir", ARGS, SETTINGS_FILE)
"""Placeholders that every trial has a value for."""

BY_TRIAL = frozenset({"epochs", "steps_per_epoch"})
"""Settings that `raybench.current_trial()` applies, so that they are not arguments."""

MARKS = BEGIN, EPOCH = "begin", "epoch"
"""The names, among the metrics, of the patterns of lines that begin the training, or each epoch, and that end one."""

_ARITHMETIC = re.compile(r"[\d\s.eE+*/()-]+")

_PLACEHOLDER = re.compile(r"\{\{([A-Za-z_][\w.]*)\}\}|\{([A-Za-z_][\w.]*)\}")
_FORMATTED = re.compile(r"\{([A-Za-z_][\w.]*)[:!][^{}]*\}")
_SCRIPTS = (".py", ".sh")
_CONFIGURATIONS = (".yaml", ".yml", ".toml", ".json", ".ini", ".cfg")


@dataclass(frozen=True)
class Command:
    """A command of the user, as plain values for other processes.

    Attributes:
        arguments: the program and its arguments, with placeholders such as `{batch_size}`.
        env: environment variables, with placeholders.
        metrics: by name of a metric or a mark (`MARKS`), the pattern whose first group is its value.
        time: the metric with the seconds of an epoch by the program's own clock; empty to time its output.
        work: by unit, the work of an epoch: arithmetic with placeholders, or a pattern.
        reports: whether a script of it uses `raybench.current_trial()`.
        given: settings that the grid gives; a cell omits some of them if they are at their defaults.
    """

    arguments: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, str] = field(default_factory=dict)
    time: str = ""
    work: Mapping[str, str] = field(default_factory=dict)
    reports: bool = False
    given: tuple[str, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts that may have placeholders."""
        return (*self.arguments, *self.env.values())

    @property
    def names(self) -> frozenset[str]:
        """The names of its placeholders."""
        return frozenset(name for text in self.texts for name in placeholders(text))

    @property
    def takes_all(self) -> bool:
        """Return whether it has a placeholder for all values."""
        return not self.names.isdisjoint((ARGS, SETTINGS_FILE))

    @property
    def clock(self) -> str:
        """What times its epochs: the `trial` of a script, the `program`, or its `output`."""
        return "trial" if self.reports else "program" if self.time else "output"

    @property
    def metric_names(self) -> tuple[str, ...]:
        """The metrics that it is to print; empty if they are not known."""
        return tuple(name for name in self.metrics if name not in (*MARKS, self.time))

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read the plain values of a command."""
        lists = {name: tuple(value[name]) for name in ("arguments", "given")}
        return cls(**{**value, **lists})

    def identity(self) -> str:
        """The parts that change results, as text."""
        return json.dumps({name: value for name, value in asdict(self).items() if name not in ("reports", "given")})


def arithmetic(text: str, values: Mapping[str, Any] | None = None) -> float | None:
    """The value of an expression of numbers, placeholders and `+ - * / ( )`; None if the text is something else.

    Args:
        values: of its placeholders; None to take each as 1.
    """
    written = fill(text, dict.fromkeys(placeholders(text), 1) if values is None else values)
    if not _ARITHMETIC.fullmatch(written):
        return None
    try:
        return _calculated(ast.parse(written.strip(), mode="eval").body)
    except (SyntaxError, KeyError, ArithmeticError):
        return None


_OPERATORS: Mapping[type, Callable[..., float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.USub: operator.neg,
}


def _calculated(node: Any) -> float:
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return float(node.value)
    if isinstance(node, ast.UnaryOp):
        return _OPERATORS[type(node.op)](_calculated(node.operand))
    if isinstance(node, ast.BinOp):
        return _OPERATORS[type(node.op)](_calculated(node.left), _calculated(node.right))
    raise KeyError(type(node))


def placeholders(text: str) -> Iterator[str]:
    """Yield the names in braces; `{{name}}` is none, and neither are other braces, such as those of a program."""
    yield from (match[2].removeprefix(PARAM) for match in _PLACEHOLDER.finditer(text) if match[2])


def formatted_placeholders(text: str) -> Iterator[str]:
    """Yield the names in braces that have a format, such as `{batch_size:03d}`, which is not supported."""
    yield from (match[1].removeprefix(PARAM) for match in _FORMATTED.finditer(text))


def fill(text: str, values: Mapping[str, Any]) -> str:
    """Put values in the place of names in braces."""

    def value_of(match: re.Match[str]) -> str:
        return f"{{{match[1]}}}" if match[1] else text_of(values[match[2].removeprefix(PARAM)])

    return _PLACEHOLDER.sub(value_of, text)


def text_of(value: Any) -> str:
    """A value as an argument: a text as it is, anything else as in JSON."""
    return value if isinstance(value, str) else json.dumps(value)


def filled(command: Command, values: Mapping[str, Any], source: str = "") -> list[str]:
    """The command with values; `{args}` becomes `--name=value` for each that it does not name itself.

    Args:
        values: by name; those of `ARGS` are a map.
        source: the text of the command's scripts: an option that is written there with dashes only is passed so.
    """

    def option(name: str) -> str:
        dashed = name.replace("_", "-")
        return dashed if re.search(rf"--{dashed}\b", source) and not re.search(rf"--{name}\b", source) else name

    arguments = []
    for text in command.arguments:
        if list(placeholders(text)) == [ARGS]:
            arguments += [f"--{option(name)}={text_of(value)}" for name, value in values[ARGS].items()]
        else:
            arguments.append(fill(text, values))
    return arguments


def named_files(arguments: Sequence[str], folder: Path) -> list[Path]:
    """The user's files that a command names: scripts, and programs and configurations below the folder where it runs.

    Other files, such as data and what the program writes, do not count.

    Raises:
        WorkloadError: a script is missing.
    """
    files = []
    for option, word in zip(("", *arguments), arguments, strict=False):
        module = word.replace(".", "/") if option in ("-m", "--module") else ""
        names = [f"{module}.py", f"{module}/__main__.py"] if module else [word, *re.split(r"[\s=]+", word)]
        scripts = [folder / name for name in dict.fromkeys(names) if name and _is_own_file(folder / name, folder)]
        files += scripts
        is_script = PurePosixPath(word).suffix in _SCRIPTS and not re.match(r"-|.*[\s{]", word)
        if is_script and not scripts and not module:
            raise WorkloadError(f"there is no {word} in {folder}{near_file(PurePosixPath(word), folder)}")
    return list(dict.fromkeys(files))


def _is_own_file(path: Path, folder: Path) -> bool:
    with suppress(OSError):  # the name is too long
        if path.suffix not in _SCRIPTS and not path.resolve().is_relative_to(folder.resolve()):
            return False
        return path.is_file() and (path.suffix in _SCRIPTS + _CONFIGURATIONS or os.access(path, os.X_OK))
    return False


def uses_trial(content: bytes) -> bool:
    """Return whether a Python file uses `raybench.current_trial`."""
    return re.search(rb"^[^#\n]*\bcurrent_trial\b", content, re.MULTILINE) is not None
