"""YAML with the place of every key and value.

The structure is PyYAML's tree of nodes, the values are those of YAML 1.2's core schema (`5e-4` is a number, `yes` is
text). No tags, no merge keys, bounded depth and bounded aliases: a grid file is plain data.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from raybench.config.yaml_errors import MAX_DEPTH, TOO_DEEP, plain_words
from raybench.errors import GridFileError, Problem

Path = tuple[str | int, ...]

MAX_ALIASED = 10_000
"""Values that aliases may stand for, all together."""

_INT = re.compile(r"[-+]?[0-9]{1,300}|0o[0-7]{1,300}|0x[0-9a-fA-F]{1,250}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INFINITE = re.compile(r"([-+]?)\.(inf|Inf|INF)")
_IMPOSSIBLE = re.compile("[\0\ud800-\udfff]")
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
            for old in [existing for existing in places if existing[: len(path)] == path]:
                del places[old]
        parent = self.value
        for step in path[:-1]:
            parent = parent[step]
        parent[path[-1]] = part.value
        self.keys[path] = part.values[()]
        self.keys |= {path + subpath: place for subpath, place in part.keys.items()}
        self.values |= {path + subpath: place for subpath, place in part.values.items()}
        self.problems += part.problems


def dotted(path: Path) -> str:
    """A path as people write it: `exclude[0].device`; of a long or unprintable key, what a terminal can bear."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{_printable(step)}" for step in path)[1:]


def _printable(key: str) -> str:
    text = key if key.isprintable() else repr(key)
    return text if len(text) <= 60 else f"{text[:59]}…"


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


class _Alias(yaml.Node):
    """An alias: its name as the tag, the node that it stands for, or None, as the value."""


class _Composer(yaml.SafeLoader):
    """PyYAML's tree of nodes, in which aliases and tags stay visible."""

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        mark = event.start_mark
        if self.check_event(yaml.AliasEvent):
            self.get_event()  # type: ignore[no-untyped-call]
            return _Alias(event.anchor, self.anchors.get(event.anchor), mark, mark)
        if self._depth > MAX_DEPTH:
            raise yaml.composer.ComposerError(None, None, TOO_DEEP, mark)
        self.anchors.pop(event.anchor, None)  # an anchor may be set again; PyYAML refuses it
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        if node is not None:
            node.tag = event.tag or ""  # not what PyYAML makes of a value without one
        return node


class _Reader:
    def __init__(self, text: str, file: str, lines: bool) -> None:
        self._text, self._file, self._lines = text, file, lines
        self._aliased = 0
        self._alias: Place | None = None
        """The outermost alias that is being expanded."""
        self._result = Document(None)

    def document(self) -> Document:
        loader: Any = None
        try:
            loader = _Composer(self._text)
            root = loader.get_single_node()
        except yaml.YAMLError as error:
            line, column, message = plain_words(error, self._text)
            raise self._fatal(self._at(line, column), (), message) from None
        except (ValueError, OverflowError):  # chr() of an escape such as "\UFFFFFFFF"
            place = self._at(loader.line + 1, loader.column + 1)
            raise self._fatal(place, (), "an escape beyond U+10FFFF, the last character; correct it") from None
        self._result.values[()] = self._at(1, 1)
        if root is not None:
            self._result.value = self._value(root, ())
        return self._result

    def _value(self, node: Any, path: Path) -> Any:
        """The node's value, aliases written out, with its places noted."""
        place = self._mark(node)
        if isinstance(node, _Alias):
            return self._expand(node, place, path)
        if node.tag:
            tag = node.tag.replace("tag:yaml.org,2002:", "!!")
            raise self._fatal(place, path, f"tags such as {_printable(tag)} are not supported; write the plain value")
        if len(path) > MAX_DEPTH:
            raise self._fatal(place, (), TOO_DEEP)
        self._aliased += self._alias is not None
        if self._alias and self._aliased > MAX_ALIASED:
            raise self._fatal(self._alias, (), f"aliases expand to more than {MAX_ALIASED:,} values; write them out")
        self._result.values[path] = place
        if isinstance(node, yaml.ScalarNode):
            text = self._text_of(node, path)
            return _scalar(text) if node.style is None else text
        if isinstance(node, yaml.SequenceNode):
            return [self._value(item, (*path, index)) for index, item in enumerate(node.value)]
        return self._pairs(node, path)

    def _expand(self, alias: _Alias, place: Place, path: Path) -> Any:
        target: Any = alias.value
        if target is None:
            raise self._fatal(place, path, f"the alias *{alias.tag[:60]} has no anchor above it; write the value out")
        if isinstance(target, yaml.CollectionNode) and target.end_mark.index > alias.start_mark.index:
            raise self._fatal(place, path, f"the alias *{alias.tag[:60]} refers to itself; write the value out")
        outermost, self._alias = self._alias, self._alias or place
        value = self._value(target, path)
        self._alias = outermost
        self._result.values[path] = place
        return value

    def _pairs(self, node: Any, path: Path) -> dict[str, Any]:
        pairs: dict[str, Any] = {}
        for name, value in node.value:
            place = self._mark(name)
            if not isinstance(name, yaml.ScalarNode) or name.tag:
                raise self._fatal(place, path, "a key must be plain text, such as batch_size")
            key = self._text_of(name, path)
            key_path = (*path, key)
            if key == "<<":
                self._problem(place, path, "merge keys (<<) are not supported; write the lines out")
            elif key in pairs:
                note = f" (first on line {self._result.keys[key_path].line})" if self._lines else ""
                self._problem(place, key_path, f"appears twice{note}; remove one")
            else:
                self._result.keys[key_path] = place
                pairs[key] = self._value(value, key_path)
        return pairs

    def _text_of(self, node: yaml.ScalarNode, path: Path) -> str:
        """A scalar's text, without what only an escape can bring into it, and no path, program or file can hold."""
        text = str(node.value)
        if match := _IMPOSSIBLE.search(text):
            character = f"the character U+{ord(match[0]):04X}"
            raise self._fatal(self._mark(node), path, f"{character} is not allowed; write the text without escapes")
        return text

    def _mark(self, node: yaml.Node) -> Place:
        return self._at(node.start_mark.line + 1, node.start_mark.column + 1)

    def _at(self, line: int, column: int) -> Place:
        return Place(self._file, line, column) if self._lines else Place(self._file)

    def _problem(self, place: Place, path: Path, message: str) -> None:
        if not self._alias:  # what an alias stands for has been read where its anchor is
            self._result.problems.append(Problem(place.file, place.line, place.column, dotted(path), message))

    def _fatal(self, place: Place, path: Path, message: str) -> GridFileError:
        self._alias = None
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
