"""Masking of users, passwords and query values in URIs."""

from __future__ import annotations

import re

HIDDEN = "***"

# Up to the last @: a password may contain an unescaped slash, question mark or @. The second alternative matches a URI
# without its scheme.
USER = re.compile(r"(?<=://)\S*@|^[^\s:/]+:(?!//)\S*@")
QUERY = re.compile(r"([?&;#][^=&;#\s]+=)[^&;#\s]+")
_URI = re.compile(r"[^\s\"']*://\S*?(?=[\"'}\],)]*(?:\s|$))")
"""A URI in running text or YAML, without closing quotes and brackets."""


def redact(uri: str) -> str:
    """Mask user, password and query values of a URI: `postgresql://***@db/runs?sslkey=***`."""
    return QUERY.sub(rf"\1{HIDDEN}", USER.sub(f"{HIDDEN}@", uri))


def mask(text: str) -> str:
    """Mask each URI in a text, such as a grid file."""
    return _URI.sub(lambda uri: redact(uri[0]), text)
