"""Selection of the MLflow store: one absolute URI, resolved once; its secrets are never displayed."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory
from textwrap import shorten

from raybench.core.options import RESULTS
from raybench.core.secret_masking import HIDDEN, mask, redact
from raybench.datasets.paths import user_path
from raybench.errors import RaybenchError, UsageError

ENVIRONMENT = "MLFLOW_TRACKING_URI"
DATABASES = ("sqlite", "postgresql", "mysql", "mssql")
SERVERS = ("http", "https", "databricks")

PLAIN = {
    r"read timeout=([\d.]+)": r"it did not answer within \1 s; MLFLOW_HTTP_REQUEST_TIMEOUT sets a longer time",
    "error code 401|password authentication failed": "it refuses the user or the password",
    f"disk (is )?full|{os.strerror(errno.ENOSPC)}": "its disk is full",
    f"Max retries exceeded|{os.strerror(errno.ECONNREFUSED)}|could not connect": "it does not answer",
}
"""Plain words for long messages of libraries that match a pattern, with its groups; the first one counts."""

MESSAGE_LENGTH = 250  # maximum length of another library's message within raybench's


class StoreError(RaybenchError):
    """The MLflow store cannot be reached or used; the message contains no secrets of its URI."""


@dataclass(frozen=True)
class Store:
    """An MLflow tracking store.

    Attributes:
        uri: absolute, with its credentials: not for display; `str()` of a store has it redacted.
        path: the database's file, if it is a file.
        artifacts: the URI under which new experiments keep their artifacts; None if a server decides.
    """

    uri: str = field(repr=False)
    path: Path | None = None
    artifacts: str | None = None

    def __str__(self) -> str:
        return redact(self.uri)


def resolve(results: Path, argument: str | None = None, grid_file: str | None = None) -> Store:
    """The store: the argument, else the grid file's, else MLFLOW_TRACKING_URI, else sqlite in the results folder.

    Nothing is opened or created. A relative path of a sqlite store is relative to the working folder.

    Raises:
        UsageError: it is not a URI of a database or a server, or has no file name; the message names its origin.
    """
    candidates = [
        ("--tracking", argument),
        ("the grid file's tracking_uri", grid_file),
        (ENVIRONMENT, os.environ.get(ENVIRONMENT)),
    ]
    results = results.absolute()
    for source, uri in candidates:
        if uri:
            return _store(uri.strip(), source, results)
    default = results / "mlflow.db"
    return Store(f"sqlite:///{default.as_posix()}", default, _artifacts(results))


def cli_flags(store: Store, results: Path) -> str:
    """Command-line flags that select a store and a results folder; empty if both are the defaults."""
    flag = "" if results.absolute() == RESULTS.absolute() else f" --results {quote(str(results))}"
    try:
        is_default = resolve(results) == store
    except UsageError:  # MLFLOW_TRACKING_URI is invalid, and --tracking replaced it
        is_default = False
    return flag + ("" if is_default else f" --tracking {as_argument(store)}")


def store_from_uri(source: str) -> Store:
    """The store of a URI, or of a database's file; a relative path is relative to the working folder."""
    uri = source.strip() if is_uri(source) else f"sqlite:///{user_path(source).as_posix()}"
    return _store(uri, "the MLflow store", Path.cwd())


def is_store(source: str) -> bool:
    """Return whether a source of results is an MLflow store: a URI or a database's file."""
    return is_uri(source) or Path(source).suffix in (".db", ".sqlite")


@contextmanager
def downloaded(store: Store, grid: str | None = None) -> Iterator[tuple[list[Path], int]]:
    """Download the grids of a store; yield their folders, which are temporary, and the number of runs left out.

    Raises:
        UsageError: it has no results of raybench, or none of the grid.
        StoreError: it cannot be reached, or is not an MLflow store.
    """
    with redacted_errors(store):
        from raybench.tracking.mlflow import download
    with TemporaryDirectory(prefix="raybench-") as folder:
        yield download(store, Path(folder), grid)


def is_uri(text: str) -> bool:
    """Return whether a text is meant as a URI, not a path."""
    return "://" in text or text == "databricks"


def is_server(uri: str) -> bool:
    """Return whether a URI names an MLflow server, which has its own UI and artifacts, rather than a database."""
    return _scheme(uri) in SERVERS


def in_a_browser(store: Store) -> str:
    """The address of an MLflow server for the browser: without secrets, and without asterisks in their place."""
    return str(store).replace(f"{HIDDEN}@", "")


def as_argument(store: Store) -> str:
    """The store as an argument of a command: its secrets are in the variable that it comes from, or left out."""
    if HIDDEN in str(store) and os.environ.get(ENVIRONMENT, "").strip() == store.uri:
        return f'"${ENVIRONMENT}"'
    return quote(str(store))


@contextmanager
def redacted_errors(store: Store) -> Iterator[None]:
    """Convert errors of MLflow, databases and connections to credential-free lines."""
    try:
        yield
    except RaybenchError:
        raise
    except Exception as error:
        message = (str(error).strip() or type(error).__name__).splitlines()[0]
        matches = ((re.search(part, str(error), re.IGNORECASE), text) for part, text in PLAIN.items())
        message = next((match.expand(text) for match, text in matches if match), message)
        raise StoreError(f"MLflow store {store}: {shorten(mask(message), MESSAGE_LENGTH, placeholder=' …')}") from None


def _scheme(uri: str) -> str:
    return re.split(r"[+:]", uri, maxsplit=1)[0].lower() if ":" in uri or uri == "databricks" else ""


def _store(uri: str, source: str, results: Path) -> Store:
    scheme = _scheme(uri)
    if scheme in SERVERS:
        return Store(uri)
    if scheme == "sqlite":
        driver, _, location = uri.partition(":///")
        file, separator, query = location.partition("?")
        if not file or file == ":memory:":
            raise UsageError(
                f"{source}: {redact(uri)} has no file name; use sqlite:///runs.db or sqlite:////home/me/runs.db"
            )
        path = Path(file).absolute()
        return Store(f"{driver}:///{path.as_posix()}{separator}{query}", path, _artifacts(path.parent))
    if scheme in DATABASES:
        return Store(uri, artifacts=_artifacts(results))
    stem = Path(uri if "://" not in uri and scheme != "file" else "runs").stem or "runs"
    raise UsageError(
        f"{source}: {redact(uri)} is not an MLflow database or server (MLflow no longer supports plain folders); "
        f"use sqlite:///{stem}.db, http://localhost:5000 or postgresql://…"
    )


def _artifacts(folder: Path) -> str:
    return (folder / "mlartifacts").as_uri()
