"""YAML with the place of every key and value.

The values are those of YAML 1.2's core schema (`5e-4` is a number, `yes` is text), the structure is read from PyYAML's
event stream. No tags, no merge keys, bounded depth and bounded aliases: a grid file is plain data.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from raybench.errors import GridFileError, Problem
from raybench.spec.syntax import plain_words

Path = tuple[str | int, ...]

MAX_DEPTH = 50
MAX_ALIASED = 10_000
"""Values that aliases may stand for, all together."""

_INT = re.compile(r"[-+]?[0-9]{1,300}|0o[0-7]{1,300}|0x[0-9a-fA-F]{1,250}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INFINITE = re.compile(r"([-+]?)\.(inf|Inf|INF)")
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
}


@dataclass(frozen=True)
class Place:
    """Where something stands; line and column count from 1, line 0 is the source as a whole."""

    file: str
    line: int = 0
    column: int = 0


@dataclass
class Document:
    """A value and where each part of it stands, by its path from the top."""

    value: Any
    keys: dict[Path, Place] = field(default_factory=dict)
    values: dict[Path, Place] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def place(self, path: Path, key: bool = False) -> Place:
        """The place of a value, or of its key; of the nearest part around it where it stands nowhere itself."""
        if key and path in self.keys:
            return self.keys[path]
        while path not in self.values:
            path = path[:-1]
        return self.values[path]

    def put(self, path: Path, part: Document) -> None:
        """Put another document's value at a path whose surroundings are there."""
        for places in (self.keys, self.values):
            for old in [known for known in places if known[: len(path)] == path]:
                del places[old]
        parent = self.value
        for step in path[:-1]:
            parent = parent[step]
        parent[path[-1]] = part.value
        self.keys[path] = part.values[()]
        self.keys |= {path + below: place for below, place in part.keys.items()}
        self.values |= {path + below: place for below, place in part.values.items()}
        self.problems += part.problems


def dotted(path: Path) -> str:
    """A path as people write it: `exclude[0].device`; of a long or unprintable key, what a terminal can bear."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{_printable(step)}" for step in path)[1:]


def _printable(key: str) -> str:
    shown = key if key.isprintable() else repr(key)
    return shown if len(shown) <= 60 else f"{shown[:59]}…"


def read_yaml(text: str, file: str, lines: bool = True) -> Document:
    """Read one YAML document.

    Args:
        text: the document.
        file: what its places are called.
        lines: whether places have lines; they mean nothing where the text is part of a command.

    Raises:
        GridFileError: not one plain YAML document. Duplicate and merge keys do not end the reading: they stand in the
            document's `problems`.
    """
    return _Reader(text, file, lines).document()


@dataclass
class _Node:
    place: Place
    content: Any
    """A scalar's value, a list of nodes, or a dict from key to (the key's place, node)."""


class _Reader:
    def __init__(self, text: str, file: str, lines: bool) -> None:
        self._text, self._file, self._lines = text, file, lines
        self._events: Iterator[Any] = yaml.parse(text, Loader=yaml.SafeLoader)
        self._anchors: dict[str, _Node | None] = {}
        self._aliased = 0
        self._alias_at: Place | None = None
        self._result = Document(None)

    def document(self) -> Document:
        try:
            root = self._root()
        except yaml.YAMLError as error:
            line, column, message = plain_words(error, self._text)
            raise self._fatal(self._at(line, column), (), message) from None
        self._result.value = self._expand(root, ())
        return self._result

    def _root(self) -> _Node:
        next(self._events)  # the stream's start
        if isinstance(next(self._events), yaml.StreamEndEvent):
            return _Node(self._at(1, 1), None)
        root = self._node(next(self._events), ())
        next(self._events)  # the document's end
        after = next(self._events)
        if not isinstance(after, yaml.StreamEndEvent):
            raise self._fatal(self._mark(after), (), "a second document begins here (---); a grid file is one document")
        return root

    def _node(self, event: Any, path: Path) -> _Node:
        """Reads one node; the event that begins it has been taken."""
        place = self._mark(event)
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, place, path)
        if event.tag is not None:
            tag = event.tag.replace("tag:yaml.org,2002:", "!!")
            raise self._fatal(place, path, f"tags such as {_printable(tag)} are not supported; write the plain value")
        if len(path) > MAX_DEPTH:
            raise self._fatal(place, (), f"nested more than {MAX_DEPTH} deep")
        if event.anchor:
            self._anchors[event.anchor] = None
        node = _Node(place, None)
        if isinstance(event, yaml.ScalarEvent):
            node.content = _scalar(event.value) if event.implicit[0] else event.value
        elif isinstance(event, yaml.SequenceStartEvent):
            node.content = self._items(path)
        else:
            node.content = self._pairs(path)
        if event.anchor:
            self._anchors[event.anchor] = node
        return node

    def _alias(self, event: Any, place: Place, path: Path) -> _Node:
        name = event.anchor
        node = self._anchors.get(name)
        if node is None:
            why = "stands inside what it refers to" if name in self._anchors else "refers to no anchor above it"
            raise self._fatal(place, path, f"the alias *{name[:60]} {why}")
        return _Node(place, node)

    def _items(self, path: Path) -> list[_Node]:
        items: list[_Node] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._node(event, (*path, len(items))))
        return items

    def _pairs(self, path: Path) -> dict[str, tuple[Place, _Node]]:
        pairs: dict[str, tuple[Place, _Node]] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            place = self._mark(event)
            if not isinstance(event, yaml.ScalarEvent) or event.tag is not None:
                raise self._fatal(place, path, "a key must be plain text, such as batch_size")
            key, node = event.value, self._node(next(self._events), (*path, event.value))
            if key == "<<":
                self._problem(place, path, "merge keys (<<) are not supported; write the lines out")
            elif key in pairs:
                first = f" (first on line {pairs[key][0].line})" if self._lines else ""
                self._problem(place, (*path, key), f"said twice{first}; keep one")
            else:
                pairs[key] = (place, node)
        return pairs

    def _expand(self, node: _Node, path: Path) -> Any:
        """The node's value, aliases written out, with its places noted."""
        if len(path) > MAX_DEPTH:
            raise self._fatal(node.place, (), f"nested more than {MAX_DEPTH} deep")
        self._result.values[path] = node.place
        content = node.content
        if isinstance(content, _Node):
            outer, self._alias_at = self._alias_at, self._alias_at or node.place
            value = self._expand(content, path)
            self._alias_at = outer
            self._result.values[path] = node.place
            return value
        self._aliased += self._alias_at is not None
        if self._alias_at and self._aliased > MAX_ALIASED:
            raise self._fatal(self._alias_at, (), f"aliases stand for more than {MAX_ALIASED:,} values; write them out")
        if isinstance(content, list):
            return [self._expand(item, (*path, index)) for index, item in enumerate(content)]
        if isinstance(content, dict):
            for key, (place, _) in content.items():
                self._result.keys[(*path, key)] = place
            return {key: self._expand(item, (*path, key)) for key, (_, item) in content.items()}
        return content

    def _mark(self, event: Any) -> Place:
        return self._at(event.start_mark.line + 1, event.start_mark.column + 1)

    def _at(self, line: int, column: int) -> Place:
        return Place(self._file, line, column) if self._lines else Place(self._file)

    def _problem(self, place: Place, path: Path, message: str) -> Problem:
        problem = Problem(place.file, place.line, place.column, dotted(path), message)
        self._result.problems.append(problem)
        return problem

    def _fatal(self, place: Place, path: Path, message: str) -> GridFileError:
        self._problem(place, path, message)
        return GridFileError(self._result.problems)


def _scalar(text: str) -> Any:
    """A plain scalar's value in YAML 1.2's core schema; a whole number of over 300 digits is as good as infinite."""
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
    if _FLOAT.fullmatch(text):
        return float(text)
    if infinite := _INFINITE.fullmatch(text):
        return float(f"{infinite[1]}inf")
    return text
