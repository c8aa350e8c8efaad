"""Plain messages for YAML's syntax errors."""

from __future__ import annotations

import yaml

MAX_DEPTH = 50
TOO_DEEP = f"nested more than {MAX_DEPTH} levels deep; use fewer"

_AT_THE_OPENING = (
    ("could not find expected ':'", "a ':' is missing after this name"),
    ("expected ',' or ']'", "the list opened here with '[' is not closed: ',' or ']' is missing {before}"),
    ("expected ',' or '}'", "the map opened here with '{{' is not closed: ',' or '}}' is missing {before}"),
    ("unexpected end of stream", "the quote opened here is not closed"),
    ("unexpected document separator", "the quote opened here is not closed"),
)
"""Errors that YAML detects late: the problem is where the construct begins."""

_WHERE_FOUND = (
    (TOO_DEEP, TOO_DEEP),
    ("but found another document", "a second document begins here (---); a grid file is one document"),
    ("mapping values are not allowed", "a ':' is not expected here; check the indentation, or put the value in quotes"),
    ("expected <block end>", "does not match the lines above; check the indentation"),
    ("sequence entries are not allowed", "a '-' is not expected here; begin a list on a line of its own"),
    ("expected the node content, but found '<stream end>'", "ends too early: ',', ']' or '}' is missing"),
    ("expected the node content", "a value is missing here"),
    ("expected alphabetic or numeric", "'*' and '&' begin a name in YAML; put the value in quotes"),
    ("unknown escape character", "a backslash in double quotes begins an escape; use single quotes"),
    ("cannot start any token", "a value cannot begin with this character; put it in quotes"),
)


def plain_words(error: yaml.YAMLError, text: str) -> tuple[int, int, str]:
    """Line and column (from 1) of a syntax error, and what is wrong, for users who do not know YAML."""
    if isinstance(error, yaml.reader.ReaderError):
        before = text[: error.position]
        column = error.position - (before.rfind("\n") + 1)
        return (
            before.count("\n") + 1,
            column + 1,
            f"the character U+{ord(text[error.position]):04X} is not allowed in YAML",
        )
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
            before = "in this line" if mark.line == line else f"before line {line + 1}"
            return mark.line + 1, mark.column + 1, template.format(before=before)
    for fragment, template in _WHERE_FOUND:
        if fragment in problem:
            return line + 1, column + 1, template
    return line + 1, column + 1, f"not valid YAML: {problem}"
