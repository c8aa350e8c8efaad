"""Replace the names of hosts and users in a bundle by pseudonyms.

A pseudonym is a keyed hash: the same for a name in every bundle of a user, and without the key not traceable to it.
"""

from __future__ import annotations

import getpass
import hashlib
import hmac
import json
import os
import platform
import re
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import platformdirs

from raybench.core.events import Event
from raybench.errors import UsageError
from raybench.results.bundle import Bundle
from raybench.results.executions import ENDED, GRID_FILE, folder_of
from raybench.results.stored_events import Events

KEY_FILE = "pseudonyms.key"
KEY_BYTES = 32

IDENTITY = frozenset({"cell", "content", "cell_id", "trial", "aa_of", "request_id", "run", "subject", "origin"})
"""Fields that identify results: never changed. A path under `params` is in `cell`, and keeps its names."""

VOCABULARY = frozenset(
    {
        *("event", "t", "status", "check", "label", "grid", "profile", "device", "axes", "baseline", "versions"),
        *("metrics", "workload"),
    }
)
"""Fields with words of the grid file, which may be equal to a host's name: only paths are changed."""

_HOME = re.compile(r"(?:/home/|/Users/|[A-Za-z]:\\+Users\\+)([^/\\\s:\"']+)")
"""A path to a home folder, with the user's name."""

_GENERIC = frozenset({"", "root", "user", "home", "shared", "public"})
"""Names of users that tell nothing; as folders they are part of many paths."""


def with_pseudonyms(bundle: Bundle) -> Bundle:
    """Return a bundle with pseudonyms in place of the names of hosts and users, also in paths.

    Raises:
        UsageError: the key of the pseudonyms cannot be read or written.
    """
    hosts, users, ends = {platform.node()}, _users(bundle), []
    for event in bundle.events.events:
        hosts |= _hosts(event)
        users |= _users_in(json.dumps(event, ensure_ascii=False))
        if event.get("event") == ENDED:
            ends.append(event)
    # The first part of a full name may appear alone; the others are those of a network.
    hosts |= {name.partition(".")[0] for name in hosts if not name.replace(".", "").isdecimal()}
    names = _Names(_key(), hosts, {name for name in users if name.lower() not in _GENERIC})

    def changed(event: Event) -> Event:
        tree: Event = names.in_tree(event)
        return {**tree, "folder": folder_of(str(tree.get("execution")))} if event.get("event") == ENDED else tree

    events = Events(lambda: map(changed, bundle.events.events))
    folders = {str(event.get("folder")): changed(event)["folder"] for event in ends}
    executions = {
        folders[folder]: {name: names.in_file(name, text) for name, text in files.items()}
        for folder, files in bundle.events.executions.items()
        if folder in folders
    }
    records = {
        key: {name: names.in_text(text) for name, text in texts.items()} for key, texts in bundle.records.items()
    }
    return Bundle(replace(bundle.events, events=events, executions=executions), records, anonymous=True)


class _Names:
    """The names to be replaced.

    Args:
        key: of the pseudonyms.
        hosts, users: the names.
    """

    def __init__(self, key: bytes, hosts: Iterable[str], users: Iterable[str]) -> None:
        self._key = key
        self._host = _pattern(r"(?<![\w-])(?:{})(?![\w-])", hosts)
        # As a part of a path, or before the host in an address.
        self._user = _pattern(r"(?<=[/\\])(?:{0})(?![\w.-])|(?<![\w.-])(?:{0})(?=@)", users)

    def in_tree(self, tree: Any) -> Any:
        """Replace the names in the texts of plain data."""
        return self._tree(tree, hosts=True)

    def in_file(self, name: str, text: str) -> str:
        """Replace the names in a file of an execution."""
        if name.endswith(".json"):
            with suppress(ValueError, RecursionError):
                return json.dumps(self.in_tree(json.loads(text)), indent=1)
        return self.in_text(text, hosts=name != GRID_FILE)  # a device of the grid may be named as a host

    def in_text(self, text: str, hosts: bool = True) -> str:
        """Replace the names in a text."""
        text = self._user.sub(lambda match: self._pseudonym("user", match[0]), text)
        return self._host.sub(lambda match: self._pseudonym("host", match[0]), text) if hosts else text

    def _tree(self, tree: Any, hosts: bool) -> Any:
        if isinstance(tree, dict):
            return {
                name: value if name in IDENTITY else self._named(name, value, hosts) for name, value in tree.items()
            }
        if isinstance(tree, list):
            return [self._tree(item, hosts) for item in tree]
        return self.in_text(tree, hosts) if isinstance(tree, str) else tree

    def _named(self, name: str, value: Any, hosts: bool) -> Any:
        if name in ("boot", "machine_id") and isinstance(value, str) and value:
            return self._pseudonym(name.partition("_")[0], value)
        return self._tree(value, hosts and name not in VOCABULARY)

    def _pseudonym(self, kind: str, name: str) -> str:
        digest = hmac.new(self._key, f"{kind}:{name.lower()}".encode(errors="replace"), hashlib.sha256).hexdigest()
        return f"{kind}-{digest[:8]}"


def _pattern(form: str, names: Iterable[str]) -> re.Pattern[str]:
    # The longest first, since a name may begin with another.
    texts = sorted({re.escape(name) for name in names if name}, key=len, reverse=True)
    return re.compile(form.format("|".join(texts)), re.IGNORECASE) if texts else re.compile(r"(?!)")


def _hosts(event: Event) -> set[str]:
    host = event.get("host")
    names = {str(host.get("name") or "") if isinstance(host, Mapping) else str(host or "")}
    return names | set(str(event.get("execution")).split(" ")[1:-1]) if event.get("event") == ENDED else names


def _users(bundle: Bundle) -> set[str]:
    """The names of this user and those in the files of a bundle."""
    names = {Path.home().name}
    with suppress(OSError, KeyError, ImportError):
        names.add(getpass.getuser())
    for files in (*bundle.records.values(), *bundle.events.executions.values()):
        for text in files.values():
            names |= _users_in(text)
    return names


def _users_in(text: str) -> set[str]:
    return set(_HOME.findall(text))


def _key() -> bytes:
    """The user's key of pseudonyms, made at the first use."""
    path = platformdirs.user_config_path("raybench") / KEY_FILE
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with (
            suppress(FileExistsError),
            os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file,
        ):
            file.write(secrets.token_bytes(KEY_BYTES))
        key = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"{path}: the key of the pseudonyms cannot be made or read: {error.strerror or error}"
        ) from None
    if len(key) != KEY_BYTES:
        raise UsageError(f"{path}: is not a key of pseudonyms; remove it, and the next export makes another one")
    return key
