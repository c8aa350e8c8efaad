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

from raybench.core.text import cut
from raybench.errors import GridFileError, Problem

KeyPath = tuple[str | int, ...]

PLAIN = "anchors (&), aliases (*) and tags (!) are not supported; write the value out, or put text in quotes"
MAX_DEPTH = 50

_INT = re.compile(r"[-+]?[0-9]{1,300}")  # longer ones are as good as infinite
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
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
    """The place of a value; line and column count from 1, line 0 is the source as a whole.

    An option of the command line, whose name is `file`, sets one part: the path is not shown.
    """

    file: str
    line: int = 0
    column: int = 0
    is_option: bool = False

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


@dataclass
class Document:
    """A value and the place of each of its parts, by its path from the top."""

    value: Any
    values: dict[KeyPath, Place]
    keys: dict[KeyPath, Place] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def place(self, path: KeyPath, key: bool = False) -> Place:
        """The place of a value, or of its key; else that of the nearest part around it."""
        if key and path in self.keys:
            return self.keys[path]
        while path not in self.values:
            path = path[:-1]
        return self.values[path]

    def add_problem(self, place: Place, path: KeyPath, message: str) -> None:
        """Add a problem of the value at a path."""
        where = "" if place.is_option else dotted(path)
        self.problems.append(Problem(place.file, place.line, place.column, where, message))

    def put(self, path: KeyPath, value: Any, place: Place) -> None:
        """Put a value, all of which is at one place, at a path whose surroundings exist."""
        for places in (self.keys, self.values):
            for old in [existing for existing in places if existing[: len(path)] == path]:
                del places[old]
        parent = self.value
        for step in path[:-1]:
            parent = parent[step]
        parent[path[-1]] = value
        self.values[path] = place


def dotted(path: KeyPath) -> str:
    """A path as people write it: `exclude[0].device`; a long or unprintable key is shortened or escaped."""
    keys = (step if isinstance(step, int) or step.isprintable() else repr(step) for step in path)
    return "".join(f"[{key}]" if isinstance(key, int) else f".{cut(key, 60)}" for key in keys)[1:]


def read_yaml(text: str, file: str) -> Document:
    """Read one YAML document from a text, whose name in messages is `file`; duplicate keys are its `problems`."""
    document = Document(None, {(): Place(file, 1, 1)})
    try:
        _check_plain(text)
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        if root is not None:
            document.value = _value(root, (), document)
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        line, column = before.count("\n"), error.position - before.rfind("\n") - 1
        message = f"the character U+{ord(text[error.position]):04X} is not allowed in YAML"
    except yaml.MarkedYAMLError as error:
        line, column, message = _in_words(error, text)
    except (ValueError, OverflowError, RecursionError) as error:  # such as an escape beyond U+10FFFF
        line, column, message = 0, 0, f"not valid YAML: {error}"
    else:
        return document
    raise GridFileError([*document.problems, Problem(file, line + 1, column + 1, "", message)]) from None


def _check_plain(text: str) -> None:
    """Raise an error for anchors, aliases, tags, and deep nesting, which takes PyYAML minutes."""
    event: Any
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise yaml.MarkedYAMLError(problem=f"nested more than {MAX_DEPTH} deep", problem_mark=event.start_mark)
        if getattr(event, "anchor", None) or getattr(event, "tag", None):
            raise yaml.MarkedYAMLError(problem=PLAIN, problem_mark=event.start_mark)


def _value(node: Any, path: KeyPath, document: Document) -> Any:
    """The node's value; its places and problems are added to the document."""
    document.values[path] = _place(node, document)
    if isinstance(node, yaml.ScalarNode):
        _check_text(node, path, document)
        return scalar(node.value) if node.style is None else node.value
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, (*path, index), document) for index, item in enumerate(node.value)]
    pairs: dict[str, Any] = {}
    for name, value in node.value:
        if not isinstance(name, yaml.ScalarNode):
            raise yaml.MarkedYAMLError(
                problem="a key must be plain text, such as batch_size", problem_mark=name.start_mark
            )
        key_path = (*path, name.value)
        _check_text(name, key_path, document)
        if name.value in pairs:
            first = document.keys[key_path].line
            document.add_problem(_place(name, document), key_path, f"appears twice (first on line {first}); remove one")
        else:
            document.keys[key_path] = _place(name, document)
            pairs[name.value] = _value(value, key_path, document)
    return pairs


def _check_text(node: Any, path: KeyPath, document: Document) -> None:
    if "\0" in node.value or any("\ud800" <= character <= "\udfff" for character in node.value):
        document.add_problem(_place(node, document), path, "has a character that no file or command can have")


def _place(node: Any, document: Document) -> Place:
    return Place(document.values[()].file, node.start_mark.line + 1, node.start_mark.column + 1)


def scalar(text: str) -> Any:
    """A plain scalar's value in YAML 1.2's core schema."""
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def _in_words(error: yaml.MarkedYAMLError, text: str) -> tuple[int, int, str]:
    """Line and column (from 0) of an error, and its message."""
    mark, opening = error.problem_mark, error.context_mark
    if mark is None:
        return 0, 0, f"not valid YAML: {error}"
    rows = [*text.splitlines(), ""]
    tab = rows[mark.line][: mark.column + 1].find("\t")
    if tab >= 0:
        return mark.line, tab, "a tab is not allowed here; use spaces"
    if type(error) is yaml.MarkedYAMLError:  # raised here
        return mark.line, mark.column, error.problem or ""
    if "escape" in (error.problem or ""):
        return mark.line, mark.column, "a backslash in double quotes begins an escape; write patterns in single quotes"
    message = f"not valid YAML: {', '.join(filter(None, (error.context, error.problem)))} in line {mark.line + 1}"
    # What is not closed is detected late: the problem is where it begins.
    begin = opening if opening and re.search("flow|quoted|key", error.context or "") else mark
    return begin.line, begin.column, f"{message}; check indentation, brackets and quotes"
