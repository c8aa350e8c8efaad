"""Plain error messages for the author of a grid file, from those of pydantic."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from typing import Any

from pydantic import BaseModel

from raybench.config.command import GridCommand
from raybench.config.grid import CellSettings, DeviceProfile, GridBudget, GridSpec, GridTarget, Override, Repeats
from raybench.config.yaml_document import KeyPath
from raybench.core.settings import SETTINGS
from raybench.core.text import cut
from raybench.devices import KINDS
from raybench.errors import close

SHOWN = 8  # number of entries of a list or map that a message shows

_OTHER_KEYS = {
    "lr": "learning_rate",
    "wd": "weight_decay",
    "bs": "batch_size",
    "dtype": "precision",
    "price": "price_per_hour",
}
"""Common other names of settings."""

_COUNT = "not a setting; set the count of a device: `devices: {gpu: {kind: cuda, count: 2}}`"
_DATA = "not a setting; the workload determines the data set, see `raybench data`"
_NO_SETTINGS = {
    "device": "not a setting; list the devices as an axis: `axes: {device: [cpu, cuda]}`",
    **dict.fromkeys(("data", "dataset"), _DATA),
    **dict.fromkeys(("gpus", "num_gpus", "accelerators"), _COUNT),
}
"""Keys at the top of a file that people expect there."""

_PLACES: Mapping[str, type[BaseModel]] = {
    "at the top level of the file": GridSpec,
    "in a device under `devices`": DeviceProfile,
    "under `workload`, next to `command`": GridCommand,
}
"""Where keys belong that are only in the wrong place."""

_MODELS: Mapping[KeyPath, type[BaseModel]] = {
    (): GridSpec,
    ("workload",): GridCommand,
    ("target",): GridTarget,
    ("repeats",): Repeats,
    ("budget",): GridBudget,
    ("overrides", 0): Override,
    ("overrides", 0, "set"): CellSettings,
}
_SETTINGS_AT = (("axes",), ("baseline",), ("include", 0), ("exclude", 0), ("overrides", 0, "when"))


def flow(value: Any) -> str:
    """A value as YAML writes it on one line; long texts, lists and maps are shortened."""
    match value:
        case None | True | False:
            return {None: "null", True: "true", False: "false"}[value]
        case dict():
            pairs = [f"{flow(key)}: {flow(item)}" for key, item in islice(value.items(), SHOWN)]
            return "{" + ", ".join(pairs) + (", …}" if len(value) > SHOWN else "}")
        case list():
            return "[" + ", ".join(map(flow, value[:SHOWN])) + (", …]" if len(value) > SHOWN else "]")
        case str():
            return excerpt(value if value.isprintable() else repr(value))
    return repr(value)


def excerpt(text: str) -> str:
    """At most 60 characters of a text, without the credentials of a URI."""
    return cut(re.sub(r"://[^\s'\"]*@", "://…@", text), 60)


def path_of(loc: tuple[str | int, ...], data: Any, missing: bool) -> KeyPath:
    """An error's place in the data: pydantic's, without the names of the alternatives it tried."""
    path: list[str | int] = []
    for part in loc:
        if (isinstance(data, dict) and part in data) or (
            isinstance(data, list) and isinstance(part, int) and part < len(data)
        ):
            path.append(part)
            data = data[part]  # type: ignore[index]
    return (*path, loc[-1]) if missing else tuple(path)


def message_of(kind: str, path: KeyPath, value: Any, context: Mapping[str, Any], fallback: str) -> str:
    """The message for one of pydantic's errors."""
    match kind:
        case "complaint":
            return fallback
        case "extra_forbidden":
            return _unknown_key(path)
        case "missing":
            example = known_keys(path[:-1]).get(path[-1], "…")
            return f"missing; add it, such as `{path[-1]}: {flow(example)}`"
        case "literal_error":
            choices = re.findall(r"'([^']*)'|(True|False)", context["expected"])
            message = _unknown_choice([text or boolean.lower() for text, boolean in choices], value)
        case "expected":
            message = f"{_described(value)} is not allowed; use {fallback}"
        case "list_type":
            such_as = "" if value is None else f", such as [{flow(value)}]"
            message = f"{_described(value)} is not allowed; use a list{such_as}"
        case "dict_type" | "model_type" if path[-1] in known_keys(path[:-1]):
            message = f"{_described(value)} is not allowed; use a map, such as {flow(known_keys(path[:-1])[path[-1]])}"
        case _:  # such as "Input should be a valid integer"
            rule = fallback.replace("dictionary", "map").replace("boolean", "boolean: true or false")
            rule = re.sub("^(Input|List|String|Dictionary|Value) | or instance of .*| after validation.*", "", rule)
            message = f"{_described(value)} is not allowed; it {rule}"
    return message + _as_axis(path, value)


def _as_axis(path: KeyPath, value: Any) -> str:
    """The hint for a list of values of one setting."""
    setting = SETTINGS.get(str(path[0])) if len(path) == 1 and isinstance(value, list) else None
    if setting is None or isinstance(setting.examples[0], list):
        return ""
    return f"; to vary it, make it an axis: `axes: {{{setting.name}: {flow(value)}}}`"


def _described(value: Any) -> str:
    """The value in the file, as text that the user can find there."""
    kinds: dict[type, str] = {str: "the text ", dict: "the map ", list: "the list "}
    return kinds.get(type(value), "") + excerpt(repr(value) if isinstance(value, str) else flow(value))


def device_alias(name: str) -> str | None:
    """The device kind for another name of it; difflib would match gpu with tpu."""
    return next((kind.name for kind in KINDS.values() if name.lower() in kind.aliases), None)


def _unknown_choice(choices: list[str], value: Any) -> str:
    listed = ", ".join(choices)
    if not isinstance(value, str):
        return f"{_described(value)} is not allowed; use one of {listed}"
    lowered = value.lower()
    choice = lowered if lowered in choices else device_alias(lowered)
    hint = f"did you mean {choice}?" if choice in choices else close(lowered, choices)
    return f"{excerpt(repr(value))} is not one of {listed}" + (f"; {hint}" if hint else "")


def _unknown_key(path: KeyPath) -> str:
    *parents, last = path
    key, keys = str(last), known_keys(tuple(parents))
    if not parents and key in _NO_SETTINGS:
        return _NO_SETTINGS[key]
    if _OTHER_KEYS.get(key) in keys:
        return f"unknown setting; did you mean {_OTHER_KEYS[key]}?"
    if parents and key == "params":
        return "write each parameter with its name, such as `params.hidden`"
    near = close(key, keys)
    for place, model in _PLACES.items():
        if key in model.model_fields:
            return f"not allowed here, only {place}" + (f"; {near}" if near else "")
    if near:
        return f"unknown setting; {near}"
    if parents[:1] in (["axes"], ["baseline"]):
        return f"unknown setting; write a parameter of your own as `params.{key}`"
    listed = f"use one of {', '.join(keys)}" if len(keys) <= 14 else "`raybench plan --schema` lists them all"
    return f"unknown setting; {listed}"


def known_keys(path: KeyPath) -> Mapping[Any, Any]:
    """The keys that are allowed in a map at this path, each with an example."""
    at = tuple(0 if isinstance(step, int) else step for step in path)
    if at in _SETTINGS_AT:
        return {"device": "cpu"} | {name: one.examples[0] for name, one in SETTINGS.items()}
    model = DeviceProfile if len(at) == 2 and at[0] == "devices" else _MODELS.get(at)
    if model:
        return {name: (field.examples or [None])[0] for name, field in model.model_fields.items()}
    # In a value of a setting that is a map.
    examples = [example for step in path if step in SETTINGS for example in SETTINGS[str(step)].examples]
    return {key: item for example in examples if isinstance(example, dict) for key, item in example.items()}
