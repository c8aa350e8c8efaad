"""YAML with the place of every key and value.

A grid file is plain data, with the values of YAML 1.2's core schema (`5e-4` is a number, `yes` is text): no anchors,
aliases and tags.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from raybench.errors import GridFileError, Problem

Path = tuple[str | int, ...]

PLAIN = "anchors (&), aliases (*) and tags (!) are not supported; write the value out, or put text in quotes"
TOO_DEEP = "nested too deeply; use fewer levels"

_INT = re.compile(r"[-+]?[0-9]{1,300}")  # longer ones are as good as infinite
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_IMPOSSIBLE = re.compile("[\0\ud800-\udfff]")
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    ".nan": math.nan,
    ".inf": math.inf,
    "-.inf": -math.inf,
}


@dataclass(frozen=True)
class Place:
    """The place of a value; line and column count from 1, line 0 is the source as a whole."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


@dataclass
class Document:
    """A value and the place of each of its parts, by its path from the top."""

    value: Any
    values: dict[Path, Place]
    keys: dict[Path, Place] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def place(self, path: Path, key: bool = False) -> Place:
        """The place of a value, or of its key; else that of the nearest part around it."""
        if key and path in self.keys:
            return self.keys[path]
        while path not in self.values:
            path = path[:-1]
        return self.values[path]

    def add_problem(self, place: Place, path: Path, message: str) -> None:
        """Add a problem of the value at a path."""
        self.problems.append(Problem(place.file, place.line, place.column, dotted(path), message))

    def put(self, path: Path, value: Any, place: Place) -> None:
        """Put a value, all of which is at one place, at a path whose surroundings exist."""
        for places in (self.keys, self.values):
            for old in [existing for existing in places if existing[: len(path)] == path]:
                del places[old]
        parent = self.value
        for step in path[:-1]:
            parent = parent[step]
        parent[path[-1]] = value
        self.values[path] = place


def dotted(path: Path) -> str:
    """A path as people write it: `exclude[0].device`; a long or unprintable key is shortened or escaped."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{_printable(step)}" for step in path)[1:]


def _printable(key: str) -> str:
    text = key if key.isprintable() else repr(key)
    return text if len(text) <= 60 else f"{text[:59]}…"


def read_yaml(text: str, file: str) -> Document:
    """Read one YAML document from a text; `file` is the name of the text in messages.

    Raises:
        GridFileError: not one plain YAML document. Duplicate keys do not end the reading: they are in the document's
            `problems`.
    """
    loader: Any = None
    document = Document(None, {(): Place(file, 1, 1)})
    try:
        loader = _PlainLoader(text)
        root = loader.get_single_node()
        if root is not None:
            document.value = _value(root, (), document)
    except yaml.YAMLError as error:
        line, column, message = _plain_words(error, text)
    except RecursionError:
        line, column, message = loader.line + 1, loader.column + 1, TOO_DEEP
    except (ValueError, OverflowError):  # chr() of an escape such as "\UFFFFFFFF"
        line, column, message = loader.line + 1, loader.column + 1, "an escape beyond U+10FFFF; correct it"
    else:
        return document
    raise GridFileError([*document.problems, Problem(file, line, column, "", message)]) from None


class _PlainLoader(yaml.SafeLoader):
    """PyYAML's tree of nodes, without anchors, aliases and tags."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if event.anchor or getattr(event, "tag", None):
            raise _NotPlainError(PLAIN, event.start_mark)
        return super().compose_node(parent, index)


class _NotPlainError(yaml.MarkedYAMLError):
    """What YAML allows and a grid file does not; its problem is the whole message."""

    def __init__(self, message: str, mark: Any) -> None:
        super().__init__(problem=message, problem_mark=mark)


def _value(node: Any, path: Path, document: Document) -> Any:
    """The node's value; its places and problems are added to the document."""
    document.values[path] = _place(node, document)
    if isinstance(node, yaml.ScalarNode):
        if match := _IMPOSSIBLE.search(node.value):
            raise _NotPlainError(f"the character U+{ord(match[0]):04X} is not allowed; remove it", node.start_mark)
        return _scalar(node.value) if node.style is None else node.value
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, (*path, index), document) for index, item in enumerate(node.value)]
    pairs: dict[str, Any] = {}
    for name, value in node.value:
        if not isinstance(name, yaml.ScalarNode) or _IMPOSSIBLE.search(name.value):
            raise _NotPlainError("a key must be plain text, such as batch_size", name.start_mark)
        key_path = (*path, name.value)
        if name.value in pairs:
            first = document.keys[key_path].line
            document.add_problem(_place(name, document), key_path, f"appears twice (first on line {first}); remove one")
        else:
            document.keys[key_path] = _place(name, document)
            pairs[name.value] = _value(value, key_path, document)
    return pairs


def _place(node: Any, document: Document) -> Place:
    return Place(document.values[()].file, node.start_mark.line + 1, node.start_mark.column + 1)


def _scalar(text: str) -> Any:
    """A plain scalar's value in YAML 1.2's core schema."""
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


_AT_THE_OPENING = (
    ("could not find expected ':'", "a ':' is missing after this name"),
    ("expected ',' or ']'", "the list opened here with '[' is not closed: ',' or ']' is missing {before}"),
    ("expected ',' or '}'", "the map opened here with '{{' is not closed: ',' or '}}' is missing {before}"),
    ("unexpected end of stream", "the quote opened here is not closed"),
    ("unexpected document separator", "the quote opened here is not closed"),
)
"""Errors that YAML detects late: the problem is where the construct begins."""

_AT_THE_ERROR = (
    ("but found another document", "a second document begins here (---); a grid file is one document"),
    ("mapping values are not allowed", "a ':' is not expected here; check the indentation, or put the value in quotes"),
    ("expected <block end>", "does not match the lines above; check the indentation"),
    ("sequence entries are not allowed", "a '-' is not expected here; begin a list on a line of its own"),
    ("expected the node content, but found '<stream end>'", "ends too early: ',', ']' or '}' is missing"),
    ("expected the node content", "a value is missing here"),
    ("expected alphabetic or numeric", PLAIN),
    ("unknown escape character", "a backslash in double quotes begins an escape; use single quotes"),
    ("cannot start any token", "a value cannot begin with this character; put it in quotes"),
)


def _plain_words(error: yaml.YAMLError, text: str) -> tuple[int, int, str]:
    """Line and column (from 1) of an error, and its message for users who do not know YAML."""
    if isinstance(error, yaml.reader.ReaderError):
        before = text[: error.position]
        column = error.position - before.rfind("\n")
        return before.count("\n") + 1, column, f"the character U+{ord(text[error.position]):04X} is not allowed in YAML"
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return 0, 0, f"not valid YAML: {error}"
    line, column = error.problem_mark.line, error.problem_mark.column
    problem = error.problem or ""
    rows = text.split("\n")
    row = rows[line] if line < len(rows) else ""
    if "\t" in row[: len(row) - len(row.lstrip())]:
        return line + 1, row.index("\t") + 1, "tabs are not allowed for indentation; use spaces"
    if row[column : column + 1] == "\t":
        return line + 1, column + 1, "a tab is not allowed here; use spaces"
    for fragment, template in _AT_THE_OPENING:
        if fragment in problem and (mark := error.context_mark) is not None:
            if rows[mark.line][mark.column : mark.column + 1] == "-":
                template = "a space is missing after '-'"
            before = "in this line" if mark.line == line else f"before line {line + 1}"
            return mark.line + 1, mark.column + 1, template.format(before=before)
    if isinstance(error, _NotPlainError):
        return line + 1, column + 1, problem
    messages = [message for fragment, message in _AT_THE_ERROR if fragment in problem]
    return line + 1, column + 1, messages[0] if messages else f"not valid YAML: {problem}"
