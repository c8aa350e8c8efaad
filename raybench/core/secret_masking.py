"""Masking of users, passwords and query values in URIs, and of what looks like a credential."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

HIDDEN = "***"

# Up to the last @: a password may contain an unescaped slash, question mark or @. The second alternative matches a URI
# without its scheme.
USER = re.compile(r"(?<=://)\S*@|^[^\s:/]+:(?!//)\S*@")
QUERY = re.compile(r"([?&;#][^=&;#\s]+=)[^&;#\s]+")
_URI = re.compile(r"[^\s\"']*://\S*?(?=[\"'}\],)]*(?:\s|$))")
"""A URI in running text or YAML, without closing quotes and brackets."""

_CREDENTIAL = re.compile(r"\b(?:hf_|sk-|gh[opsu]_|github_pat_|glpat-|xox[abp]-|AKIA)[\w-]{12,}")
_NAME = r"(?:[\w.-]*[_.-])?(?:token|secret|password|passwd|key)"
_NAMED = re.compile(
    rf"(?i)((?<![\w.-])(?:{_NAME}[\"']?\s*[:=]\s*|--{_NAME}\s+)[\"']?)(?=\S*\d)(?=\S*[a-z])([\w./+=~-]{{8,}})"
)
"""A value with letters and digits after a name such as `api_key:` or `--token`."""


def redact(uri: str) -> str:
    """Mask user, password and query values of a URI: `postgresql://***@db/runs?sslkey=***`."""
    return QUERY.sub(rf"\1{HIDDEN}", USER.sub(f"{HIDDEN}@", uri))


def mask(text: str) -> str:
    """Mask each URI in a text, such as a grid file, and what looks like a credential."""
    text = _URI.sub(lambda uri: redact(uri[0]), text)
    return _NAMED.sub(
        lambda match: match[1] + _hidden(match[2]), _CREDENTIAL.sub(lambda match: _hidden(match[0]), text)
    )


def masked(values: Mapping[str, Any]) -> dict[str, Any]:
    """Mask the values of parameters that look like credentials, by themselves or by their names."""
    return {name: _masked(name, value) for name, value in values.items()}


def _masked(name: str, value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_masked(name, part) for part in value]
    if isinstance(value, Mapping):
        return masked(value)
    return mask(f"{name}: {value}").removeprefix(f"{name}: ") if isinstance(value, str) else value


def _hidden(credential: str) -> str:
    """Return what stands for a credential; two of them differ."""
    return HIDDEN + sha256(credential.encode(errors="replace")).hexdigest()[:4]
