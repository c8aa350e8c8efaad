"""Validation of a grid; all its problems are reported together."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from pathlib import Path as Folder
from typing import Any

from pydantic import ValidationError

from raybench.config.consistency import findings
from raybench.config.error_messages import message_of, path_of
from raybench.config.function_parameters import without_params
from raybench.config.grid import GridSpec
from raybench.config.setting_types import Settings
from raybench.config.yaml_document import Document, Path, dotted
from raybench.errors import Problem


def validate(document: Document, base: Folder) -> tuple[GridSpec | None, list[Problem]]:
    """The grid of a file in the folder `base`, or None, and its problems.

    Single values are checked first; then the valid ones against each other.
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
            message = without_params(data, path, base) if kind == "extra_forbidden" else None
            message = message or message_of(kind, path, detail["input"], detail.get("ctx", {}), detail["msg"])
            problems.append(_problem(document, path, message, key=kind == "extra_forbidden"))
            invalid.add(path[:2])
        try:
            spec = GridSpec.model_validate(_without(data, invalid))
        except ValidationError:  # two problems in one place: the second is reported once the first is fixed
            return None, problems
    problems += [_problem(document, path, message) for path, message in findings(spec, data, invalid, base)]
    return spec, problems


def wrong_settings(settings: Mapping[str, Any]) -> list[str]:
    """The problems of settings that are not in a grid file, such as a workload's defaults."""
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
    """The data without invalid values; lists keep their length, so that the other values keep their paths."""
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
