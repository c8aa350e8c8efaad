"""Everything that is wrong with a grid, at once."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from pathlib import Path as Folder
from typing import Any

from pydantic import ValidationError

from raybench.config.consistency import findings
from raybench.config.error_messages import message_of, path_of
from raybench.config.grid import GridSpec
from raybench.config.setting_types import Settings
from raybench.config.yaml_document import Document, Path, dotted
from raybench.errors import Problem


def validate(document: Document, base: Folder) -> tuple[GridSpec | None, list[Problem]]:
    """The grid that a file of the folder `base` holds, or None, and what is wrong with it.

    What is wrong with single values is found first; what is right is then checked against itself without them.
    """
    problems = list(document.problems)
    invalid: set[Path] = set()
    data = document.value
    spec: GridSpec | None = None
    try:
        spec = GridSpec.model_validate(data)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            kind = detail["type"]
            path = path_of(detail["loc"], data, missing=kind == "missing")
            message = message_of(kind, path, detail["input"], detail.get("ctx", {}), detail["msg"])
            problems.append(_problem(document, path, message, key=kind == "extra_forbidden"))
            invalid.add(path[:2])
        try:
            spec = GridSpec.model_validate(_without(data, invalid))
        except ValidationError:  # two faults in one place: the second is told once the first is mended
            return None, problems
    problems += [_problem(document, path, message) for path, message in findings(spec, data, invalid, base)]
    return spec, problems


def wrong_settings(settings: Mapping[str, Any]) -> list[str]:
    """What is wrong with settings that come from elsewhere than a grid file, such as a workload's own recipe."""
    try:
        Settings.model_validate(dict(settings))
    except ValidationError as error:
        messages = []
        for detail in error.errors(include_url=False):
            path = path_of(detail["loc"], settings, missing=detail["type"] == "missing")
            grid_path = ("overrides", 0, "set", *path)  # where a grid file has settings and nothing else
            message = message_of(detail["type"], grid_path, detail["input"], detail.get("ctx", {}), detail["msg"])
            messages.append(f"{dotted(path)}: {message}")
        return messages
    return []


def _problem(document: Document, path: Path, message: str, key: bool = False) -> Problem:
    place = document.place(path, key)
    return Problem(place.file, place.line, place.column, dotted(path), message)


def _without(data: dict[str, Any], invalid: Iterable[Path]) -> dict[str, Any]:
    """The data without what is wrong; lists keep their length, so that what is left keeps its path."""
    empty: dict[str | int, Any] = {"include": {}, "exclude": {}, "overrides": {"when": {}, "set": {}}}
    cleaned = copy.deepcopy(data)
    for path in invalid:
        section = cleaned.get(str(path[0]))
        if len(path) == 2 and isinstance(section, list) and path[0] in empty:
            section[int(path[1])] = empty[path[0]]
        elif len(path) == 2 and isinstance(section, dict) and path[0] in ("axes", "devices", "baseline"):
            section.pop(path[1], None)
        else:
            cleaned.pop(str(path[0]), None)
    return {"name": "unnamed", "workload": "unknown"} | cleaned
