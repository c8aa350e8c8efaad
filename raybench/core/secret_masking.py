"""Masking of secrets in everything that is stored about a grid.

Secrets are users, passwords and queries of URIs.

No secret is part of a cell's identity, so that earlier results are recognised without them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

HIDDEN = "***"

_COMMENT_USER = re.compile(r"(?<=://)[^\s/]*@")
"""User and password of a URI in running text.

A later word of the text may also contain an @."""

# Up to the last @: a password may contain an unescaped slash, question mark or @. The second alternative matches a URI
# without its scheme.
USER = re.compile(r"(?<=://)\S*@|^[^\s:/]+:(?!//)\S*@")
QUERY = re.compile(r"([?&;#][^=&;#\s]+=)[^&;#\s]+")
_NODE = re.compile(r"(&\S+\s+)?(.*?)(\s*)", re.DOTALL)
"""A YAML scalar with its anchor and the trailing space of a block."""


def redact(uri: str) -> str:
    """Mask user, password and query values of a URI: `postgresql://***@db/runs?sslkey=***`."""
    return QUERY.sub(rf"\1{HIDDEN}", USER.sub(f"{HIDDEN}@", uri))


def mask(tree: Any) -> Any:
    """Replace each secret in plain data by `***`."""
    if isinstance(tree, Mapping):
        return {name: mask(value) for name, value in tree.items()}
    if isinstance(tree, list):
        return [mask(item) for item in tree]
    return redact(tree) if isinstance(tree, str) and "://" in tree else tree


def mask_yaml(text: str) -> str:
    """Replace each secret in a grid file by `***`, without other changes."""
    try:
        root = yaml.compose(text, yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError):
        return ""  # an unreadable file may contain secrets anywhere
    secrets = {(node.start_mark.index, node.end_mark.index): value for node, value in _secrets(root)}
    for (start, end), value in sorted(secrets.items(), reverse=True):
        anchor, _, space = _NODE.fullmatch(text[start:end]).groups("")  # type: ignore[union-attr]
        text = f"{text[:start]}{anchor}{json.dumps(value)}{space}{text[end:]}"
    return _COMMENT_USER.sub(f"{HIDDEN}@", text)  # in comments, too


def _secrets(node: Any) -> Iterator[tuple[Any, str]]:
    """Yield the scalars of a YAML document that contain secrets, each with its masked value."""
    if isinstance(node, yaml.ScalarNode):
        masked = redact(node.value) if "://" in node.value else node.value
        if masked != node.value:
            yield node, masked
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _secrets(item)
    elif isinstance(node, yaml.MappingNode):
        for _, value in node.value:
            yield from _secrets(value)
